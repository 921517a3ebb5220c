"""TensorFlow's remainders, and its exponentials of small numbers."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind, where_kernels_exist

bind.rename({"log1p": tf.math.log1p, "expm1": tf.math.expm1})


@bind
@where_kernels_exist
def mod(x, y, *, fmod):
    return tf.raw_ops.TruncateMod(x=x, y=y) if fmod else tf.raw_ops.FloorMod(x=x, y=y)
