"""MXNet's convolutions. They pad both ends of an axis alike; uneven padding is a step of its own."""

import mxnet as mx

from metaop.backends.mxnet.bindings import VERSION, bind
from metaop.backends.mxnet.padding import padded


def convolve(x, w, b, strides, pads, dilations, group):
    begins, ends = pads[: len(strides)], pads[len(strides) :]
    if begins != ends:
        x = padded(x, (0, 0) + begins, (0, 0) + ends, "constant", 0.0)
        begins = (0,) * len(begins)
    return mx.npx.convolution(
        x,
        w,
        b,
        kernel=w.shape[2:],
        stride=strides,
        dilate=dilations,
        pad=begins,
        num_filter=w.shape[0],
        num_group=group,
        no_bias=b is None,
    )


@bind
def conv1d(x, w, b=None, *, strides, pads, dilations, group):
    return convolve(x, w, b, strides, pads, dilations, group)


@bind
def conv2d(x, w, b=None, *, strides, pads, dilations, group):
    return convolve(x, w, b, strides, pads, dilations, group)


@bind
def conv3d(x, w, b=None, *, strides, pads, dilations, group):
    return convolve(x, w, b, strides, pads, dilations, group)


@bind
def depthwise_conv2d(x, w, b=None, *, strides, pads, dilations):
    return convolve(x, w, b, strides, pads, dilations, x.shape[1])


def convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group):
    begins, ends = pads[: len(strides)], pads[len(strides) :]
    even = begins == ends
    y = mx.npx.deconvolution(
        x,
        w,
        b,
        kernel=w.shape[2:],
        stride=strides,
        dilate=dilations,
        pad=begins if even else (0,) * len(begins),
        adj=output_padding,
        num_filter=w.shape[1] * group,
        num_group=group,
        no_bias=b is None,
    )
    if even:
        return y
    return y[
        (slice(None), slice(None))
        + tuple(slice(begin, size - end) for begin, end, size in zip(begins, ends, y.shape[2:]))
    ]


@bind
def conv_transpose1d(x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)


@bind
def conv_transpose2d(x, w, b=None, *, strides, pads, output_padding, dilations, group):
    return convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)


if VERSION < (1, 9):
    bind.unsupported("conv_transpose3d", reason="MXNet has a 3-D Deconvolution for the CPU since 1.9")
else:

    @bind
    def conv_transpose3d(x, w, b=None, *, strides, pads, output_padding, dilations, group):
        return convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)
