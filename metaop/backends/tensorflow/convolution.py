"""TensorFlow's convolutions.

Their CPU kernels want channels last, and cannot differentiate groups, nor padding together with dilations: inputs are
transposed (and, where the kernel does not pad, padded) before, and groups are computed one by one.
"""

import functools

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last, every, pad_spatial
from metaop.errors import UnsupportedOpError

FORMATS = {1: "NWC", 2: "NHWC", 3: "NDHWC"}


def kernel(x, w, strides, dilations, padding="VALID"):
    """The kernel for ``x [N, spatial..., C]`` and ``w [spatial..., C, M]``."""
    spatial = len(strides)
    common = {"padding": padding, "data_format": FORMATS[spatial]}
    if spatial == 1:
        return tf.nn.conv1d(x, w, stride=list(strides), dilations=list(dilations), **common)
    function = tf.nn.conv2d if spatial == 2 else tf.nn.conv3d
    return function(x, w, strides=[1] + list(strides) + [1], dilations=[1] + list(dilations) + [1], **common)


def transposed_kernel(x, w, sizes, strides, dilations):
    """The kernel for ``x [N, spatial..., C]`` and ``w [spatial..., M, C]``; ``sizes`` are those of the result."""
    spatial = len(strides)
    shape = [x.shape[0]] + list(sizes) + [w.shape[-2]]
    common = {"padding": "VALID", "data_format": FORMATS[spatial]}
    if spatial == 1:
        return tf.nn.conv1d_transpose(x, w, shape, strides=list(strides), dilations=list(dilations), **common)
    function = tf.nn.conv2d_transpose if spatial == 2 else tf.nn.conv3d_transpose
    return function(x, w, shape, strides=[1] + list(strides) + [1], dilations=[1] + list(dilations) + [1], **common)


@functools.lru_cache(maxsize=None)
def dilates(spatial, dtype):
    """Whether dilated convolutions have kernels both ways: the way back is the transposed convolution.

    That depends on the dtype, the device and how TensorFlow was built (oneDNN), so it is tried out.
    """
    # Eagerly, also while a function is traced.
    with tf.init_scope():
        x, w = tf.zeros([1] + [3] * spatial + [1], dtype), tf.zeros([2] * spatial + [1, 1], dtype)
        try:
            transposed_kernel(x, w, (5,) * spatial, (1,) * spatial, (2,) * spatial)
        except tf.errors.OpError:
            return False
        return True


def convolve_group(x, w, strides, pads, dilations):
    spatial = len(strides)
    plain = all(d == 1 for d in dilations)
    if plain and spatial == 2 and any(pads):
        top, left, bottom, right = pads
        return kernel(x, w, strides, dilations, padding=[[0, 0], [top, bottom], [left, right], [0, 0]])
    x = pad_spatial(x, pads[:spatial], pads[spatial:])
    if plain or dilates(spatial, x.dtype):
        return kernel(x, w, strides, dilations)
    # The elements that one tap meets are dilations apart: dealt out over the batch they lie side by side.
    rest = [(0, -n % d) for n, d in zip(x.shape[1:-1], dilations)]
    dealt = tf.space_to_batch(x, block_shape=list(dilations), paddings=rest)
    y = kernel(dealt, w, (1,) * spatial, (1,) * spatial)
    sizes = [n - (k - 1) * d for n, k, d in zip(x.shape[1:-1], w.shape[:-2], dilations)]
    surplus = [(0, have * d - size) for have, d, size in zip(y.shape[1:-1], dilations, sizes)]
    return every(tf.batch_to_space(y, block_shape=list(dilations), crops=surplus), strides)


def convolve_depthwise(x, w, strides, pads, dilations):
    """For ``x [N, H, W, C]`` and ``w [C*M, 1, H, W]``."""
    channels = x.shape[-1]
    x = pad_spatial(x, pads[:2], pads[2:])
    w = tf.transpose(w, [2, 3, 1, 0])
    w = tf.reshape(w, list(w.shape[:2]) + [channels, w.shape[3] // channels])
    # The kernel takes one stride for both axes, and dilations only with a stride of 1.
    direct = strides[0] == strides[1] and (strides[0] == 1 or all(d == 1 for d in dilations))
    step = list(strides) if direct else [1, 1]
    y = tf.nn.depthwise_conv2d(
        x, w, strides=[1] + step + [1], padding="VALID", data_format="NHWC", dilations=list(dilations)
    )
    return y if direct else every(y, strides)


def convolve(x, w, b, strides, pads, dilations, group):
    spatial = len(strides)
    x = channels_last(x)
    if spatial == 2 and 1 < group == x.shape[-1]:
        y = convolve_depthwise(x, w, strides, pads, dilations)
    else:
        w = tf.transpose(w, list(range(2, spatial + 2)) + [1, 0])
        if group == 1:
            y = convolve_group(x, w, strides, pads, dilations)
        else:
            parts = zip(tf.split(x, group, axis=-1), tf.split(w, group, axis=-1))
            y = tf.concat([convolve_group(part, own, strides, pads, dilations) for part, own in parts], axis=-1)
    return channels_first(y if b is None else tf.nn.bias_add(y, b))


def convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group):
    spatial = len(strides)
    if any(d > 1 for d in dilations) and not dilates(spatial, x.dtype):
        raise UnsupportedOpError(
            "tensorflow: no kernel here for a dilated transposed convolution of {}".format(x.dtype.name)
        )
    x = channels_last(x)
    w = tf.transpose(w, list(range(2, spatial + 2)) + [1, 0])
    # Of output padding the kernel takes less than a stride; the rest is zeros behind the end.
    extra = [min(p, s - 1) for p, s in zip(output_padding, strides)]
    sizes = [
        (n - 1) * s + (k - 1) * d + 1 + p
        for n, s, k, d, p in zip(x.shape[1:-1], strides, w.shape[:-2], dilations, extra)
    ]
    parts = zip(tf.split(x, group, axis=-1), tf.split(w, group, axis=-1))
    y = tf.concat([transposed_kernel(part, own, sizes, strides, dilations) for part, own in parts], axis=-1)
    y = pad_spatial(y, (0,) * spatial, [p - e for p, e in zip(output_padding, extra)])
    if any(pads):
        ends = [n - p for n, p in zip(y.shape[1:-1], pads[spatial:])]
        y = y[(slice(None),) + tuple(slice(p, end) for p, end in zip(pads[:spatial], ends))]
    return channels_first(y if b is None else tf.nn.bias_add(y, b))


def convolution(name):
    def conv(x, w, b=None, *, strides, pads, dilations, group):
        return convolve(x, w, b, strides, pads, dilations, group)

    conv.__name__ = name
    bind(conv)


def transposed_convolution(name):
    def conv_transpose(x, w, b=None, *, strides, pads, output_padding, dilations, group):
        return convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)

    conv_transpose.__name__ = name
    bind(conv_transpose)


for rank in "123":
    convolution("conv{}d".format(rank))
    transposed_convolution("conv_transpose{}d".format(rank))


@bind
def depthwise_conv2d(x, w, b=None, *, strides, pads, dilations):
    y = convolve_depthwise(channels_last(x), w, strides, pads, dilations)
    return channels_first(y if b is None else tf.nn.bias_add(y, b))
