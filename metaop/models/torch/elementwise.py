"""Arithmetic, comparison and selection. PyTorch promotes dtypes; here that is a cast of its own."""

from __future__ import annotations

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
    trunc="trunc",
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
    "log2": "log2",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "erf": "erf",
}.items():
    _floating(_aten, _op)


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
    if rounding_mode == "trunc" and call.dtype.kind in "iu":
        return call.make("trunc_div", *_pair(call, self, other))
    raise Refused(f"rounding_mode={rounding_mode!r} for {call.dtype.name} is not supported")


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


@aten_op("clamp_min")
def clamp_min(call: Call, self: Node, min: Any) -> Any:
    return call.make("clip", call.cast(self, call.dtype), min=float(min))


@aten_op("clamp_max")
def clamp_max(call: Call, self: Node, max: Any) -> Any:
    return call.make("clip", call.cast(self, call.dtype), max=float(max))


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
