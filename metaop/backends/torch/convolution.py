"""PyTorch's convolutions. They pad both ends of an axis alike; uneven padding is a step of its own."""

import torch.nn.functional as F

from metaop.backends.torch.bindings import bind
from metaop.backends.torch.padding import torch_pads


def convolve(function, x, w, b, strides, pads, dilations, group):
    begins, ends = pads[: len(strides)], pads[len(strides) :]
    if begins != ends:
        x = F.pad(x, torch_pads(begins, ends))
        begins = 0
    return function(x, w, b, strides, begins, dilations, group)


@bind
def conv1d(x, w, b=None, *, strides, pads, dilations, group):
    return convolve(F.conv1d, x, w, b, strides, pads, dilations, group)


@bind
def conv2d(x, w, b=None, *, strides, pads, dilations, group):
    # Written out where nothing is uneven: the most used of all, and the slices take a tenth of a small one's time.
    top, left, bottom, right = pads
    if top == bottom and left == right:
        return F.conv2d(x, w, b, strides, (top, left), dilations, group)
    return convolve(F.conv2d, x, w, b, strides, pads, dilations, group)


@bind
def conv3d(x, w, b=None, *, strides, pads, dilations, group):
    return convolve(F.conv3d, x, w, b, strides, pads, dilations, group)


@bind
def depthwise_conv2d(x, w, b=None, *, strides, pads, dilations):
    return conv2d(x, w, b, strides=strides, pads=pads, dilations=dilations, group=x.shape[1])


def convolve_transposed(function, x, w, b, strides, pads, output_padding, dilations, group):
    begins, ends = pads[: len(strides)], pads[len(strides) :]
    if begins == ends:
        return function(x, w, b, strides, begins, output_padding, group, dilations)
    y = function(x, w, b, strides, 0, output_padding, group, dilations)
    return y[(Ellipsis,) + tuple(slice(begin, size - end) for begin, end, size in zip(begins, ends, y.shape[2:]))]


@bind
def conv_transpose1d(x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return convolve_transposed(F.conv_transpose1d, x, w, b, strides, pads, output_padding, dilations, group)


@bind
def conv_transpose2d(x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return convolve_transposed(F.conv_transpose2d, x, w, b, strides, pads, output_padding, dilations, group)


@bind
def conv_transpose3d(x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return convolve_transposed(F.conv_transpose3d, x, w, b, strides, pads, output_padding, dilations, group)
