"""Reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op

_PLAIN = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
}


def _axes(call: Call) -> tuple[Node, dict[str, Any] | None]:
    """What is reduced, and how; ``None`` where nothing is."""
    x = call.input(0)
    takes_input = call.opset >= (13 if call.op_type == "ReduceSum" else 18)
    axes = call.static(1, None, None) if takes_input else call.static(None, "axes", None)
    keepdims = call.flag("keepdims", True)
    noop = takes_input and call.flag("noop_with_empty_axes")
    # No axes mean all or none, so that one must know whether there are any.
    if axes is None or call.length(axes, "axes") == 0:
        return x, None if noop else {"axes": None, "keepdims": keepdims}
    return x, {"axes": axes, "keepdims": keepdims}


@onnx_op(*_PLAIN)
def reduce(call: Call) -> Any:
    x, how = _axes(call)
    return call.make("identity", x) if how is None else call.make(_PLAIN[call.op_type], x, **how)


def _composed(call: Call) -> tuple[Node, dict[str, Any]]:
    x, how = _axes(call)
    if how is None:
        raise Refused("noop_with_empty_axes without axes is not supported")
    return x, how


@onnx_op("ReduceL1")
def reduce_l1(call: Call) -> Any:
    x, how = _composed(call)
    return call.make("reduce_sum", call.part("abs", "abs", x), **how)


@onnx_op("ReduceL2")
def reduce_l2(call: Call) -> Any:
    x, how = _composed(call)
    return call.make("sqrt", call.part("sum", "reduce_sum", call.part("square", "square", x), **how))


@onnx_op("ReduceSumSquare")
def reduce_sum_square(call: Call) -> Any:
    x, how = _composed(call)
    return call.make("reduce_sum", call.part("square", "square", x), **how)


@onnx_op("ReduceLogSum")
def reduce_log_sum(call: Call) -> Any:
    x, how = _composed(call)
    return call.make("log", call.part("sum", "reduce_sum", x, **how))


@onnx_op("ReduceLogSumExp")
def reduce_log_sum_exp(call: Call) -> Any:
    x, how = _composed(call)
    if 0 in (x.shape or ()):
        return call.make("log", call.part("sum", "reduce_sum", call.part("exp", "exp", x), **how))
    top = call.part("max", "reduce_max", x, axes=how["axes"], keepdims=True)
    # Infinite maxima must not be subtracted from themselves.
    finite = call.part("finite", "less", call.part("abs", "abs", top), call.number(np.inf, x, "inf"))
    shift = call.part("shift", "where", finite, top, call.number(0.0, x, "zero"))
    powers = call.part("exp", "exp", call.part("shifted", "subtract", x, shift))
    log = call.part("log", "log", call.part("sum", "reduce_sum", powers, **how))
    # ``shift`` has size 1 along the reduced axes: its sum is itself.
    return call.make("add", log, call.part("back", "reduce_sum", shift, **how))


@onnx_op("ArgMax", "ArgMin")
def arg(call: Call) -> Any:
    call.only("select_last_index", 0)
    return call.make(
        call.op_type.lower(), call.input(0), axis=call.attr("axis", 0), keepdims=call.flag("keepdims", True)
    )


@onnx_op("CumSum")
def cumsum(call: Call) -> Any:
    flags = {"exclusive": call.flag("exclusive"), "reverse": call.flag("reverse")}
    return call.make("cumsum", call.input(0), axis=call.scalar(1), **flags)
