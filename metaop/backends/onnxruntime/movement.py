"""Data movement."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.elementwise import cast
from metaop.backends.onnxruntime.graph import node

bind.rename(
    {
        "concat": node("Concat", axis="axis"),
        "flatten": node("Flatten", axis="axis"),
        "gather": node("Gather", axis="axis"),
    }
)


@bind
def transpose(o, x, *, perm):
    return o.Transpose(x, perm=tuple(reversed(range(x.rank))) if perm is None else perm)


@bind
def reshape(o, x, *, shape):
    return o.Reshape(x, shape, allowzero=1)


@bind
def split(o, x, *, axis, split, num_outputs):
    if split is not None:
        return o.Split(x, split, axis=axis, outputs=len(split))
    size = x.shape[axis]
    if size and -(-size // num_outputs) * (num_outputs - 1) >= size:
        o.no_kernel("its Split refuses a num_outputs that leaves chunks empty")
    return o.Split(x, axis=axis, num_outputs=num_outputs, outputs=num_outputs)


@bind
def stack(o, *inputs, axis):
    return o.Concat(*[o.Unsqueeze(x, (axis,)) for x in inputs], axis=axis)


@bind
def squeeze(o, x, *, axes):
    # ONNX Runtime takes an empty list of axes for none given, and drops every axis of size 1.
    return o.Identity(x) if axes == () else o.Squeeze(x, axes)


@bind
def unsqueeze(o, x, *, axes):
    return o.Unsqueeze(x, axes)


@bind
def expand(o, x, *, shape):
    return o.Expand(x, shape)


@bind
def slice(o, x, *, starts, ends, axes, steps):
    if not x.rank:
        o.no_kernel("its Slice takes no scalars")
    return o.Slice(x, starts, ends, axes, steps)


@bind
def pad(o, x, *, pads, mode, value):
    if not x.rank:
        o.no_kernel("its Pad takes no scalars")
    return o.Pad(x, pads, value if mode == "constant" else None, mode=mode)


@bind
def scatter_add(o, indices, updates, *, axis, size):
    if updates.dtype == np.float16:
        o.no_kernel("its ScatterND does not add in float16")
    # ScatterND indexes the leading axes, so that the axis goes there and back.
    rank, many = updates.rank - indices.rank + 1, indices.rank
    axis %= rank
    moved = tuple(range(axis, axis + many))
    rest = tuple(a for a in range(updates.rank) if a not in moved)
    zeros = o.Expand(o.constant(0, updates.dtype), (size,) + tuple(updates.shape[a] for a in rest))
    total = o.ScatterND(
        zeros,
        o.Unsqueeze(cast(o, indices, to=np.dtype(np.int64)), (-1,)),
        o.Transpose(updates, perm=moved + rest),
        reduction="add",
    )
    return o.Transpose(total, perm=tuple(range(1, axis + 1)) + (0,) + tuple(range(axis + 1, rank)))
