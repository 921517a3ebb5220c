"""How far two results are apart. Nothing here may ever call different things equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Distance", "gradient_distance", "mean_absolute_distance", "number", "same_bits"]

#: the smallest positive number: a mean must not underflow to 0, which says equal
_LEAST = 5e-324


def mean_absolute_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Mean of ``|a - b|``, computed in float64.

    Empty arrays are at distance 0. A NaN or an infinity on one side only, infinities of different sign, and arrays of
    different shape or dtype are infinitely far apart; NaN against NaN and equal infinities are at distance 0.

    >>> mean_absolute_distance(np.array([1.0, np.nan]), np.array([2.0, np.nan]))
    0.5
    >>> mean_absolute_distance(np.array([1.0]), np.array([np.nan]))
    inf
    """
    if a is b:
        return 0.0
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    if a.size == 0:
        return 0.0
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        # float64 cannot hold every 64-bit integer: subtract first, in arithmetic that cannot wrap.
        moved = a != b
        if not moved.any():
            return 0.0
        exact = [abs(int(x) - int(y)) for x, y in zip(a[moved].flat, b[moved].flat, strict=True)]
        return math.fsum(exact) / a.size
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if same.all():
        return 0.0
    if not (np.isfinite(x[~same]).all() and np.isfinite(y[~same]).all()):
        return math.inf
    with np.errstate(over="ignore"):
        mean = float(np.where(same, 0.0, np.abs(np.where(same, 0.0, x) - np.where(same, 0.0, y))).mean())
    return max(mean, _LEAST)


def gradient_distance(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    """The mean over parameters of the mean absolute distance of their gradients; 0 where there are no parameters."""
    distances = [mean_absolute_distance(x, y) for x, y in zip(a, b, strict=True)]
    return max(sum(distances) / len(distances), _LEAST) if any(distances) else 0.0


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same dtype, shape and bits: NaN equals itself, and 0.0 is not -0.0.

    >>> same_bits(np.array([np.nan]), np.array([np.nan])), same_bits(np.array([0.0]), np.array([-0.0]))
    (True, False)
    """
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    # As bytes, because bfloat16 has no integer of its own to be looked at as.
    return bool(np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)))


def number(value: float | None) -> str:
    """A delta for people."""
    return "-" if value is None else "0" if value == 0 else f"{value:.3g}"


@dataclass(frozen=True)
class Distance:
    """How far two whole runs are apart."""

    output: float
    gradient: float | None

    def __str__(self) -> str:
        return f"output {number(self.output)}, gradient {number(self.gradient)}"
