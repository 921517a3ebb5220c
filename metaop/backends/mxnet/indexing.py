"""MXNet's gathers; it has no scatters into a tensor."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import bind, legacy, take_no_empty
from metaop.backends.mxnet.movement import counted_from_zero, movable

bind.unsupported(
    "scatter_elements", "scatter_nd", "tensor_scatter", reason="its scatter_nd writes into zeros, not into a tensor"
)

take_nd = legacy(mx.nd.gather_nd)


def read(x, where):
    """What stands at ``where``, which has one row of indices for each leading axis; out of range MXNet reads on."""
    take_no_empty("gather_nd", x)
    for axis, row in enumerate(where.asnumpy()):
        outside = [i for i in row.flat if not 0 <= i < x.shape[axis]]
        if outside:
            raise IndexError("an index is {} for an axis of size {}".format(outside[0], x.shape[axis]))
    return take_nd(x, where)


def rows_of(arrays):
    return mx.np.stack([mx.np.array(a, dtype="int64") if isinstance(a, np.ndarray) else a for a in arrays])


@bind
@movable
def gather_elements(x, indices, *, axis):
    where = list(np.indices(indices.shape))
    where[axis % len(where)] = counted_from_zero(indices.astype("int64"), x.shape[axis])
    return read(x, rows_of(where))


@bind
@movable
def gather_nd(x, indices, *, batch_dims):
    where = list(np.indices(indices.shape[:-1])[:batch_dims])
    for i in range(indices.shape[-1]):
        where.append(counted_from_zero(indices[..., i].astype("int64"), x.shape[batch_dims + i]))
    if len(indices.shape) == 1:
        # MXNet wants several, if only one.
        return read(x, mx.np.expand_dims(rows_of(where), 1))[0]
    return read(x, rows_of(where))


@bind
@movable
def one_hot(indices, values, *, depth, axis):
    take_no_empty("one_hot", indices)
    hot = mx.npx.one_hot(counted_from_zero(indices, depth), depth, on_value=1, off_value=0, dtype="uint8")
    hot = mx.np.moveaxis(hot, -1, axis)
    return bind.table["where"].function(hot.astype("bool"), values[1], values[0])
