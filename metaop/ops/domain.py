"""Where an operator is defined and smooth, and how to draw values from there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metaop.types import is_floating

__all__ = ["Domain", "Draws", "booleans", "integers", "positive", "reals", "simplex", "unit"]


@dataclass(frozen=True)
class Domain:
    """An interval with points to keep away from.

    ``low`` and ``high`` bound what is *valid* (NaN never is); ``spread`` limits what is *drawn*, so that samples stay
    in a range where float16 neither overflows nor loses everything. Drawn values keep ``margin`` from each point of
    ``avoid``: kinks and poles, where finite differences mean nothing. Integers are drawn from ``whole`` where that
    is given, and from ``spread`` otherwise.
    """

    low: float = -np.inf
    high: float = np.inf
    spread: tuple[float, float] = (-2.0, 2.0)
    avoid: tuple[float, ...] = ()
    margin: float = 0.05
    sums_to_one: bool = False
    whole: tuple[int, int] | None = None
    text: str = "real"

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Random values of the domain, as ``dtype``; drawn in float64, so that every dtype gets the same ones."""
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        low, high = self.spread
        if dtype.kind in "iu":
            low, high = self.whole or self.spread
            low = np.ceil(max(low, 0) if dtype.kind == "u" else low)
            whole = rng.integers(int(low), int(np.floor(high)) + 1, shape)
            for point in self.avoid:
                whole = np.where(whole == point, whole + 1, whole)
            return np.asarray(whole).astype(dtype)
        values = rng.uniform(low, high, shape)
        for point in self.avoid:
            near = np.abs(values - point) < self.margin
            values = np.where(near, point + np.where(values < point, -2, 2) * self.margin, values)
        if self.sums_to_one and values.ndim:
            values = values / values.sum(axis=-1, keepdims=True)
        return np.asarray(values).astype(dtype)

    def excludes(self, array: np.ndarray) -> str | None:
        """What in ``array`` is not valid, in words; ``None`` where all of it is."""
        if is_floating(array.dtype) and np.isnan(array).any():
            return f"{int(np.isnan(array).sum())} NaN"
        outside = (array < self.low) | (array > self.high)
        if outside.any():
            return (
                f"{int(outside.sum())} values outside [{self.low:g}, {self.high:g}], such as {array[outside].flat[0]!s}"
            )
        return None


@dataclass(frozen=True)
class Draws:
    """In a sample: a tensor of ``shape`` drawn from ``domain`` instead of the parameter's own domain."""

    domain: Domain
    shape: tuple[int, ...]


def reals(low: float = -2.0, high: float = 2.0, *, avoid: tuple[float, ...] | list[float] = ()) -> Domain:
    """All reals; samples are drawn between ``low`` and ``high`` and keep away from ``avoid``."""
    return Domain(spread=(low, high), avoid=tuple(avoid))


def positive(low: float = 0.1, high: float = 3.0) -> Domain:
    """Reals >= 0; samples are drawn between ``low`` and ``high``."""
    return Domain(low=0.0, spread=(low, high), text="positive")


def unit(low: float = 0.05, high: float = 0.95) -> Domain:
    """Reals from 0 to 1; samples keep away from both ends."""
    return Domain(low=0.0, high=1.0, spread=(low, high), text="0 to 1")


def simplex() -> Domain:
    """Probabilities: from 0 to 1, summing to one along the last axis."""
    return Domain(low=0.0, high=1.0, spread=(0.1, 1.0), sums_to_one=True, text="probabilities")


def integers(low: int, high: int) -> Domain:
    """Whole numbers from ``low`` up to, and not including, ``high``."""
    return Domain(low=low, high=high - 1, spread=(low, high - 1), text=f"integers {low} to {high - 1}")


def booleans() -> Domain:
    """True and False."""
    return Domain(low=0, high=1, text="bool")
