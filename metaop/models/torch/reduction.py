"""Reductions and running sums."""

from __future__ import annotations

from typing import Any

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
        if not isinstance(sizes[axis], int):
            raise Refused("the number of elements must not depend on the batch")
        count *= sizes[axis]
    degrees = count - (1 if correction is None else correction)
    if degrees <= 0:
        raise Refused(f"there are not enough elements ({count}) for a correction of {correction}")
    mean = call.part("mean", "reduce_mean", x, axes=axes, keepdims=True)
    square = call.part("square", "square", call.part("centred", "subtract", x, mean))
    total = call.part("sum", "reduce_sum", square, axes=axes, keepdims=keepdim)
    return "div", (total, call.cast(float(degrees), call.dtype, "degrees"))


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


@aten_op("cumsum")
def cumsum(call: Call, self: Node, dim: int) -> Any:
    return call.make("cumsum", call.cast(self, call.dtype), axis=dim)
