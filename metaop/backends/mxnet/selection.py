"""MXNet's sorting and selecting."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import bind, legacy, take_no_empty
from metaop.backends.mxnet.movement import movable
from metaop.errors import UnsupportedOpError

best = legacy(mx.nd.topk)
masked = legacy(mx.nd.contrib.boolean_mask)


@bind
def topk(x, *, k, axis, largest, sorted):
    take_no_empty("topk", x)
    if not k:
        raise UnsupportedOpError("MXNet's topk takes k = 0 for all elements")
    found = {"axis": axis, "is_ascend": not largest, "dtype": "int64"}
    # One more than are asked for, since a tie may be with the first that is left out.
    row = best(x, k=min(k + 1, x.shape[axis]), ret_typ="value", **found).asnumpy()
    if not np.diff(row, axis=axis).all():
        raise UnsupportedOpError("MXNet's topk puts equal elements in any order, and here some are equal")
    return best(x, k=k, ret_typ="both", **found)


@bind
def nonzero(x):
    take_no_empty("nonzero", x)
    if not len(x.shape):
        raise UnsupportedOpError("MXNet's nonzero takes no scalars")
    return mx.np.transpose(mx.npx.nonzero(x.astype("uint8") if np.dtype(x.dtype).kind == "b" else x))


@bind
@movable
def compress(x, condition, *, axis):
    if axis is None:
        x, axis = mx.np.reshape(x, (-1,)), 0
    rows = mx.np.moveaxis(x, axis, 0)[: len(condition)]
    if not x.size or not condition.asnumpy().any():
        raise UnsupportedOpError("MXNet's boolean_mask takes and gives no empty tensors")
    return mx.np.moveaxis(masked(rows, condition.astype("int32"), axis=0), 0, axis)


@bind
def unique(x, *, axis, sorted):
    if not sorted:
        raise UnsupportedOpError("MXNet's unique sorts")
    take_no_empty("unique", x)
    return mx.np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)


bind.unsupported("non_max_suppression", reason="its box_nms gives the boxes that stay, and not which ones they are")
