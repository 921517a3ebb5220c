"""Trigonometric and hyperbolic functions."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename(
    {
        "tan": node("Tan"),
        "asin": node("Asin"),
        "acos": node("Acos"),
        "atan": node("Atan"),
        "sinh": node("Sinh"),
        "cosh": node("Cosh"),
        "asinh": node("Asinh"),
        "acosh": node("Acosh"),
        "atanh": node("Atanh"),
    }
)
