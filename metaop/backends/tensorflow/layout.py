"""Between metaop's ``[N, C, spatial...]`` and the ``[N, spatial..., C]`` of TensorFlow's CPU kernels."""

import numpy as np
import tensorflow as tf


def channels_last(x):
    """``[N, C, spatial...]`` as ``[N, spatial..., C]``."""
    rank = len(x.shape)
    return tf.transpose(x, [0] + list(range(2, rank)) + [1])


def channels_first(x):
    """``[N, spatial..., C]`` as ``[N, C, spatial...]``."""
    rank = len(x.shape)
    return tf.transpose(x, [0, rank - 1] + list(range(1, rank - 1)))


def pad_spatial(x, begins, ends, value=0.0):
    """``x [N, spatial..., C]`` with ``value`` before and after its spatial axes."""
    if not any(begins) and not any(ends):
        return x
    widths = [(0, 0)] + list(zip(begins, ends)) + [(0, 0)]
    return tf.pad(x, np.array(widths, np.int32), mode="CONSTANT", constant_values=x.dtype.as_numpy_dtype(value))


def every(x, strides):
    """Every ``strides``-th element of ``x [N, spatial..., C]``."""
    if all(s == 1 for s in strides):
        return x
    return x[(slice(None),) + tuple(slice(None, None, s) for s in strides)]
