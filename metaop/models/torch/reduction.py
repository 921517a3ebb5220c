"""Reductions and running sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op


def _axes(call: Call, x: Node, dim: Any) -> tuple[int, ...] | None:
    """The axes; none or an empty list means all of them."""
    if dim is None or dim == ():
        return None
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return dims if call.rank(x) else ()


def _reduction(op: str, *names: str) -> None:
    @aten_op(*names)
    def mapping(call: Call, self: Node, dim: Any = None, keepdim: bool = False) -> Any:
        return call.make(op, call.cast(self, call.dtype), axes=_axes(call, self, dim), keepdims=keepdim)


_reduction("reduce_sum", "sum", "sum.dim_IntList")
_reduction("reduce_mean", "mean", "mean.dim")
_reduction("reduce_prod", "prod", "prod.dim_int")
_reduction("reduce_max", "amax", "max")
_reduction("reduce_min", "amin", "min")


def _position(op: str) -> None:
    @aten_op(op)
    def mapping(call: Call, self: Node, dim: int | None, keepdim: bool) -> Any:
        return call.make(op, self, axis=dim, keepdims=keepdim)


_position("argmax")
_position("argmin")


def _selection(aten: str, position: str) -> None:
    """The extreme elements along an axis, and where they are; the gradient goes to the one that is chosen."""

    @aten_op(f"{aten}.dim")
    def mapping(call: Call, self: Node, dim: int, keepdim: bool) -> Any:
        indices = call.part("positions", position, self, axis=dim, keepdims=True)
        values = call.make("gather_elements", self, indices, axis=dim)
        if keepdim:
            return values, indices
        return call.part("values", "squeeze", values, axes=(dim,)), call.part(
            "indices", "squeeze", indices, axes=(dim,)
        )


_selection("max", "argmax")
_selection("min", "argmin")


def _variance(call: Call, x: Node, dim: Any, correction: float | None, keepdim: bool) -> tuple[str, tuple[Any, ...]]:
    """Operator and operands of the last step to the variance."""
    axes = tuple(range(call.rank(x))) if (found := _axes(call, x, dim)) is None else found
    sizes = call.sizes(x)
    count = 1
    for axis in axes:
        count = count * sizes[axis]
    correction = 1 if correction is None else correction
    degrees = count - (int(correction) if correction == int(correction) else correction)
    if isinstance(count, int) and degrees <= 0:
        raise Refused(f"there are not enough elements ({count}) for a correction of {correction}")
    mean = call.part("mean", "reduce_mean", x, axes=axes, keepdims=True)
    square = call.part("square", "square", call.part("centred", "subtract", x, mean))
    total = call.part("sum", "reduce_sum", square, axes=axes, keepdims=keepdim)
    return "div", (total, call.cast(degrees, call.dtype, "degrees"))


@aten_op("var.correction")
def var(call: Call, self: Node, dim: Any, correction: float | None, keepdim: bool) -> Any:
    op, operands = _variance(call, self, dim, correction, keepdim)
    return call.make(op, *operands)


@aten_op("std.correction")
def std(call: Call, self: Node, dim: Any, correction: float | None, keepdim: bool) -> Any:
    op, operands = _variance(call, self, dim, correction, keepdim)
    return call.make("sqrt", call.part("variance", op, *operands))


@aten_op("var", "var.dim")
def var_unbiased(call: Call, self: Node, unbiased: bool, dim: Any = None, keepdim: bool = False) -> Any:
    return var(call, self, dim, int(unbiased), keepdim)


@aten_op("std", "std.dim")
def std_unbiased(call: Call, self: Node, unbiased: bool, dim: Any = None, keepdim: bool = False) -> Any:
    return std(call, self, dim, int(unbiased), keepdim)


@aten_op("linalg_vector_norm")
def vector_norm(call: Call, self: Node, ord: float, dim: Any, keepdim: bool) -> Any:
    x, how = call.cast(self, call.dtype), {"axes": _axes(call, self, dim), "keepdims": keepdim}
    if ord in (1, 2):
        return call.make(f"reduce_l{ord:.0f}", x, **how)
    size = call.part("size", "abs", x)
    if math.isinf(ord):
        return call.make("reduce_max" if ord > 0 else "reduce_min", size, **how)
    if ord == 0:
        some = call.part("some", "not_equal", x, call.cast(0.0, call.dtype, "zero"))
        return call.make("reduce_sum", call.cast(some, call.dtype, "ones"), **how)
    total = call.part("total", "reduce_sum", call.part("powers", "pow", size, call.cast(ord, call.dtype, "ord")), **how)
    return call.make("pow", total, call.cast(1 / ord, call.dtype, "root"))


def _truth(aten: str, op: str) -> None:
    @aten_op(aten, f"{aten}.dim", f"{aten}.dims")
    def mapping(call: Call, self: Node, dim: Any = None, keepdim: bool = False) -> Any:
        """The number of true (or false) elements decides, which is right of none at all too."""
        true = call.cast(self, np.dtype(bool), "true")
        asked = call.part("false", "logical_not", true) if op == "equal" else true
        counted = call.cast(asked, np.dtype("int32"), "counted")
        total = call.part("total", "reduce_sum", counted, axes=_axes(call, self, dim), keepdims=keepdim)
        made = call.make(op, total, call.value(np.zeros((), np.int32), "none"))
        return call.cast(made, call.dtype, "as")


_truth("any", "greater")
_truth("all", "equal")


@aten_op("cumprod")
def cumprod(call: Call, self: Node, dim: int) -> Any:
    return call.make("cumprod", call.cast(self, call.dtype), axis=dim)


@aten_op("cumsum")
def cumsum(call: Call, self: Node, dim: int) -> Any:
    return call.make("cumsum", call.cast(self, call.dtype), axis=dim)


@aten_op("_cdist_forward")
def cdist(call: Call, x1: Node, x2: Node, p: float, compute_mode: Any) -> Any:
    """Differences of all pairs, which is PyTorch's meaning; for many rows it may take a product of matrices instead."""
    difference = call.part(
        "differences",
        "subtract",
        call.part("rows", "unsqueeze", x1, axes=(-2,)),
        call.part("columns", "unsqueeze", x2, axes=(-3,)),
    )
    if p not in (1, 2):
        raise Refused(f"p={p} is not supported")
    return call.make(f"reduce_l{p:.0f}", difference, axes=(-1,))
