"""Reductions."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.table import Call, onnx_op

_OPS = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceSumSquare": "reduce_sum_square",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
}


@onnx_op(*_OPS)
def reduce(call: Call) -> Any:
    takes_input = call.opset >= (13 if call.op_type == "ReduceSum" else 18)
    axes = call.static(1, None, None) if takes_input else call.static(None, "axes", None)
    none_means_none = takes_input and call.flag("noop_with_empty_axes")
    keepdims = call.flag("keepdims", True)
    # No axes mean all or none, so that one must know whether there are any.
    if axes is None or call.length(axes, "axes") == 0:
        axes = () if none_means_none else None
    return call.make(_OPS[call.op_type], call.input(0), axes=axes, keepdims=keepdims)


@onnx_op("ArgMax", "ArgMin")
def arg(call: Call) -> Any:
    return call.make(
        call.op_type.lower(),
        call.input(0),
        axis=call.attr("axis", 0),
        keepdims=call.flag("keepdims", True),
        select_last_index=call.flag("select_last_index"),
    )


@onnx_op("CumSum", "CumProd")
def running(call: Call) -> Any:
    flags = {"exclusive": call.flag("exclusive"), "reverse": call.flag("reverse")}
    return call.make(call.op_type.lower(), call.input(0), axis=call.scalar(1), **flags)
