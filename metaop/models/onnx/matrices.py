"""Matrices."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.read import DTYPES
from metaop.models.onnx.scalars import scalar
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

direct("Det", "det")


@onnx_op("Trilu", since=14)
def trilu(call: Call) -> Any:
    return call.make("trilu", call.input(0), k=scalar(call, 1, "k", 0), upper=call.flag("upper", True))


@onnx_op("EyeLike", since=9)
def eye_like(call: Call) -> Any:
    number = call.attr("dtype", 0)
    if number and number not in DTYPES:
        raise Refused("its dtype is not supported")
    return call.make("eye_like", call.input(0), k=call.attr("k", 0), dtype=DTYPES[number] if number else None)
