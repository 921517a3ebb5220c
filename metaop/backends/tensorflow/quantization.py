"""Quantisation from TensorFlow's own arithmetic.

``tf.quantization.quantize`` takes a range where this takes a scale and a zero point, and widens it as it sees fit.
"""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last
from metaop.errors import UnsupportedOpError


def spread(values, shape, axis, block_size):
    """One value for each element of ``shape``, by broadcasting."""
    if values.shape.num_elements() == 1:
        return tf.reshape(values, [])
    if block_size:
        return tf.gather(values, np.arange(shape[axis]) // block_size, axis=axis)
    sizes = [1] * len(shape)
    sizes[axis] = -1
    return tf.reshape(values, sizes)


@bind
def quantize_linear(x, scale, zero_point=None, *, axis, block_size, output_dtype):
    if zero_point is not None:
        dtype = zero_point.dtype
    else:
        dtype = tf.uint8 if output_dtype is None else tf.dtypes.as_dtype(output_dtype)
    # In double, where adding the zero point to a whole number of any floating dtype does not round.
    whole = tf.cast(tf.math.round(x / spread(scale, x.shape, axis, block_size)), tf.float64)
    if zero_point is not None:
        whole = whole + spread(tf.cast(zero_point, tf.float64), x.shape, axis, block_size)
    return tf.cast(tf.clip_by_value(whole, float(dtype.min), float(dtype.max)), dtype)


@bind
def dequantize_linear(x, scale, zero_point=None, *, axis, block_size):
    whole = tf.cast(x, tf.int32)
    if zero_point is not None:
        whole = whole - spread(tf.cast(zero_point, tf.int32), x.shape, axis, block_size)
    return tf.cast(whole, scale.dtype) * spread(scale, x.shape, axis, block_size)


def shifted(values, zero_point):
    """In int32, less the zero point."""
    values = tf.cast(values, tf.int32)
    return values if zero_point is None else values - tf.cast(zero_point, tf.int32)


@bind
def matmul_integer(a, b, a_zero_point=None, b_zero_point=None):
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise UnsupportedOpError("TensorFlow multiplies matrices; give the vector an axis of size 1")
    if a_zero_point is not None and a_zero_point.shape.num_elements() > 1:
        a_zero_point = a_zero_point[:, tf.newaxis]
    return tf.linalg.matmul(shifted(a, a_zero_point), shifted(b, b_zero_point))


@bind
def conv_integer(x, w, x_zero_point=None, w_zero_point=None, *, strides, pads, dilations, group):
    spatial = len(w.shape) - 2
    if spatial not in (1, 2):
        raise UnsupportedOpError("TensorFlow convolves integers over 1 or 2 spatial axes; got {}".format(spatial))
    if max(strides or (1,)) > 1 and max(dilations or (1,)) > 1:
        raise UnsupportedOpError("TensorFlow's convolution has strides or dilations, not both")
    if w_zero_point is not None and w_zero_point.shape.num_elements() > 1:
        w_zero_point = tf.reshape(w_zero_point, [-1] + [1] * (spatial + 1))
    x, w = shifted(x, x_zero_point), shifted(w, w_zero_point)
    if pads is not None:
        x = tf.pad(x, [[0, 0], [0, 0]] + [list(pair) for pair in zip(pads[:spatial], pads[spatial:])])
    weights = [tf.transpose(part, list(range(2, spatial + 2)) + [1, 0]) for part in tf.split(w, group, axis=0)]
    parts = [
        tf.nn.convolution(channels_last(part), kernel, strides=strides, padding="VALID", dilations=dilations)
        for part, kernel in zip(tf.split(x, group, axis=1), weights)
    ]
    return channels_first(parts[0] if group == 1 else tf.concat(parts, axis=-1))


bind.unsupported(
    "dynamic_quantize_linear",
    reason="tf.quantization.quantize takes the range as given, and nudges it so that the zero point is whole",
)
bind.unsupported(
    "qlinear_matmul",
    "qlinear_conv",
    reason="its quantised kernels take ranges for scales and zero points, and requantise by another arithmetic",
)
