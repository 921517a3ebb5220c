"""TensorFlow's norms."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last
from metaop.errors import UnsupportedOpError

bind.unsupported("lp_pool", reason="it pools by maximum and mean only")


@bind
def global_lp_pool(x, *, p):
    sizes = list(x.shape)
    # Of two axes it would take the norm of a matrix.
    flat = tf.reshape(x, sizes[:2] + [int(np.prod(sizes[2:]))])
    return tf.reshape(tf.norm(flat, ord=p, axis=2), sizes[:2] + [1] * (len(sizes) - 2))


@bind
def lp_normalization(x, *, axis, p):
    if p != 2:
        raise UnsupportedOpError("tensorflow: it normalizes by the L2 norm only")
    return tf.math.l2_normalize(x, axis=axis, epsilon=float(np.finfo(x.dtype.as_numpy_dtype).tiny))


@bind
def rms_norm(x, scale=None, *, axis, epsilon):
    rank = len(x.shape)
    mean = tf.math.reduce_mean(tf.math.square(x), axis=list(range(axis % rank, rank)), keepdims=True)
    y = x * tf.math.rsqrt(mean + epsilon)
    return y if scale is None else y * scale


@bind
def lrn(x, *, size, alpha, beta, bias):
    if len(x.shape) != 4 or size % 2 == 0 or x.dtype == tf.float64:
        raise UnsupportedOpError("tensorflow: its local response normalization is for images, odd sizes and no float64")
    y = tf.nn.local_response_normalization(
        channels_last(x), depth_radius=size // 2, bias=bias, alpha=alpha / size, beta=beta
    )
    return channels_first(y)
