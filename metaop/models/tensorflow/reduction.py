"""Reductions."""

from __future__ import annotations

from typing import Any

from metaop.models.tensorflow.table import Call, First, numpy_dtype, tf_op

_PLAIN = {"Sum": "reduce_sum", "Mean": "reduce_mean", "Max": "reduce_max", "Min": "reduce_min", "Prod": "reduce_prod"}


@tf_op(*_PLAIN)
def reduce(call: Call) -> Any:
    op, keepdims = _PLAIN[call.op_type], call.attr("keep_dims")
    axes = call.opened(1)
    if not isinstance(axes, tuple):
        return call.make(op, call.input(0), axes=axes, keepdims=keepdims)
    rank = call.rank(0)
    axes = tuple(call.axis(a, rank) for a in axes)
    if not axes:
        return call.value(0)
    left = [a for a in range(rank) if a not in axes]
    # Channels and some spatial axis left over would stand in the wrong order.
    ordered = rank - 1 not in left or not any(0 < a < rank - 1 for a in left)
    if call.is_first(0) and (keepdims or ordered):
        moved = tuple(sorted(0 if a == 0 else 1 if a == rank - 1 else a + 1 for a in axes))
        made = call.make(op, call.first(0), axes=moved, keepdims=keepdims)
        return First(made) if keepdims else made
    return call.make(op, call.input(0), axes=axes, keepdims=keepdims)


@tf_op("All", "Any")
def logical(call: Call) -> Any:
    axes, keepdims = call.ints(1), call.attr("keep_dims")
    if not axes:
        return call.value(0)
    number = call.part("number", "cast", call.input(0), to="int32")
    op = "reduce_min" if call.op_type == "All" else "reduce_max"
    return call.make("cast", call.part("reduced", op, number, axes=axes, keepdims=keepdims), to="bool")


@tf_op("ArgMax", "ArgMin")
def arg(call: Call) -> Any:
    (axis,) = call.ints(1)
    op, to = call.op_type.lower(), numpy_dtype(call.op.outputs[0].dtype)
    if to == "int64":
        return call.make(op, call.input(0), axis=axis)
    return call.make("cast", call.part("index", op, call.input(0), axis=axis), to=to)


@tf_op("Cumsum", "Cumprod")
def cumulate(call: Call) -> Any:
    (axis,), op = call.ints(1), call.op_type.lower()
    return call.make(op, call.input(0), axis=axis, exclusive=call.attr("exclusive"), reverse=call.attr("reverse"))
