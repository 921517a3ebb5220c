"""Quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.convolution import _kernel, _spatial, _window
from metaop.models.onnx.read import DTYPES, dtype_name
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

direct("DynamicQuantizeLinear", "dynamic_quantize_linear")
direct("QLinearMatMul", "qlinear_matmul")
direct("MatMulInteger", "matmul_integer")


def _given_dtype(call: Call, name: str) -> np.dtype | None:
    """The dtype that an attribute names; 0 is none."""
    number = call.attr(name, 0)
    if number and number not in DTYPES:
        raise Refused(f"{name} {dtype_name(number)} is not a dtype of metaop")
    return DTYPES[number] if number else None


def _granularity(call: Call, x: Node) -> dict[str, int]:
    # A vector is quantised as a whole, or along the one axis it has.
    axis = call.attr("axis", 1)
    return {"axis": 0 if call.rank(x) == 1 else axis, "block_size": call.attr("block_size", 0)}


@onnx_op("QuantizeLinear", since=10)
def quantize_linear(call: Call) -> Any:
    x, scale = call.input(0), call.input(1)
    call.flag("saturate", True)  # counts for floating results only
    precision = _given_dtype(call, "precision")
    if precision not in (None, scale.dtype):
        raise Refused(f"precision is not supported, only that of the scale ({scale.type})")
    given = {"output_dtype": _given_dtype(call, "output_dtype"), **_granularity(call, x)}
    return call.make("quantize_linear", x, scale, call.optional(2), **given)


@onnx_op("DequantizeLinear", since=10)
def dequantize_linear(call: Call) -> Any:
    x, scale, zero_point = call.input(0), call.input(1), call.optional(2)
    if _given_dtype(call, "output_dtype") not in (None, scale.dtype):
        raise Refused(f"output_dtype is not supported, only that of the scale ({scale.type})")
    return call.make("dequantize_linear", x, scale, zero_point, **_granularity(call, x))


@onnx_op("ConvInteger", since=10)
def conv_integer(call: Call) -> Any:
    x, w = call.input(0), call.input(1)
    window = _window(call, x, _kernel(call, w, _spatial(call, x)))
    return call.make("conv_integer", x, w, call.optional(2), call.optional(3), group=call.attr("group", 1), **window)


@onnx_op("QLinearConv", since=10)
def qlinear_conv(call: Call) -> Any:
    x, w = call.input(0), call.input(3)
    window = _window(call, x, _kernel(call, w, _spatial(call, x)))
    # Scales of the whole weight may stand in a vector beside a zero point in a number, and the other way round.
    w_scale, w_zero_point = call.input(4), call.input(5)
    if w_scale.shape == () and w_zero_point.shape == (1,):
        w_scale = call.part("w_scale", "reshape", w_scale, shape=(1,))
    elif w_scale.shape == (1,) and w_zero_point.shape == ():
        w_zero_point = call.part("w_zero_point", "reshape", w_zero_point, shape=(1,))
    tensors = [x, call.input(1), call.input(2), w, w_scale, w_zero_point, call.input(6), call.input(7)]
    return call.make("qlinear_conv", *tensors, call.optional(8), group=call.attr("group", 1), **window)
