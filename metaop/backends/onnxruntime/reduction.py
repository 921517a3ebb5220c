"""Reductions, and running sums and products."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind


def reduce(o, op_type, x, axes, keepdims):
    """One of ONNX's reductions."""
    # No axes at all (None) reduces everything; an empty list of them reduces nothing.
    return o.node(op_type, (x, axes), {"keepdims": keepdims, "noop_with_empty_axes": axes is not None})


@bind
def reduce_sum(o, x, *, axes, keepdims):
    return reduce(o, "ReduceSum", x, axes, keepdims)


@bind
def reduce_mean(o, x, *, axes, keepdims):
    return reduce(o, "ReduceMean", x, axes, keepdims)


def _extreme(o, op_type, x, axes, keepdims):
    if x.dtype.kind == "b" and 0 in x.shape:
        o.no_kernel("its {} of booleans fails where there are none".format(op_type))
    return reduce(o, op_type, x, axes, keepdims)


@bind
def reduce_max(o, x, *, axes, keepdims):
    return _extreme(o, "ReduceMax", x, axes, keepdims)


@bind
def reduce_min(o, x, *, axes, keepdims):
    return _extreme(o, "ReduceMin", x, axes, keepdims)


@bind
def reduce_prod(o, x, *, axes, keepdims):
    return reduce(o, "ReduceProd", x, axes, keepdims)


def _arg(o, op_type, x, axis, keepdims, last):
    attributes = {"axis": 0 if axis is None else axis, "keepdims": keepdims, "select_last_index": last}
    if axis is not None:
        return o.node(op_type, (x,), attributes)
    attributes["keepdims"] = 0
    index = o.node(op_type, (o.Reshape(x, (-1,), allowzero=1),), attributes)
    return o.Reshape(index, (1,) * x.rank, allowzero=1) if keepdims else index


@bind
def argmax(o, x, *, axis, keepdims, select_last_index):
    return _arg(o, "ArgMax", x, axis, keepdims, select_last_index)


@bind
def argmin(o, x, *, axis, keepdims, select_last_index):
    return _arg(o, "ArgMin", x, axis, keepdims, select_last_index)


@bind
def cumsum(o, x, *, axis, exclusive, reverse):
    return o.CumSum(x, (axis,), exclusive=exclusive, reverse=reverse)


@bind
def cumprod(o, x, *, axis, exclusive, reverse):
    o.since(26)
    return o.CumProd(x, o.constant(axis, np.dtype(np.int64)), exclusive=exclusive, reverse=reverse)
