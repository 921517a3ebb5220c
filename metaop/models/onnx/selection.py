"""Sorting, and operators whose result is as large as the data say."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.scalars import scalar
from metaop.models.onnx.table import Call, direct, onnx_op

direct("NonZero", "nonzero", since=9)


@onnx_op("TopK")
def topk(call: Call) -> Any:
    k = scalar(call, 1, "k") if call.opset >= 10 else call.attr("k")
    order = {"largest": True, "sorted": True}
    if call.opset >= 11:
        order = {name: call.flag(name, True) for name in order}
    return call.make("topk", call.input(0), k=k, axis=call.attr("axis", -1), **order)


@onnx_op("Compress", since=9)
def compress(call: Call) -> Any:
    axis = call.attr("axis") if call.given("axis") else None
    return call.make("compress", call.input(0), call.input(1), axis=axis)


@onnx_op("Unique", since=11)
def unique(call: Call) -> Any:
    axis = call.attr("axis") if call.given("axis") else None
    return call.make("unique", call.input(0), axis=axis, sorted=call.flag("sorted", True))


@onnx_op("NonMaxSuppression", since=10)
def non_max_suppression(call: Call) -> Any:
    return call.make(
        "non_max_suppression",
        call.input(0),
        call.input(1),
        max_output_boxes_per_class=scalar(call, 2, "max_output_boxes_per_class", 0),
        iou_threshold=scalar(call, 3, "iou_threshold", 0.0),
        score_threshold=scalar(call, 4, "score_threshold"),
        center_point_box=call.flag("center_point_box"),
    )
