"""PyTorch's poolings. They pad both ends of an axis alike, by at most half a window; the rest is padded beforehand."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import bind
from metaop.backends.torch.padding import torch_pads
from metaop.errors import UnsupportedOpError


def native(kernel, pads):
    """Whether PyTorch pads like this by itself, in one, two and three dimensions alike."""
    begins, ends = pads[: len(kernel)], pads[len(kernel) :]
    return begins == ends and all(2 * pad <= size for pad, size in zip(begins, kernel))


def windows(sizes, kernel, strides, pads, ceil_mode):
    """How many windows there are along each axis; ``kernel`` with the gaps of dilation."""
    counts = []
    for size, window, stride, begin, end in zip(sizes, kernel, strides, pads, pads[len(kernel) :]):
        room = size + begin + end - window
        count = (-(-room // stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= size + begin:
            count -= 1
        counts.append(count)
    return counts


def padded(x, kernel, strides, pads, counts, value):
    """The input with just what the windows cover, so that neither padding nor ``ceil_mode`` is left to do."""
    ends = [
        (count - 1) * stride + window - size - begin
        for count, stride, window, size, begin in zip(counts, strides, kernel, x.shape[2:], pads)
    ]
    return F.pad(x, torch_pads(pads[: len(kernel)], ends), value=value)


def pool_max(function, x, kernel, strides, pads, dilations, ceil_mode):
    extent = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations)]
    if native(kernel, pads):
        return function(x, kernel, strides, pads[: len(kernel)], dilations, ceil_mode)
    counts = windows(x.shape[2:], extent, strides, pads, ceil_mode)
    x = padded(x, extent, strides, pads, counts, -float("inf"))
    return function(x, kernel, strides, 0, dilations, False)


@bind
def max_pool1d(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return pool_max(F.max_pool1d, x, kernel_shape, strides, pads, dilations, ceil_mode)


@bind
def max_pool2d(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return pool_max(F.max_pool2d, x, kernel_shape, strides, pads, dilations, ceil_mode)


@bind
def max_pool3d(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return pool_max(F.max_pool3d, x, kernel_shape, strides, pads, dilations, ceil_mode)


def average(function, total, x, kernel, strides, pads, dilations, ceil_mode, count_include_pad):
    if any(d != 1 for d in dilations):
        raise UnsupportedOpError("torch: its average pooling has no dilations")
    # F.avg_pool3d refuses an input smaller than the window, with padding or without.
    fits = len(kernel) < 3 or all(size >= window for size, window in zip(x.shape[2:], kernel))
    if fits and native(kernel, pads):
        return function(x, kernel, strides, pads[: len(kernel)], ceil_mode, count_include_pad)
    counts = windows(x.shape[2:], kernel, strides, pads, ceil_mode)
    sums = total(padded(x, kernel, strides, pads, counts, 0.0), kernel, strides)
    return sums / members(x, kernel, strides, pads, counts, count_include_pad)


def members(x, kernel, strides, pads, counts, count_include_pad):
    """How many elements each window averages: those of the input, maybe those of the padding, and no others."""
    result = x.new_ones(())
    for axis, count in enumerate(counts):
        begin, end = (pads[axis], pads[axis + len(kernel)]) if count_include_pad else (0, 0)
        starts = torch.arange(count, device=x.device) * strides[axis] - pads[axis]
        ends = torch.clamp(starts + kernel[axis], max=x.shape[axis + 2] + end)
        found = (ends - torch.clamp(starts, min=-begin)).to(x.dtype)
        result = result * found.reshape((-1,) + (1,) * (len(counts) - 1 - axis))
    return result


def total1d(x, kernel, strides):
    return total2d(x.unsqueeze(2), (1,) + kernel, (1,) + strides).squeeze(2)


def total2d(x, kernel, strides):
    return F.avg_pool2d(x, kernel, strides, divisor_override=1)


def total3d(x, kernel, strides):
    return F.avg_pool3d(x, kernel, strides, divisor_override=1)


@bind
def average_pool1d(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return average(F.avg_pool1d, total1d, x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


@bind
def average_pool2d(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return average(F.avg_pool2d, total2d, x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


@bind
def average_pool3d(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return average(F.avg_pool3d, total3d, x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


@bind
def global_average_pool(x):
    function = ADAPTIVE_AVERAGE.get(x.dim())
    return torch.mean(x, dim=tuple(range(2, x.dim())), keepdim=True) if function is None else function(x, 1)


@bind
def global_max_pool(x):
    function = ADAPTIVE_MAX.get(x.dim())
    return torch.amax(x, dim=tuple(range(2, x.dim())), keepdim=True) if function is None else function(x, 1)


ADAPTIVE_AVERAGE = {3: F.adaptive_avg_pool1d, 4: F.adaptive_avg_pool2d, 5: F.adaptive_avg_pool3d}
ADAPTIVE_MAX = {3: F.adaptive_max_pool1d, 4: F.adaptive_max_pool2d, 5: F.adaptive_max_pool3d}
