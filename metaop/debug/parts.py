"""What is said of one output or one gradient of one operator on two sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Histogram", "Kind", "Part", "Worst", "worst_kind"]

Kind = Literal["same", "noise", "convention", "tail", "fault"]
_ORDER: tuple[Kind, ...] = ("same", "noise", "convention", "tail", "fault")


@dataclass(frozen=True)
class Worst:
    """The element at which two results differ most."""

    index: tuple[int, ...]
    a: float
    b: float
    reference: float | None


@dataclass(frozen=True)
class Histogram:
    """How large the differences are, in steps of half a decade; and how many elements do not differ."""

    equal: int
    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class Part:
    """One output or one gradient of an operator, on two sides."""

    what: str
    #: mean absolute distance
    delta: float
    #: the largest difference in units of what rounding explains
    score: float
    kind: Kind
    #: the same relative to each element alone, where that was looked at
    tail: float | None = None
    worst: Worst | None = None
    histogram: Histogram | None = field(default=None, repr=False)


def worst_kind(kinds: Sequence[Kind]) -> Kind:
    """The one that matters most."""
    return max(kinds, key=_ORDER.index, default="same")
