"""Shape and dtype rules: small functions from the types of the inputs to those of the outputs.

A rule has the operator's own signature with types for tensors, accepts unknown sizes (``None``) and unknown ranks, and
raises :class:`~metaop.errors.ShapeError` or :class:`~metaop.errors.AttributeValueError` where nothing could ever fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.types import Shape, TensorType

__all__ = [
    "broadcast_shapes",
    "elementwise",
    "elementwise_to",
    "like_first",
    "normalise_axes",
    "normalise_axis",
    "reduced_shape",
    "require_rank",
    "unify_size",
]


def unify_size(a: int | None, b: int | None, what: str) -> int | None:
    """The size that two axes share; an unknown one takes the other's."""
    if a is None or b is None:
        return b if a is None else a
    if a != b:
        raise ShapeError(f"{what}: sizes {a} and {b} differ")
    return a


def broadcast_shapes(shapes: Sequence[Shape | None]) -> Shape | None:
    """NumPy's broadcasting, with unknown sizes: an unknown size against 1 stays unknown, against n is n."""
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max((len(s) for s in known), default=0)
    result: list[int | None] = []
    for axis in range(-rank, 0):
        sizes = {s[axis] for s in known if len(s) >= -axis}
        fixed = {s for s in sizes if s is not None and s != 1}
        if len(fixed) > 1:
            listed = " and ".join(str(list(s)).replace("None", "?") for s in known)
            raise ShapeError(f"shapes {listed} do not broadcast: axis {axis} has sizes {sorted(fixed)}")
        result.append(fixed.pop() if fixed else (None if None in sizes else 1))
    return tuple(result)


def elementwise(*types: TensorType | None, **attrs: Any) -> TensorType:
    """All tensors broadcast together; the result has their dtype."""
    given = [t for t in types if t is not None]
    return TensorType(given[0].dtype, broadcast_shapes([t.shape for t in given]))


def elementwise_to(dtype: str) -> Callable[..., TensorType]:
    """All tensors broadcast together; the result has the dtype given here."""

    def rule(*types: TensorType | None, **attrs: Any) -> TensorType:
        return elementwise(*types).with_dtype(np.dtype(dtype))

    return rule


def like_first(first: TensorType, *others: TensorType | None, **attrs: Any) -> TensorType:
    """The result has the type of the first tensor, whatever the others are."""
    return first


def require_rank(what: str, tensor: TensorType, least: int, most: int | None = None) -> None:
    """Refuse a tensor whose rank is known and outside ``least`` to ``most`` (``most=None``: no upper bound)."""
    if tensor.rank is not None and (tensor.rank < least or (most is not None and tensor.rank > most)):
        wanted = str(least) if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        raise ShapeError(f"{what} must have rank {wanted}; got {tensor}")


def normalise_axis(axis: int, rank: int, what: str = "axis") -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        accepted = f"{-rank} to {rank - 1}" if rank else "none, for the tensor is a scalar"
        raise AttributeValueError(f"{what} {axis} is out of range for rank {rank}; accepted: {accepted}")
    return axis % rank


def normalise_axes(axes: Sequence[int] | None, rank: int, what: str = "axes") -> tuple[int, ...]:
    """Axes counted from the front, in the order given; ``None`` means all of them."""
    if axes is None:
        return tuple(range(rank))
    found = tuple(normalise_axis(a, rank, what) for a in axes)
    if len(set(found)) < len(found):
        raise AttributeValueError(f"{what} {tuple(axes)} names an axis twice")
    return found


def reduced_shape(shape: Shape | None, axes: Sequence[int] | None, keepdims: bool) -> Shape | None:
    """The shape after the axes (all, if ``None``) have been reduced."""
    if shape is None:
        return () if axes is None and not keepdims else None
    gone = set(normalise_axes(axes, len(shape)))
    if keepdims:
        return tuple(1 if i in gone else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in gone)
