"""Gathers and scatters, and vectors made of indices."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.scalars import whole
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

direct("GatherElements", "gather_elements", axis=0)
direct("GatherND", "gather_nd", batch_dims=0)
direct("Scatter", "scatter_elements", until=10, axis=0)
direct("ScatterElements", "scatter_elements", axis=0, reduction="none")
direct("ScatterND", "scatter_nd", reduction="none")


@onnx_op("TensorScatter", since=24)
def tensor_scatter(call: Call) -> Any:
    attrs = {"axis": call.attr("axis", -2), "mode": call.attr("mode", "linear")}
    return call.make("tensor_scatter", call.input(0), call.input(1), call.optional(2), **attrs)


@onnx_op("OneHot", since=9)
def one_hot(call: Call) -> Any:
    indices, values = call.input(0), call.input(2)
    if indices.dtype is None:
        raise Refused("the dtype of the indices must be known")
    if indices.dtype.name not in ("int32", "int64"):
        indices = call.part("indices", "cast", indices, to="int64")
    return call.make("one_hot", indices, values, depth=whole(call, 1, "depth"), axis=call.attr("axis", -1))
