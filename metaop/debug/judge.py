"""Whether two results differ by more than rounding explains.

A difference means something only against the rounding noise of that operator on those data. Element by element,

    floor = growth * (spread + eps/2 * |exact|) + eps/2 * rms(exact)

where ``exact`` is the float64 reference and ``spread`` how far its result moves when its inputs do by half a unit in
the last place; ``growth`` allows for sums of many terms. Correct kernels stay within a few tens of it, wrong ones are
thousands off: a *score* is the largest difference in units of :data:`MARGIN` floors, and more than 1 is a fault.

Most results are acquitted without the reference: ``spread`` only ever widens the floor.
"""

from __future__ import annotations

import math

import numpy as np

from metaop.debug.compare import same_bits
from metaop.debug.parts import Histogram, Kind, Part, Worst
from metaop.debug.reference import Reference, wide
from metaop.types import epsilon, is_floating

__all__ = ["MARGIN", "judge", "judge_against"]

#: how many floors correct kernels may be apart
MARGIN = 64.0
#: what the score of what is wrong in its tail only may be: relative errors of small results spread wider
TAIL_MARGIN = 256.0
#: differences below this score are not described any further
_SHOWN = 0.25


def judge(what: str, a: np.ndarray, b: np.ndarray, reference: Reference, index: int, *, tails: bool = False) -> Part:
    """Compare two results of one call; ``reference`` is asked for its result ``index`` only where there is doubt.

    Where both are wrong alike nothing is seen here: that is what :func:`judge_against` is for.
    """
    if same_bits(a, b):
        return Part(what, 0.0, 0.0, "same")
    if a.dtype != b.dtype or a.shape != b.shape:
        return Part(what, math.inf, math.inf, "fault")
    difference = _difference(a, b)
    delta = _mean(difference)
    if delta == 0.0:
        return Part(what, 0.0, 0.0, "noise")
    kind, score, tail = _weigh(a, difference, reference, index, tails, against=b)
    if kind == "noise" and score < _SHOWN:
        return Part(what, delta, score, kind, tail)
    worst = _worst(a, b, difference, reference, index, kind)
    return Part(what, delta, score, kind, tail, worst, _histogram(difference))


def judge_against(what: str, a: np.ndarray, reference: Reference, index: int) -> Part:
    """Compare one result with the reference itself, which is rounded to the result's dtype first."""
    if reference.problem is not None:
        # Said in the finding's message; whether both sides are right is not known then.
        return Part(what, 0.0, 0.0, "same")
    exact = reference.exact[index]
    if exact.shape != a.shape:
        return Part(what, math.inf, math.inf, "fault")
    with np.errstate(all="ignore"):
        rounded = exact.astype(a.dtype)
    difference = _difference(a, rounded)
    delta = _mean(difference)
    if delta == 0.0:
        return Part(what, 0.0, 0.0, "same")
    kind, score, _ = _weigh(a, difference, reference, index, False, against=None)
    if kind == "noise":
        return Part(what, delta, score, kind)
    return Part(what, delta, score, kind, None, _worst(a, rounded, difference, reference, index, kind))


# -- weighing ----------------------------------------------------------------------------------------------------------


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``|a - b|``, 0 where both are alike, infinite where a NaN or an infinity stands on one side only."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.asarray(np.abs(x - y))
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        # float64 does not tell all of them apart.
        return np.where(a == b, 0.0, np.maximum(difference, 1.0))
    if np.isfinite(difference.max(initial=0.0)):
        return difference
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    difference = np.where(same, 0.0, difference)
    return np.where(np.isnan(difference), math.inf, difference)


def _mean(difference: np.ndarray) -> float:
    """The mean absolute distance; never 0 where anything differs."""
    mean = float(difference.mean()) if difference.size else 0.0
    return max(mean, 5e-324) if mean or difference.any() else 0.0


def _weigh(
    a: np.ndarray, difference: np.ndarray, reference: Reference, index: int, tails: bool, against: np.ndarray | None
) -> tuple[Kind, float, float | None]:
    """Kind, score and tail score of a difference."""
    if not is_floating(a.dtype):
        kind: Kind = "convention" if _at_a_step(a, difference > 0, reference, index, against) else "fault"
        return kind, 0.0 if kind == "convention" else math.inf, None
    eps = max(epsilon(a.dtype), reference.epsilon)
    tiny = _tiny(a.dtype)
    # First without looking at single elements, which only ever widens what is accepted.
    score = float(difference.max(initial=0.0)) / (MARGIN * (eps / 2 * _rms(a) + tiny))
    if score > 1:
        score = _largest(difference, _floor(a, eps) + tiny, MARGIN)
    if score > 1:
        if reference.problem is not None:
            return "fault", score, None
        exact = reference.exact[index]
        if exact.shape != a.shape:
            return "fault", score, None
        growth = 1 + reference.terms(index) ** 0.5 / 16
        with np.errstate(invalid="ignore"):
            size = np.abs(wide(exact))
        alone = (growth - 1) * eps / 2 * np.where(np.isfinite(size), size, 0.0)
        floor = growth * reference.spread[index] + alone + _floor(exact, eps) + tiny
        with np.errstate(all="ignore"):
            units = np.where(difference > 0, difference / (MARGIN * floor), 0.0)
        units = np.where(_overflows(a.dtype, exact, eps * growth), 0.0, units)
        beyond = units > 1
        score = float(units.max(initial=0.0))
        if score > 1:
            # There is no derivative at a NaN, and frameworks do not agree on what to give for it.
            undefined = reference.undefined[index] if _is_gradient(reference, index) and reference.undefined else False
            disputed = beyond & ~np.asarray(undefined)
            if not disputed.any() or _at_a_step(a, disputed, reference, index, against):
                return "convention", float(units[~beyond].max(initial=0.0)), None
            return "fault", float(units[disputed].max()), None
    tail = None
    if tails and not math.isinf(score):
        tail = _largest(difference, eps / 2 * np.abs(a.astype(np.float64)) + tiny, TAIL_MARGIN)
        if tail > 1:
            exact = reference.exact[index]
            tail = _largest(difference, reference.spread[index] + eps / 2 * np.abs(exact) + tiny, TAIL_MARGIN)
    return ("tail" if tail is not None and tail > 1 else "noise"), score, tail


