"""Bits."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.read import DTYPES, dtype_name
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

for _name, _op in {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "BitwiseNot": "bitwise_not",
}.items():
    direct(_name, _op)


@onnx_op("BitShift")
def bit_shift(call: Call) -> Any:
    direction = call.attr("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise Refused(f"attribute 'direction' is 'LEFT' or 'RIGHT'; got {direction!r}")
    return call.make("bit_shift", call.input(0), call.input(1), direction=direction.lower())


@onnx_op("BitCast")
def bit_cast(call: Call) -> Any:
    number = call.attr("to", 0)
    if number not in DTYPES:
        raise Refused(f"elements of type {dtype_name(number)} are not supported")
    return call.make("bit_cast", call.input(0), to=DTYPES[number])
