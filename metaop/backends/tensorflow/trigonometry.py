"""TensorFlow's trigonometric and hyperbolic functions."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind

bind.rename(
    {
        "tan": tf.math.tan,
        "asin": tf.math.asin,
        "acos": tf.math.acos,
        "atan": tf.math.atan,
        "sinh": tf.math.sinh,
        "cosh": tf.math.cosh,
        "asinh": tf.math.asinh,
        "acosh": tf.math.acosh,
        "atanh": tf.math.atanh,
    }
)
