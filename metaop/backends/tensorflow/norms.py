"""TensorFlow's norms, and its logarithms of sums."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind, where_kernels_exist


def as_array(axes):
    """Axes as TensorFlow takes them: it would take an empty list for floats."""
    return None if axes is None else np.array(axes, np.int32)


@bind
@where_kernels_exist
def reduce_l1(x, *, axes, keepdims):
    # The unsigned have no absolute value, and need none.
    size = x if x.dtype.is_unsigned else tf.math.abs(x)
    return tf.math.reduce_sum(size, axis=as_array(axes), keepdims=keepdims)


@bind
def reduce_l2(x, *, axes, keepdims):
    return tf.math.reduce_euclidean_norm(x, axis=as_array(axes), keepdims=keepdims)


@bind
def reduce_sum_square(x, *, axes, keepdims):
    return tf.math.reduce_sum(tf.math.square(x), axis=as_array(axes), keepdims=keepdims)


@bind
def reduce_log_sum(x, *, axes, keepdims):
    return tf.math.log(tf.math.reduce_sum(x, axis=as_array(axes), keepdims=keepdims))


@bind
def reduce_log_sum_exp(x, *, axes, keepdims):
    return tf.math.reduce_logsumexp(x, axis=as_array(axes), keepdims=keepdims)
