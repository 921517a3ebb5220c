"""TensorFlow's pooling; its kernels want channels last, and input that is padded already."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last, every, pad_spatial
from metaop.errors import UnsupportedOpError

KERNELS = {
    ("MAX", 1): (tf.nn.max_pool1d, "NWC"),
    ("MAX", 2): (tf.nn.max_pool2d, "NHWC"),
    ("MAX", 3): (tf.nn.max_pool3d, "NDHWC"),
    ("AVG", 1): (tf.nn.avg_pool1d, "NWC"),
    ("AVG", 2): (tf.nn.avg_pool2d, "NHWC"),
    ("AVG", 3): (tf.nn.avg_pool3d, "NDHWC"),
}


def window_counts(sizes, reach, strides, pads, ceil_mode):
    """How many windows there are along each axis; with ``ceil_mode`` none starts in the padding at the end."""
    spatial = len(sizes)
    counts = []
    for i, size in enumerate(sizes):
        room = size + pads[i] + pads[i + spatial] - reach[i]
        count = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        if ceil_mode and (count - 1) * strides[i] >= size + pads[i]:
            count -= 1
        counts.append(count)
    return counts


def padded(x, value, counts, reach, strides, pads):
    """``x [N, spatial..., C]`` with all that its windows reach."""
    begins = pads[: len(counts)]
    ends = [
        max(0, (count - 1) * stride + extent - size - begin)
        for count, stride, extent, size, begin in zip(counts, strides, reach, x.shape[1:-1], begins)
    ]
    return pad_spatial(x, begins, ends, value)


def pool(kind, x, kernel_shape, strides, dilations):
    spatial = len(kernel_shape)
    if spatial == 3 and x.dtype != tf.float32:
        raise UnsupportedOpError("tensorflow: no kernel for 3-D pooling of {}, only of float32".format(x.dtype.name))
    if any(d != 1 for d in dilations):
        # TensorFlow takes dilations only with strides of 1.
        y = tf.nn.pool(
            x,
            window_shape=list(kernel_shape),
            pooling_type=kind,
            strides=[1] * spatial,
            padding="VALID",
            dilations=list(dilations),
        )
        return every(y, strides)
    function, layout = KERNELS[kind, spatial]
    return function(x, ksize=list(kernel_shape), strides=list(strides), padding="VALID", data_format=layout)


def max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode):
    x = channels_last(x)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations)]
    counts = window_counts(x.shape[1:-1], reach, strides, pads, ceil_mode)
    x = padded(x, -np.inf, counts, reach, strides, pads)
    return channels_first(pool("MAX", x, kernel_shape, strides, dilations))


def divisors(sizes, kernel_shape, strides, pads, dilations, counts, count_include_pad):
    """How many elements each window averages, as ``[windows..., 1]``."""
    spatial = len(sizes)
    result = np.ones((1,) * (spatial + 1))
    for i, size in enumerate(sizes):
        starts = np.arange(counts[i]) * strides[i] - pads[i]
        first, last = (-pads[i], size + pads[i + spatial]) if count_include_pad else (0, size)
        read = starts[:, None] + np.arange(kernel_shape[i]) * dilations[i]
        inside = np.sum((read >= first) & (read < last), axis=1)
        result = result * inside.reshape((-1,) + (1,) * (spatial - i))
    return result


def average_pool(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    x = channels_last(x)
    sizes = x.shape[1:-1]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations)]
    counts = window_counts(sizes, reach, strides, pads, ceil_mode)
    taps = float(np.prod(kernel_shape))
    averaged = divisors(sizes, kernel_shape, strides, pads, dilations, counts, count_include_pad)
    y = pool("AVG", padded(x, 0.0, counts, reach, strides, pads), kernel_shape, strides, dilations)
    if (averaged != taps).any():
        # The kernel has divided by all taps.
        y = y * tf.constant(taps / averaged, y.dtype)
    return channels_first(y)


def max_pooling(name):
    def bound(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
        return max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode)

    bound.__name__ = name
    bind(bound)


def average_pooling(name):
    def bound(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
        return average_pool(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)

    bound.__name__ = name
    bind(bound)


for rank in "123":
    max_pooling("max_pool{}d".format(rank))
    average_pooling("average_pool{}d".format(rank))


@bind
def global_average_pool(x):
    return tf.math.reduce_mean(x, axis=list(range(2, len(x.shape))), keepdims=True)


@bind
def global_max_pool(x):
    return tf.math.reduce_max(x, axis=list(range(2, len(x.shape))), keepdims=True)
