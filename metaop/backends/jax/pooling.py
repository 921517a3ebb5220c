"""JAX's pooling: ``lax.reduce_window``, which pads by itself, at each end as it is told."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from metaop.backends.jax.bindings import bind
from metaop.errors import UnsupportedOpError


def windows(sizes, kernel, strides, pads, dilations, ceil_mode):
    """How many windows there are along each axis, and the padding that they reach into."""
    spatial = len(sizes)
    counts, padding = [], []
    for i, size in enumerate(sizes):
        reach = (kernel[i] - 1) * dilations[i] + 1
        room = size + pads[i] + pads[i + spatial] - reach
        count = (-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1
        if ceil_mode and (count - 1) * strides[i] >= size + pads[i]:
            count -= 1
        counts.append(count)
        padding.append((pads[i], max(0, (count - 1) * strides[i] + reach - size - pads[i])))
    return counts, padding


def slide(function, start, x, kernel, strides, padding):
    return lax.reduce_window(
        x,
        np.array(start, x.dtype),
        function,
        window_dimensions=(1, 1) + tuple(kernel),
        window_strides=(1, 1) + tuple(strides),
        padding=[(0, 0), (0, 0)] + padding,
        base_dilation=None,
        window_dilation=None,
    )


def max_pool(x, kernel, strides, pads, dilations, ceil_mode):
    counts, padding = windows(x.shape[2:], kernel, strides, pads, dilations, ceil_mode)
    if all(d == 1 for d in dilations):
        return slide(lax.max, -np.inf, x, kernel, strides, padding)
    # JAX cannot differentiate dilated windows: their elements are laid side by side, axis by axis.
    x = jnp.pad(x, [(0, 0), (0, 0)] + padding, constant_values=-np.inf)
    for i, count in enumerate(counts):
        places = np.arange(count)[:, None] * strides[i] + np.arange(kernel[i])[None, :] * dilations[i]
        x = jnp.max(jnp.take(x, places, axis=i + 2, mode="fill"), axis=i + 3)
    return x


def average_pool(x, kernel, strides, pads, ceil_mode, count_include_pad):
    ones = (1,) * len(kernel)
    sizes = x.shape[2:]
    counts, padding = windows(sizes, kernel, strides, pads, ones, ceil_mode)
    sums = slide(lax.add, 0, x, kernel, strides, padding)
    return sums / members(sizes, kernel, strides, pads, counts, count_include_pad).astype(x.dtype)


def members(sizes, kernel, strides, pads, counts, count_include_pad):
    """How many elements each window averages: those of the input, maybe those of the padding, and no others."""
    spatial = len(sizes)
    result = np.ones((1,) * spatial)
    for i, size in enumerate(sizes):
        first, last = (-pads[i], size + pads[i + spatial]) if count_include_pad else (0, size)
        starts = np.arange(counts[i]) * strides[i] - pads[i]
        inside = np.minimum(starts + kernel[i], last) - np.maximum(starts, first)
        result = result * inside.reshape((-1,) + (1,) * (spatial - 1 - i))
    return result


def max_pooling(name):
    def bound(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
        return max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode)

    bound.__name__ = name
    bind(bound)


def average_pooling(name):
    def bound(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
        if any(d != 1 for d in dilations):
            raise UnsupportedOpError("JAX does not differentiate sums over dilated windows")
        return average_pool(x, kernel_shape, strides, pads, ceil_mode, count_include_pad)

    bound.__name__ = name
    bind(bound)


for rank in "123":
    max_pooling("max_pool{}d".format(rank))
    average_pooling("average_pool{}d".format(rank))


@bind
def global_average_pool(x):
    return jnp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@bind
def global_max_pool(x):
    return jnp.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)
