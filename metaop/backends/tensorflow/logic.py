"""TensorFlow's comparisons and logic."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind

bind.rename(
    {
        "where": tf.where,
        "equal": tf.math.equal,
        "not_equal": tf.math.not_equal,
        "greater": tf.math.greater,
        "greater_equal": tf.math.greater_equal,
        "less": tf.math.less,
        "less_equal": tf.math.less_equal,
        "logical_and": tf.math.logical_and,
        "logical_or": tf.math.logical_or,
        "logical_xor": tf.math.logical_xor,
        "logical_not": tf.math.logical_not,
        "is_nan": tf.math.is_nan,
    }
)


@bind
def is_inf(x, *, detect_negative, detect_positive):
    if detect_negative and detect_positive:
        return tf.math.is_inf(x)
    if detect_negative or detect_positive:
        return tf.math.equal(x, tf.constant(float("-inf" if detect_negative else "inf"), x.dtype))
    return tf.zeros_like(x, dtype=tf.bool)