def _floor(values: np.ndarray, eps: float) -> np.ndarray:
    """What rounding to a result does, to each element and to fellows that it was computed with."""
    size = np.abs(values.astype(np.float64))
    size = np.where(np.isfinite(size), size, 0.0)
    return eps / 2 * (size + _rms(size))


def _rms(values: np.ndarray) -> float:
    """Of the finite ones."""
    if not values.size:
        return 0.0
    flat = values.astype(np.float64).reshape(-1)
    # Not as a product of vectors, for which the threads of a BLAS would be woken.
    with np.errstate(over="ignore"):
        square = float(np.square(flat).sum())
    if not math.isfinite(square):
        flat = flat[np.isfinite(flat)]
        largest = float(np.abs(flat).max(initial=0.0)) or 1.0
        return largest * math.sqrt(float(np.square(flat / largest).sum()) / values.size)
    return math.sqrt(square / values.size)


def _largest(difference: np.ndarray, floor: np.ndarray, margin: float) -> float:
    with np.errstate(all="ignore"):
        units = np.where(difference > 0, difference / (margin * floor), 0.0)
    return float(units.max(initial=0.0))


def _tiny(dtype: np.dtype) -> float:
    """What frameworks that flush subnormal numbers to zero are off by."""
    return 2.0**-126 if dtype.name == "bfloat16" else float(np.finfo(dtype).smallest_normal)


def _overflows(dtype: np.dtype, exact: np.ndarray, eps: float) -> np.ndarray:
    """Where the result is so near the largest number that rounding decides whether it is infinite."""
    largest = 3.3895313892515355e38 if dtype.name == "bfloat16" else float(np.finfo(dtype).max)
    near = np.abs(wide(exact))
    return (near >= largest * max(0.5, 1 - MARGIN * eps)) & (near <= largest * (1 + MARGIN * eps))


def _is_gradient(reference: Reference, index: int) -> bool:
    return index >= len(reference._node.types)


def _at_a_step(a: np.ndarray, beyond: np.ndarray, reference: Reference, index: int, against: np.ndarray | None) -> bool:
    """Whether every element in question lies, on both sides, between the values that the reference has nearby.

    Gradients are conventions at a kink (of relu at 0, of a maximum at a tie). Values are exact by definition, but
    where rounding decides on which side of a step a number comes to lie (in quantisation), or the reference itself is
    the other side.
    """
    gradient = _is_gradient(reference, index)
    if not gradient and against is not None and reference._node.op.family != "quantization":
        return False
    if reference.epsilon == 0.0 or reference.problem is not None or reference.exact[index].shape != a.shape:
        return False
    low, high = (side.astype(np.float64) for side in reference.hull[index])
    if not (low[beyond] < high[beyond]).all():
        return False
    slack = 1e-3 * (high[beyond] - low[beyond])
    for side in (a,) if against is None else (a, against):
        values = side.astype(np.float64)[beyond]
        if not ((values >= low[beyond] - slack) & (values <= high[beyond] + slack)).all():
            return False
    # A neighbourhood that is merely steep is no kink.
    steep = 2.0**10 * reference.epsilon * np.abs(wide(reference.exact[index]))
    return bool(((high - low) > steep)[beyond].all())


# -- showing -----------------------------------------------------------------------------------------------------------


def _worst(a: np.ndarray, b: np.ndarray, difference: np.ndarray, reference: Reference, index: int, kind: Kind) -> Worst:
    flat = int(np.argmax(difference))
    place = tuple(int(i) for i in np.unravel_index(flat, difference.shape))
    exact = None
    known = kind not in ("same", "noise") and reference.problem is None
    if known and reference.exact[index].shape == a.shape:
        exact = float(reference.exact[index][place])
    return Worst(place, float(a[place]), float(b[place]), exact)


def _histogram(difference: np.ndarray) -> Histogram:
    moved = difference[difference > 0]
    finite = moved[np.isfinite(moved)]
    if not finite.size:
        return Histogram(difference.size - moved.size, [], [])
    logs = np.log10(finite)
    low, high = math.floor(2 * logs.min()) / 2, math.floor(2 * logs.max()) / 2 + 0.5
    counts, edges = np.histogram(logs, bins=np.arange(low, high + 0.25, 0.5))
    return Histogram(difference.size - moved.size, [float(e) for e in edges], [int(c) for c in counts])
