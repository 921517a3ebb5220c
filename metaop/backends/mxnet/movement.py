"""MXNet's reshaping, joining, slicing and padding."""

import builtins
import functools

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import VERSION, bind, legacy, product
from metaop.backends.mxnet.padding import padded

bind.rename(
    {
        "reshape": (mx.np.reshape, {"shape": "newshape"}),
        "squeeze": (mx.np.squeeze, {"axes": "axis"}),
    }
)


def movable(function):
    """Booleans travel as bytes: many operators, other ones in each release, move no booleans."""

    @functools.wraps(function)
    def call(*tensors, **attrs):
        if np.dtype(tensors[0].dtype).kind != "b":
            return function(*tensors, **attrs)
        results = function(*[t.astype("uint8") if np.dtype(t.dtype).kind == "b" else t for t in tensors], **attrs)
        return [y.astype("bool") for y in results] if isinstance(results, list) else results.astype("bool")

    return call


@bind
@movable
def transpose(x, *, perm):
    return mx.np.transpose(x, perm)


@bind
@movable
def concat(*inputs, axis):
    return mx.np.concatenate(inputs, axis=axis)


@bind
@movable
def stack(*inputs, axis):
    return mx.np.stack(inputs, axis=axis)


@bind
@movable
def split(x, *, axis, split, num_outputs):
    size = x.shape[axis]
    if split is None:
        chunk = -(-size // num_outputs)
        places = [min(chunk * i, size) for i in range(1, num_outputs)]
    else:
        places = [sum(split[:i]) for i in range(1, len(split))]
    return mx.np.split(x, places, axis=axis) if places else [x]


@bind
def unsqueeze(x, *, axes):
    rank = len(x.shape) + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = mx.np.expand_dims(x, axis)
    return x


@bind
def flatten(x, *, axis):
    return mx.np.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@bind
def expand(x, *, shape):
    # Where the shape asked for has a 1, or is shorter, the tensor's own size stands.
    rank = max(len(shape), len(x.shape))
    own = (1,) * (rank - len(x.shape)) + x.shape
    wanted = (1,) * (rank - len(shape)) + tuple(shape)
    return mx.np.broadcast_to(x, tuple(a if b == 1 else b for a, b in zip(own, wanted)))


@bind
@movable
def slice(x, *, starts, ends, axes, steps):
    index = [builtins.slice(None)] * len(x.shape)
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = i if axes is None else axes[i] % len(x.shape)
        step = 1 if steps is None else steps[i]
        size = x.shape[axis]
        start, end = (place + size if place < 0 else place for place in (start, end))
        if step > 0:
            start, end = min(max(start, 0), size), min(max(end, 0), size)
        else:
            start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
            # To Python -1 is the last element; an empty axis is left as it is.
            start, end = max(start, 0), None if end < 0 else end
        index[axis] = builtins.slice(start, end, step)
    return x[tuple(index)]


def counted_from_zero(indices, size):
    return indices + (indices < 0).astype(indices.dtype) * size


@bind
@movable
def gather(x, indices, *, axis):
    # Indexing takes negative indices as well, but release 1.6 then reads outside of the tensor.
    return mx.np.take(x, counted_from_zero(indices, x.shape[axis]), axis=axis, mode="raise")


@bind
def scatter_add(indices, updates, *, axis, size):
    rank = len(updates.shape) - len(indices.shape) + 1
    axis = axis % rank
    before, after = updates.shape[:axis], updates.shape[axis + len(indices.shape) :]
    places = mx.np.reshape(counted_from_zero(indices, size), (1, -1))
    outside = [i for i in places.asnumpy().flat if not 0 <= i < size]
    if outside:
        # MXNet would write there.
        raise IndexError("scatter_add: an index is {} for an axis of size {}".format(outside[0], size))
    rows = mx.np.reshape(updates, before + (places.size,) + after)
    # What MXNet differentiates gather_nd with; it adds along the first axis.
    sums = add_at(mx.np.moveaxis(rows, axis, 0), places, shape=(size,) + before + after)
    return mx.np.moveaxis(sums, 0, axis)


add_at = legacy(mx.nd._internal._backward_gather_nd)


@bind
def pad(x, *, pads, mode, value):
    rank = len(x.shape)
    begins, ends = pads[:rank], pads[rank:]
    if not any(pads):
        return x
    if VERSION >= (1, 7):
        # Of a vector it takes the two numbers only.
        widths = tuple(zip(begins, ends)) if rank > 1 else pads
        if mode == "constant":
            return mx.np.pad(x, widths, mode="constant", constant_values=value)
        if np.dtype(x.dtype).kind != "f":
            return mx.np.pad(x, widths, mode=mode)
    # np.pad differentiates no other mode, where it exists at all.
    return padded(x, begins, ends, mode, value)
