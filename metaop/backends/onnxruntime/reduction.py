"""Reductions, and the cumulative sum."""

from metaop.backends.onnxruntime.bindings import bind


def _reduce(o, op_type, x, axes, keepdims):
    # No axes at all (None) reduces everything; an empty list of them reduces nothing.
    return o.node(op_type, (x, axes), {"keepdims": keepdims, "noop_with_empty_axes": axes is not None})


@bind
def reduce_sum(o, x, *, axes, keepdims):
    return _reduce(o, "ReduceSum", x, axes, keepdims)


@bind
def reduce_mean(o, x, *, axes, keepdims):
    return _reduce(o, "ReduceMean", x, axes, keepdims)


@bind
def reduce_max(o, x, *, axes, keepdims):
    return _reduce(o, "ReduceMax", x, axes, keepdims)


@bind
def reduce_min(o, x, *, axes, keepdims):
    return _reduce(o, "ReduceMin", x, axes, keepdims)


@bind
def reduce_prod(o, x, *, axes, keepdims):
    return _reduce(o, "ReduceProd", x, axes, keepdims)


def _arg(o, op_type, x, axis, keepdims):
    attributes = {"axis": 0 if axis is None else axis, "keepdims": keepdims, "select_last_index": 0}
    if axis is not None:
        return o.node(op_type, (x,), attributes)
    attributes["keepdims"] = 0
    index = o.node(op_type, (o.Reshape(x, (-1,), allowzero=1),), attributes)
    return o.Reshape(index, (1,) * x.rank, allowzero=1) if keepdims else index


@bind
def argmax(o, x, *, axis, keepdims):
    return _arg(o, "ArgMax", x, axis, keepdims)


@bind
def argmin(o, x, *, axis, keepdims):
    return _arg(o, "ArgMin", x, axis, keepdims)


@bind
def cumsum(o, x, *, axis, exclusive, reverse):
    return o.CumSum(x, (axis,), exclusive=exclusive, reverse=reverse)
