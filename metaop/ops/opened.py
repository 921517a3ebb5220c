"""What is known of an operator's result while an attribute of it is not: its rank nearly always, some sizes often.

A rule takes the types of the tensors and the attributes, as an operator's own rule does; what an attribute that is
computed later holds is a tuple with ``None`` for each number that is not known yet, or :data:`UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metaop.ops.rules import broadcast_shapes, normalise_axes
from metaop.types import Shape, TensorType

__all__ = ["UNKNOWN", "shape_while_open"]

#: an attribute of which not even the length is known
UNKNOWN: Any = object()

Rule = Callable[..., "Shape | None"]


def same_rank(x: TensorType, *others: Any, **attrs: Any) -> Shape | None:
    """As many axes as the first tensor."""
    return None if x.shape is None else (None,) * len(x.shape)


def same_shape(x: TensorType, *others: Any, **attrs: Any) -> Shape | None:
    """The shape of the first tensor."""
    return x.shape


def reshaped(x: TensorType, *, shape: Any) -> Shape | None:
    """One axis for each size."""
    return None if shape is UNKNOWN else tuple(s if s is not None and s >= 0 else None for s in shape)


def expanded(x: TensorType, *, shape: Any) -> Shape | None:
    """Broadcast."""
    if shape is UNKNOWN or x.shape is None:
        return None
    return broadcast_shapes([x.shape, tuple(shape)])


def unsqueezed(x: TensorType, *, axes: Any) -> Shape | None:
    """One axis more for each."""
    if axes is UNKNOWN or x.shape is None:
        return None
    return (None,) * (len(x.shape) + len(axes))


def squeezed(x: TensorType, *, axes: Any) -> Shape | None:
    """One axis less for each."""
    if axes is UNKNOWN or x.shape is None or len(axes) > len(x.shape):
        return None
    return (None,) * (len(x.shape) - len(axes))


def reduced(x: TensorType, *, axes: Any, keepdims: Any) -> Shape | None:
    """The same number of axes, or one less for each that is reduced."""
    return same_rank(x) if keepdims is True else squeezed(x, axes=axes)


def sliced(x: TensorType, *, starts: Any, ends: Any, axes: Any, steps: Any) -> Shape | None:
    """Other sizes along the axes that are cut."""
    if x.shape is None or axes is UNKNOWN:
        return same_rank(x)
    if axes is None:
        length = next((len(v) for v in (starts, ends) if v is not UNKNOWN), len(x.shape))
        axes = tuple(range(min(length, len(x.shape))))
    if None in axes:
        return same_rank(x)
    cut = normalise_axes(axes, len(x.shape))
    return tuple(None if i in cut else s for i, s in enumerate(x.shape))


def vector(*types: Any, **attrs: Any) -> Shape | None:
    """One axis."""
    return (None,)


RULES: dict[str, Rule] = {
    "reshape": reshaped,
    "expand": expanded,
    "unsqueeze": unsqueezed,
    "squeeze": squeezed,
    "slice": sliced,
    "shape_of": vector,
    "range": vector,
    **dict.fromkeys(("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"), reduced),
    **dict.fromkeys(("reduce_l1", "reduce_l2", "reduce_log_sum", "reduce_log_sum_exp", "reduce_sum_square"), reduced),
    **dict.fromkeys(("cumsum", "cumprod", "softmax", "log_softmax", "clip", "trilu", "dropout"), same_shape),
    **dict.fromkeys(("pad", "tile", "topk", "resize", "transpose", "split"), same_rank),
}


def shape_while_open(op: str, types: Any, attrs: dict[str, Any]) -> Shape | None:
    """What is known of the shape of every output."""
    rule = RULES.get(op)
    return None if rule is None or not types or types[0] is None else rule(*types, **attrs)
