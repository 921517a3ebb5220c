"""MXNet's pooling. It pads both ends of an axis alike, and its ``full`` convention may put a window past the end."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind
from metaop.backends.mxnet.padding import padded
from metaop.errors import UnsupportedOpError


def window_counts(sizes, kernel, strides, pads, ceil_mode):
    """How many windows there are along each axis, by ONNX and by MXNet's ``full`` (or ``valid``) convention."""
    ours, theirs = [], []
    for size, window, stride, begin, end in zip(sizes, kernel, strides, pads, pads[len(kernel) :]):
        room = size + begin + end - window
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        theirs.append(count)
        ours.append(count - 1 if ceil_mode and (count - 1) * stride >= size + begin else count)
    return ours, theirs


def pooled(x, kind, kernel, strides, pads, ceil_mode, count_include_pad=True):
    return mx.npx.pooling(
        x,
        kernel=kernel,
        pool_type=kind,
        global_pool=False,
        pooling_convention="full" if ceil_mode else "valid",
        stride=strides,
        pad=pads,
        count_include_pad=count_include_pad,
    )


def covered(x, kernel, strides, pads, counts, value):
    """The input with just what the windows cover, so that neither padding nor ``ceil_mode`` is left to do."""
    sizes = [(count - 1) * stride + window for count, stride, window in zip(counts, strides, kernel)]
    ends = [size - own - begin for size, own, begin in zip(sizes, x.shape[2:], pads)]
    if any(end < 0 for end in ends):
        index = tuple(slice(0, min(own, own + end)) for own, end in zip(x.shape[2:], ends))
        x = x[(slice(None), slice(None)) + index]
    begins = tuple(pads[: len(kernel)])
    return padded(x, (0, 0) + begins, (0, 0) + tuple(max(end, 0) for end in ends), "constant", value)


def pool(x, kind, kernel, strides, pads, ceil_mode, count_include_pad=True):
    begins, ends = pads[: len(kernel)], pads[len(kernel) :]
    ours, theirs = window_counts(x.shape[2:], kernel, strides, pads, ceil_mode)
    fits = all(k <= n + p + q for k, n, p, q in zip(kernel, x.shape[2:], begins, ends))
    if begins == ends and ours == theirs and fits:
        return pooled(x, kind, kernel, strides, begins, ceil_mode, count_include_pad)
    nothing = (0,) * len(kernel)
    if kind == "max":
        return pooled(covered(x, kernel, strides, pads, ours, -float("inf")), kind, kernel, strides, nothing, False)
    sums = pooled(covered(x, kernel, strides, pads, ours, 0.0), "sum", kernel, strides, nothing, False)
    return sums / members(x, kernel, strides, pads, ours, count_include_pad)


def members(x, kernel, strides, pads, counts, count_include_pad):
    """How many elements each window averages: those of the input, maybe those of the padding, and no others."""
    result = mx.np.ones((), dtype=x.dtype, ctx=x.ctx)
    for axis, count in enumerate(counts):
        begin, end = (pads[axis], pads[axis + len(kernel)]) if count_include_pad else (0, 0)
        starts = mx.np.arange(count, dtype=x.dtype, ctx=x.ctx) * strides[axis] - pads[axis]
        ends = mx.np.minimum(starts + kernel[axis], x.shape[axis + 2] + end)
        found = ends - mx.np.maximum(starts, -begin)
        result = result * found.reshape((-1,) + (1,) * (len(counts) - 1 - axis))
    return result


def pool_max(x, kernel, strides, pads, dilations, ceil_mode):
    if any(dilation != 1 for dilation in dilations):
        raise UnsupportedOpError("mxnet: Pooling has no dilations")
    return pool(x, "max", kernel, strides, pads, ceil_mode)


def pool_average(x, kernel, strides, pads, dilations, ceil_mode, count_include_pad):
    if any(dilation != 1 for dilation in dilations):
        raise UnsupportedOpError("mxnet: Pooling has no dilations")
    return pool(x, "avg", kernel, strides, pads, ceil_mode, count_include_pad)


@bind
def max_pool1d(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return pool_max(x, kernel_shape, strides, pads, dilations, ceil_mode)


@bind
def max_pool2d(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return pool_max(x, kernel_shape, strides, pads, dilations, ceil_mode)


@bind
def max_pool3d(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return pool_max(x, kernel_shape, strides, pads, dilations, ceil_mode)


@bind
def average_pool1d(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return pool_average(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


@bind
def average_pool2d(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return pool_average(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


@bind
def average_pool3d(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return pool_average(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


def pool_all(x, kind):
    return mx.npx.pooling(x, kernel=(1,) * (len(x.shape) - 2), pool_type=kind, global_pool=True)


@bind
def global_average_pool(x):
    return pool_all(x, "avg")


@bind
def global_max_pool(x):
    return pool_all(x, "max")
