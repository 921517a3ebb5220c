"""Elementwise arithmetic."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import OPSET, node

bind.rename(
    {
        "add": node("Add"),
        "subtract": node("Sub"),
        "multiply": node("Mul"),
        "div": node("Div"),
        "trunc_div": node("Div"),
        "pow": node("Pow"),
        "maximum": node("Max"),
        "minimum": node("Min"),
        "negative": node("Neg"),
        "inv": node("Reciprocal"),
        "sqrt": node("Sqrt"),
        "abs": node("Abs"),
        "sign": node("Sign"),
        "exp": node("Exp"),
        "log": node("Log"),
        "sin": node("Sin"),
        "cos": node("Cos"),
        "erf": node("Erf"),
        "floor": node("Floor"),
        "ceil": node("Ceil"),
        "round": node("Round"),
        "identity": node("Identity"),
    }
)


@bind
def square(o, x):
    return o.Mul(x, x)


@bind
def rsqrt(o, x):
    return o.Reciprocal(o.Sqrt(x))


@bind
def clip(o, x, *, min, max):
    # ONNX's default bounds are the largest finite numbers, which infinities exceed.
    if x.dtype.kind == "f":
        min = -np.inf if min is None else min
        max = np.inf if max is None else max
    return o.Clip(x, min, max)


@bind
def cast(o, x, *, to):
    # Saturation, which concerns eight-bit floats only, came with opset 19.
    return o.Cast(x, to=to, saturate=1) if OPSET >= 19 else o.Cast(x, to=to)
