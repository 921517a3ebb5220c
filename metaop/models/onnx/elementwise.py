"""Activations, arithmetic, comparison and logic."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.read import DTYPES, dtype_name
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

# -- the same under another name ---------------------------------------------------------------------------------------

for _name in (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "Softsign",
    "Erf",
    "Sqrt",
    "Exp",
    "Log",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Sign",
    "Floor",
    "Ceil",
    "Round",
    "Identity",
    "Where",
    "Equal",
    "Greater",
    "Less",
    "Abs",
):
    direct(_name, _name.lower())
for _name, _op in {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Neg": "negative",
    "Reciprocal": "inv",
    "PRelu": "prelu",
    "HardSwish": "hard_swish",
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Not": "logical_not",
    "IsNaN": "is_nan",
    "Mish": "mish",
}.items():
    direct(_name, _op)
direct("LeakyRelu", "leaky_relu", alpha=0.01)
direct("Elu", "elu", alpha=1.0)
direct("Celu", "celu", alpha=1.0)
direct("ThresholdedRelu", "thresholded_relu", alpha=1.0)
direct("Shrink", "shrink", bias=0.0, lambd=0.5)
direct("SwiGLU", "swiglu", alpha=1.0)
direct("HardSigmoid", "hard_sigmoid", alpha=0.2, beta=0.5)
direct("Gelu", "gelu", approximate="none")
# ONNX gives its defaults in float32.
direct("Selu", "selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)


# -- activations -------------------------------------------------------------------------------------------------------


@onnx_op("Swish")
def swish(call: Call) -> Any:
    x, alpha = call.input(0), call.attr("alpha", 1.0)
    if alpha == 1.0:
        return call.make("silu", x)
    inner = call.part("scaled", "multiply", x, call.number(alpha, x, "alpha"))
    return call.make("multiply", x, call.part("sigmoid", "sigmoid", inner))


def _softmax(call: Call, op: str) -> Any:
    x = call.input(0)
    if call.opset >= 13:
        return call.make(op, x, axis=call.attr("axis", -1))
    # Before opset 13 all axes from ``axis`` on count as one.
    rank = call.rank(x)
    axis = call.axis(call.attr("axis", 1), rank)
    if axis == rank - 1:
        return call.make(op, x, axis=-1)
    flat = call.part(op, op, call.part("flatten", "flatten", x, axis=axis), axis=-1)
    return call.make("reshape", flat, shape=call.sizes(x))


@onnx_op("Softmax")
def softmax(call: Call) -> Any:
    return _softmax(call, "softmax")


@onnx_op("LogSoftmax")
def log_softmax(call: Call) -> Any:
    return _softmax(call, "log_softmax")


@onnx_op("Hardmax")
def hardmax(call: Call) -> Any:
    return _softmax(call, "hardmax")


@onnx_op("Dropout", until=11)
def dropout_by_attribute(call: Call) -> Any:
    return call.make("dropout", call.input(0), ratio=call.attr("ratio", 0.5), training=False)


@onnx_op("Dropout", since=12)
def dropout(call: Call) -> Any:
    call.attr("seed", 0)
    x = call.input(0)
    ratio = call.scalar(1, 0.5)  # of no effect outside of training
    if call.has(2) and call.constant(2).any():
        raise Refused("training mode is not supported: its random numbers are no part of the specification")
    call.optional(2)
    y = call.make("dropout", x, ratio=ratio if isinstance(ratio, float) else 0.5, training=False)
    if not call.wants(1):
        return y
    return y, call.part("mask", "expand", call.value(True, "true"), shape=call.sizes(x))


# -- arithmetic --------------------------------------------------------------------------------------------------------


def _divisor(call: Call) -> Node:
    """The second input, which must not be an integer 0 where that can be seen."""
    y = call.input(1)
    value = call.converter.value(y) if y.dtype is not None and y.dtype.kind in "iu" else None
    if value is not None and not np.all(value):
        raise Refused("it divides an integer by zero")
    return y


@onnx_op("Div")
def div(call: Call) -> Any:
    x, y = call.input(0), _divisor(call)
    whole = x.dtype is not None and x.dtype.kind in "iu"
    return call.make("trunc_div" if whole else "div", x, y)


@onnx_op("Mod")
def mod(call: Call) -> Any:
    x, y, fmod = call.input(0), _divisor(call), call.flag("fmod")
    if call.opset < 28 and not fmod and x.dtype is not None and x.dtype.kind == "f":
        raise Refused("before opset 28 only fmod=1 means something for floating tensors")
    return call.make("mod", x, y, fmod=fmod)


@onnx_op("Pow")
def power(call: Call) -> Any:
    x, y = call.input(0), call.input(1)
    if x.dtype == y.dtype:
        return call.make("pow", x, y)
    if x.dtype is None or y.dtype is None:
        raise Refused("the dtypes of both inputs must be known")
    if x.dtype.kind == "f" or y.dtype.kind != "f":
        return call.make("pow", x, call.part("exponent", "cast", y, to=x.dtype))
    wide = (call.part(part, "cast", node, to="float64") for part, node in (("base", x), ("exponent", y)))
    return call.make("cast", call.part("pow", "pow", *wide), to=x.dtype)


def _folded(call: Call, op: str) -> Any:
    nodes = call.all()
    if len(nodes) == 1:
        return call.make("identity", nodes[0])
    *first, last = nodes
    return call.make(op, functools.reduce(lambda a, b: call.part(op, op, a, b), first), last)


@onnx_op("Max")
def maximum(call: Call) -> Any:
    return _folded(call, "maximum")


@onnx_op("Min")
def minimum(call: Call) -> Any:
    return _folded(call, "minimum")


@onnx_op("Sum")
def total(call: Call) -> Any:
    return _folded(call, "add")


@onnx_op("Mean")
def mean(call: Call) -> Any:
    nodes = call.all()
    added = functools.reduce(lambda a, b: call.part("add", "add", a, b), nodes)
    return call.make("div", added, call.number(len(nodes), nodes[0], "count"))


@onnx_op("Clip", until=10)
def clip_by_attributes(call: Call) -> Any:
    bounds = {name: call.attr(name, 0.0) for name in ("min", "max") if call.given(name)}
    return call.make("clip", call.input(0), **bounds)


@onnx_op("Clip", since=11)
def clip(call: Call) -> Any:
    x = call.input(0)
    low, high = call.optional(1), call.optional(2)
    for bound in (low, high):
        if bound is not None and bound.shape not in ((), (1,)):
            raise Refused(f"bounds are scalars; got {bound.type}")
    values = [None if bound is None else call.converter.value(bound) for bound in (low, high)]
    fixed = all((bound is None) == (value is None) for bound, value in zip((low, high), values, strict=True))
    if (
        fixed
        and x.dtype is not None
        and x.dtype.kind == "f"
        and not any(v is not None and np.isnan(v).any() for v in values)
    ):
        least, most = (None if v is None else float(v.reshape(())) for v in values)
        return call.make("clip", x, min=least, max=most)
    for bound in (low, high):
        if bound is not None and bound.shape != () and x.shape == ():
            raise Refused("bounds of one axis would give the result one too")
    if low is None and high is None:
        return call.make("identity", x)
    if low is None or high is None:
        return call.make("minimum" if low is None else "maximum", x, high if low is None else low)
    return call.make("minimum", call.part("low", "maximum", x, low), high)


@onnx_op("Cast")
def cast(call: Call) -> Any:
    call.attr("saturate", 1)  # of 8-bit floats only, which are refused
    call.attr("round_mode", "up")
    number = call.attr("to", 0)
    if number not in DTYPES:
        raise Refused(f"elements of type {dtype_name(number)} are not supported")
    return call.make("cast", call.input(0), to=DTYPES[number])


@onnx_op("CastLike")
def cast_like(call: Call) -> Any:
    call.attr("saturate", 1)
    call.attr("round_mode", "up")
    return call.make("cast", call.input(0), to=call.input(1).dtype)


@onnx_op("IsInf")
def is_inf(call: Call) -> Any:
    return call.make(
        "is_inf",
        call.input(0),
        detect_negative=call.flag("detect_negative", True),
        detect_positive=call.flag("detect_positive", True),
    )
