"""MXNet's reductions."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError


def counted_from_zero(x, axes):
    """Release 1.6 knows no negative axes in some places."""
    return None if axes is None else tuple(axis % len(x.shape) for axis in axes)


@bind
def reduce_sum(x, *, axes, keepdims):
    return mx.np.sum(x, axis=counted_from_zero(x, axes), keepdims=keepdims)


@bind
def reduce_mean(x, *, axes, keepdims):
    return mx.np.mean(x, axis=counted_from_zero(x, axes), keepdims=keepdims)


def extreme(function, x, axes, keepdims):
    if x.dtype == bool:
        raise UnsupportedOpError("mxnet: extremes of booleans come as numbers; cast them first")
    if any(size == 0 for i, size in enumerate(x.shape) if axes is None or i in axes):
        raise UnsupportedOpError("mxnet: max and min reduce no axis that has nothing on it")
    return function(x, axis=axes, keepdims=keepdims)


@bind
def reduce_max(x, *, axes, keepdims):
    return extreme(mx.np.max, x, counted_from_zero(x, axes), keepdims)


@bind
def reduce_min(x, *, axes, keepdims):
    return extreme(mx.np.min, x, counted_from_zero(x, axes), keepdims)


@bind
def reduce_prod(x, *, axes, keepdims):
    return mx.np.prod(x, axis=counted_from_zero(x, axes), keepdims=keepdims)


def position(function, x, axis, keepdims, last):
    if VERSION < (1, 7) and np.dtype(x.dtype).kind != "f":
        raise UnsupportedOpError("mxnet: positions of extremes are found in floating tensors only, before MXNet 1.7")
    # They come as numbers of the tensor's own dtype in release 1.6.
    found = function(mx.np.flip(x, axis) if last else x, axis=axis).astype("int64")
    if last:
        found = (x.size if axis is None else x.shape[axis]) - 1 - found
    if not keepdims:
        return found
    return mx.np.reshape(found, (1,) * len(x.shape)) if axis is None else mx.np.expand_dims(found, axis)


@bind
def argmax(x, *, axis, keepdims, select_last_index):
    return position(mx.np.argmax, x, axis, keepdims, select_last_index)


@bind
def argmin(x, *, axis, keepdims, select_last_index):
    return position(mx.np.argmin, x, axis, keepdims, select_last_index)


@bind
def cumsum(x, *, axis, exclusive, reverse):
    axis = axis % len(x.shape)
    if reverse:
        x = mx.np.flip(x, axis)
    if exclusive:
        before = (slice(None),) * axis
        x = mx.np.concatenate((mx.np.zeros_like(x[before + (slice(0, 1),)]), x[before + (slice(0, -1),)]), axis=axis)
    y = mx.np.cumsum(x, axis=axis)
    return mx.np.flip(y, axis) if reverse else y


bind.unsupported("cumprod", reason="MXNet has no operator for it")
