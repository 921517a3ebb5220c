"""Comparisons, logic and selection."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename(
    {
        "where": node("Where"),
        "equal": node("Equal"),
        "greater": node("Greater"),
        "greater_equal": node("GreaterOrEqual"),
        "less": node("Less"),
        "less_equal": node("LessOrEqual"),
        "logical_and": node("And"),
        "logical_or": node("Or"),
        "logical_xor": node("Xor"),
        "logical_not": node("Not"),
        "is_nan": node("IsNaN"),
        "is_inf": node("IsInf", detect_negative="detect_negative", detect_positive="detect_positive"),
    }
)


@bind
def not_equal(o, x, y):
    return o.Not(o.Equal(x, y))
