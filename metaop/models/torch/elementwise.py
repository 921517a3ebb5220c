"""Arithmetic, comparison and selection. PyTorch promotes dtypes; here that is a cast of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op, numpy_dtype, renamed
from metaop.ops import REGISTRY

renamed(
    neg="negative",
    abs="abs",
    sign="sign",
    floor="floor",
    ceil="ceil",
    round="round",
    logical_not="logical_not",
    square="square",
)


def _floating(aten: str, op: str) -> None:
    """An operator that makes integers floating first."""

    @aten_op(aten)
    def mapping(call: Call, self: Node) -> Any:
        return call.make(op, call.cast(self, call.dtype))


for _aten, _op in {
    "reciprocal": "inv",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "erf": "erf",
}.items():
    _floating(_aten, _op)


@aten_op("log2")
def log2(call: Call, self: Node) -> Any:
    natural = call.part("natural", "log", call.cast(self, call.dtype))
    return call.make("div", natural, call.cast(math.log(2), call.dtype, "base"))


@aten_op("log10")
def log10(call: Call, self: Node) -> Any:
    natural = call.part("natural", "log", call.cast(self, call.dtype))
    return call.make("div", natural, call.cast(math.log(10), call.dtype, "base"))


@aten_op("exp2")
def exp2(call: Call, self: Node) -> Any:
    return call.make("pow", call.cast(2.0, call.dtype, "base"), call.cast(self, call.dtype))


@aten_op("trunc")
def trunc(call: Call, self: Node) -> Any:
    return _towards_zero(call, self) if call.dtype.kind == "f" else self


def _towards_zero(call: Call, x: Node) -> Any:
    below = call.part("below", "less", x, call.cast(0.0, call.dtype, "zero"))
    return call.make("where", below, call.part("up", "ceil", x), call.part("down", "floor", x))


# -- two tensors, or a tensor and a number -----------------------------------------------------------------------------


def _scaled(call: Call, other: Any, alpha: Any) -> Any:
    """``alpha * other``, where there is an alpha to speak of."""
    if alpha == 1:
        return other
    return call.part("scaled", "multiply", call.cast(other, call.dtype), call.cast(alpha, call.dtype, "alpha"))


@aten_op("add.Tensor", "add.Scalar")
def add(call: Call, self: Node, other: Any, alpha: Any) -> Any:
    if call.dtype == np.bool_:
        return call.make("logical_or", self, call.cast(_scaled(call, other, alpha), call.dtype, "other"))
    return call.make("add", *_pair(call, self, _scaled(call, other, alpha)))


@aten_op("sub.Tensor", "sub.Scalar")
def sub(call: Call, self: Node, other: Any, alpha: Any) -> Any:
    return call.make("subtract", *_pair(call, self, _scaled(call, other, alpha)))


@aten_op("rsub.Tensor", "rsub.Scalar")
def rsub(call: Call, self: Node, other: Any, alpha: Any) -> Any:
    return call.make("subtract", *_pair(call, other, _scaled(call, self, alpha)))


@aten_op("mul.Tensor", "mul.Scalar")
def mul(call: Call, self: Node, other: Any) -> Any:
    return call.make("logical_and" if call.dtype == np.bool_ else "multiply", *_pair(call, self, other))


@aten_op("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(call: Call, self: Node, other: Any) -> Any:
    return call.make("div", *_pair(call, self, other))


@aten_op("div.Tensor_mode", "div.Scalar_mode")
def div_mode(call: Call, self: Node, other: Any, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return call.make("div", *_pair(call, self, other))
    x, y = _pair(call, self, other)
    whole = call.dtype.kind in "iu"
    if rounding_mode == "trunc":
        return call.make("trunc_div", x, y) if whole else _towards_zero(call, call.part("quotient", "div", x, y))
    # What is left has the sign of the divisor, so that the rest is divided without one.
    left = call.part("left", "mod", x, y)
    rest = call.part("rest", "subtract", x, left)
    if whole:
        return call.make("trunc_div", rest, y)
    quotient = call.part("rounded", "round", call.part("quotient", "div", rest, y))
    zero = call.part("zero", "equal", y, call.cast(0.0, call.dtype, "nothing"))
    return call.make("where", zero, call.part("infinite", "div", x, y), quotient)


@aten_op("floor_divide", "floor_divide.Scalar")
def floor_divide(call: Call, self: Node, other: Any) -> Any:
    return div_mode(call, self, other, "floor")


@aten_op("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(call: Call, self: Any, other: Any) -> Any:
    return call.make("mod", *_pair(call, self, other))


@aten_op("fmod.Tensor", "fmod.Scalar")
def fmod(call: Call, self: Node, other: Any) -> Any:
    return call.make("mod", *_pair(call, self, other), fmod=True)


@aten_op("hypot")
def hypot(call: Call, self: Node, other: Node) -> Any:
    """By the larger leg, so that no square overflows."""
    x, y = (call.part(f"leg_{i}", "abs", x) for i, x in enumerate(_pair(call, self, other)))
    large, small = call.part("large", "maximum", x, y), call.part("small", "minimum", x, y)
    zero = call.cast(0.0, call.dtype, "zero")
    some = call.part("some", "greater", large, zero)
    divisor = call.part("divisor", "where", some, large, call.cast(1.0, call.dtype, "one"))
    square = call.part("square", "square", call.part("ratio", "div", small, divisor))
    root = call.part("root", "sqrt", call.part("sum", "add", square, call.cast(1.0, call.dtype, "unit")))
    return call.make("multiply", large, root)


@aten_op("atan2")
def atan2(call: Call, self: Node, other: Node) -> Any:
    """The angle of each point, by that of the half plane where the tangent is known; on the axis it is a right one."""
    y, x = _pair(call, self, other)
    zero, pi = call.cast(0.0, call.dtype, "zero"), call.cast(math.pi, call.dtype, "pi")
    angle = call.part("angle", "atan", call.part("tangent", "div", y, x))
    below = call.part("below", "less", y, zero)
    turned = call.part("turn", "where", below, call.part("back", "negative", pi), pi)
    left = call.part("left", "less", x, zero)
    angle = call.part("whole", "where", left, call.part("turned", "add", angle, turned), angle)
    origin = call.part(
        "is_origin", "logical_and", call.part("y_0", "equal", y, zero), call.part("x_0", "equal", x, zero)
    )
    return call.make("where", origin, zero, angle)


@aten_op("maximum")
def maximum(call: Call, self: Node, other: Any) -> Any:
    return call.make("maximum", *_pair(call, self, other))


@aten_op("minimum")
def minimum(call: Call, self: Node, other: Any) -> Any:
    return call.make("minimum", *_pair(call, self, other))


@aten_op("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def pow_(call: Call, self: Any, exponent: Any) -> Any:
    if call.dtype.kind == "f" and exponent == 2:
        return call.make("square", call.cast(self, call.dtype))  # what PyTorch makes of it too
    return call.make("pow", *_pair(call, self, exponent, "exponent"))


def _pair(call: Call, x: Any, y: Any, part: str = "other") -> tuple[Node, Node]:
    return call.cast(x, call.dtype, "self"), call.cast(y, call.dtype, part)


def _comparison(aten: str, op: str) -> None:
    @aten_op(f"{aten}.Tensor", f"{aten}.Scalar")
    def mapping(call: Call, self: Node, other: Any) -> Any:
        dtype = numpy_dtype(call.common(self, other))
        return call.make(op, call.cast(self, dtype, "self"), call.cast(other, dtype, "other"))


for _aten, _op in {
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
}.items():
    _comparison(_aten, _op)


def _logical(aten: str, op: str) -> None:
    @aten_op(aten)
    def mapping(call: Call, self: Node, other: Any) -> Any:
        return call.make(op, call.cast(self, np.dtype(bool), "self"), call.cast(other, np.dtype(bool), "other"))


for _name in ("and", "or", "xor"):
    _logical(f"logical_{_name}", f"logical_{_name}")


@aten_op("bitwise_and.Tensor", "bitwise_and.Scalar", "__and__.Tensor", "__and__.Scalar")
def bitwise_and(call: Call, self: Node, other: Any) -> Any:
    return call.make("logical_and" if call.dtype == np.bool_ else "bitwise_and", *_pair(call, self, other))


@aten_op("bitwise_or.Tensor", "bitwise_or.Scalar", "__or__.Tensor", "__or__.Scalar")
def bitwise_or(call: Call, self: Node, other: Any) -> Any:
    return call.make("logical_or" if call.dtype == np.bool_ else "bitwise_or", *_pair(call, self, other))


@aten_op("bitwise_xor.Tensor", "bitwise_xor.Scalar", "__xor__.Tensor", "__xor__.Scalar")
def bitwise_xor(call: Call, self: Node, other: Any) -> Any:
    return call.make("logical_xor" if call.dtype == np.bool_ else "bitwise_xor", *_pair(call, self, other))


@aten_op(*(f"{name}.{kind}" for name in ("__lshift__", "bitwise_left_shift") for kind in ("Tensor", "Scalar")))
@aten_op("bitwise_left_shift.Tensor_Scalar")
def left_shift(call: Call, self: Node, other: Any) -> Any:
    """Times a power of two: shifts proper are for numbers without a sign."""
    if isinstance(other, int):
        return call.make("multiply", self, call.cast(1 << other, call.dtype, "factor"))
    raise Refused("shifts by numbers that are computed are not supported")


@aten_op("bitwise_not")
def bitwise_not(call: Call, self: Node) -> Any:
    return call.make("logical_not" if call.dtype == np.bool_ else "bitwise_not", self)


# -- selection and bounds ----------------------------------------------------------------------------------------------


@aten_op("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(call: Call, condition: Node, self: Any, other: Any) -> Any:
    chosen = call.cast(condition, np.dtype(bool), "condition")
    return call.make("where", chosen, *_pair(call, self, other))


@aten_op("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: Call, self: Node, mask: Node, value: Any) -> Any:
    return call.make("where", mask, call.cast(value, call.dtype, "value"), self)


@aten_op("clamp")
def clamp(call: Call, self: Node, min: Any, max: Any) -> Any:
    return call.make(
        "clip",
        call.cast(self, call.dtype),
        min=None if min is None else float(min),
        max=None if max is None else float(max),
    )


@aten_op("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensor(call: Call, self: Node, min: Node | None = None, max: Node | None = None) -> Any:
    x = call.cast(self, call.dtype)
    if min is not None:
        low = call.cast(min, call.dtype, "min")
        x = call.make("maximum", x, low) if max is None else call.part("raised", "maximum", x, low)
    return x if max is None else call.make("minimum", x, call.cast(max, call.dtype, "max"))


@aten_op("clamp_min")
def clamp_min(call: Call, self: Node, min: Any) -> Any:
    return call.make("clip", call.cast(self, call.dtype), min=float(min))


@aten_op("clamp_max")
def clamp_max(call: Call, self: Node, max: Any) -> Any:
    return call.make("clip", call.cast(self, call.dtype), max=float(max))


@aten_op("isinf")
def isinf(call: Call, self: Node) -> Any:
    return call.make("is_inf", self)


@aten_op("isnan")
def isnan(call: Call, self: Node) -> Any:
    return call.make("not_equal", self, self)


# -- the same elements -------------------------------------------------------------------------------------------------


@aten_op("clone", "alias", "contiguous", "lift_fresh_copy", "lift_fresh")
def same(call: Call, self: Node) -> Any:
    return self


@aten_op("detach", "detach_")
def detach(call: Call, self: Node) -> Any:
    if isinstance(call.result, torch.Tensor) and call.dtype.kind == "f":
        if "stop_gradient" not in REGISTRY:
            raise Refused("a tensor that no gradient passes needs a meta operator that this version does not have")
        return call.make("stop_gradient", self)
    return self


@aten_op("_to_copy", "to.dtype", "to.dtype_layout", "to.device", "type_as", "to.other", told=("other", "copy"))
def to_copy(call: Call, self: Node) -> Any:
    return self if call.dtype_of(self) == call.dtype else call.make("cast", self, to=call.dtype)
