"""How severely one input makes two backends disagree, measured against the ground truth (CRADLE, section III-B).

Both distances judge each backend against the truth and subtract the judgements, so that what a model gets wrong on both
backends alike counts for nothing. They measure severity and are no test of equality: two outputs that differ may be
equally far from the truth. Whether results are equal at all is the business of :mod:`metaop.debug.compare`.

The first axis of every array is the batch, and the result has one float64 per instance. An infinite distance means
that one side has a NaN (for :func:`mad_distance` also an infinity) where the other has not; it is never a silent NaN,
and exceeds every threshold.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from metaop.errors import UsageError
from metaop.types import is_floating

__all__ = ["class_distance", "mad_distance", "one_hot", "top_class"]

#: with more ranks a score, a power of two, and a difference of scores would no longer be exact in float64
MOST_RANKS = 53

#: beyond this the difference of two finite numbers may be infinite
_LARGE = 2.0**1022


def class_distance(scores_a: ArrayLike, scores_b: ArrayLike, truth: ArrayLike | None, k: int = 5) -> np.ndarray:
    """D_CLASS: ``|sigma_a - sigma_b|``, where sigma is ``2**(k - rank)`` of the true class, or 0 outside of the top k.

    ``scores_*`` are [instances, classes] and ``truth`` holds a class number per instance. The largest score has rank 1;
    of equal scores the lower class number ranks first; NaN ranks last. The distance lies between 0 and ``2**(k - 1)``;
    it is infinite where a class has a NaN on one side only, whatever its rank.

    ``truth=None`` takes side A's own :func:`top_class`. That answers another question, whether B keeps what A says: it
    is not symmetric, trusts A, and also counts inputs whose best two classes are all but tied, of which a model that
    is not trained has many; there rounding alone makes ``2**(k - 2)``. Where a more trusted computation exists, give
    its top classes as the truth.

    >>> tensorflow = [[0.7, 0.2, 0.1]]
    >>> class_distance(tensorflow, [[0.3, 0.4, 0.2]], truth=[0])      # rank 1 and rank 2: 16 - 8
    array([8.])
    >>> class_distance(tensorflow, [[0.3, 0.4, np.nan]], truth=[0])
    array([inf])
    """
    a, b = _scores(scores_a, "scores_a"), _scores(scores_b, "scores_b")
    if a.shape != b.shape:
        raise UsageError(f"class_distance: scores_a has shape {a.shape}, scores_b {b.shape}; they must be equal")
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= MOST_RANKS:
        raise UsageError(f"class_distance: k is a whole number from 1 to {MOST_RANKS}; got {k!r}")
    classes = top_class(a) if truth is None else _classes(truth, a.shape[1], a.shape[0])
    distance = np.abs(_sigma(a, classes, int(k)) - _sigma(b, classes, int(k)))
    distance[(np.isnan(a) != np.isnan(b)).any(axis=1)] = math.inf
    return distance


def top_class(scores: ArrayLike) -> np.ndarray:
    """The class of rank 1 of each instance: the lowest of equals; NaN only where there is nothing else.

    >>> top_class([[0.1, 0.6, 0.6], [np.nan, 0.0, -1.0]])
    array([1, 1])
    """
    found = _scores(scores, "scores")
    usable = ~np.isnan(found)
    best = np.max(found, axis=1, keepdims=True, where=usable, initial=_least(found.dtype))
    return np.argmax(usable & (found == best), axis=1)


def mad_distance(a: ArrayLike, b: ArrayLike, truth: ArrayLike, *, floor: ArrayLike = 0.0) -> np.ndarray:
    """D_MAD: ``|d_a - d_b| / (d_a + d_b)``, where d is an instance's mean absolute deviation from the truth.

    The three arrays have one shape, [instances, ...]; all is computed in float64. The distance lies between 0 and 1:
    1 where exactly one side is at the truth, 0 where both are equally far, on whichever side of it, and for 0/0.

    It is infinite where the sides differ at a place at which either of them, or the truth, is NaN or infinite. Where
    both sides have the same NaN or infinity it says nothing about their difference, and counts for neither.

    Truth for classes is :func:`one_hot`. There is no default: side A cannot stand for the truth, for the distance would
    be 1 wherever B differs by the last bit. A float64 reference can, but deviations from it are rounding errors, whose
    ratio says nothing (0.5 below, of two correct results). Then give a ``floor``, the deviation that rounding explains,
    one for all or one per instance: it is added to the denominator. With a recorded truth it is not needed.

    >>> mad_distance([0.5], [0.2], truth=[0.1])                       # deviations 0.4 and 0.1
    array([0.6])
    >>> mad_distance([1 + 1e-7], [1 + 3e-7], truth=[1.0]).round(2)
    array([0.5])
    >>> mad_distance([1 + 1e-7], [1 + 3e-7], truth=[1.0], floor=1e-5).round(2)
    array([0.02])
    """
    if truth is None:
        raise UsageError("mad_distance: give the truth, or a float64 reference and a floor; side A cannot stand for it")
    x, y, o = _numbers(a, "a"), _numbers(b, "b"), _numbers(truth, "truth")
    if not (x.shape == y.shape == o.shape) or x.ndim == 0:
        raise UsageError(
            "mad_distance: a, b and truth need one shape, [instances, ...]; "
            f"got {x.shape}, {y.shape} and {o.shape} (one instance: a[None])"
        )
    count, width = x.shape[0], math.prod(x.shape[1:])
    if not count or not width:
        return np.zeros(count)
    x, y, o = (array.reshape(count, width).astype(np.float64) for array in (x, y, o))
    margin = _floor(floor, count)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(o)
    x, y, o = (np.where(finite, array, 0.0) for array in (x, y, o))
    # Only ratios matter: every instance is scaled by powers of two, so that nothing overflows and no mean underflows.
    largest = np.max([np.abs(x), np.abs(y), np.abs(o)], axis=(0, 2))
    shrink = np.where(largest > _LARGE, 0.5, 1.0)[:, None]
    off_x, off_y = np.abs(x * shrink - o * shrink), np.abs(y * shrink - o * shrink)
    _, exponent = np.frexp(np.maximum(off_x, off_y).max(axis=1))
    d_x, d_y = (np.ldexp(off, -exponent[:, None]).mean(axis=1) for off in (off_x, off_y))
    with np.errstate(over="ignore"):
        total = d_x + d_y + np.ldexp(margin * shrink[:, 0], -exponent)
    distance = np.divide(np.abs(d_x - d_y), total, out=np.zeros(count), where=total > 0)
    distance[(~same & ~finite).any(axis=1)] = math.inf
    return distance


def one_hot(truth: ArrayLike, classes: int) -> np.ndarray:
    """Class numbers as the output of a perfect model: 1 at the true class and 0 elsewhere.

    >>> one_hot([2, 0], classes=3)
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    numbers = _classes(truth, classes)
    return (numbers[:, None] == np.arange(classes)).astype(np.float64)


def _sigma(scores: np.ndarray, truth: np.ndarray, k: int) -> np.ndarray:
    """The score of the true class by its rank."""
    own = np.take_along_axis(scores, truth[:, None], axis=1)
    above = (scores > own) | (np.isnan(own) & ~np.isnan(scores))
    level = (scores == own) | (np.isnan(own) & np.isnan(scores))
    rank = 1 + (above | (level & (np.arange(scores.shape[1]) < truth[:, None]))).sum(axis=1)
    return np.where(rank <= k, np.ldexp(1.0, np.maximum(k - rank, 0)), 0.0)


def _least(dtype: np.dtype) -> float | int | bool:
    return -math.inf if dtype.kind == "f" else False if dtype.kind == "b" else int(np.iinfo(dtype).min)


def _numbers(values: ArrayLike, what: str) -> np.ndarray:
    array = np.asarray(values)
    if is_floating(array.dtype):
        return array.astype(np.float64, copy=False)
    if array.dtype.kind not in "biu":
        raise UsageError(f"{what} must hold real numbers; got dtype {array.dtype}")
    return array


def _scores(values: ArrayLike, what: str) -> np.ndarray:
    array = _numbers(values, what)
    if array.ndim != 2 or not array.shape[1]:
        raise UsageError(
            f"{what} must be [instances, classes]; got shape {array.shape} "
            "(one instance: scores[None]; a class per pixel: scores.reshape(-1, classes))"
        )
    return array


def _classes(truth: ArrayLike, classes: int, count: int | None = None) -> np.ndarray:
    array = np.asarray(truth)
    if array.ndim != 1 or (count is not None and len(array) != count) or (array.size and array.dtype.kind not in "iu"):
        wanted = "" if count is None else f" ({count} of them)"
        raise UsageError(
            f"truth must be one class number per instance{wanted}; got {array.dtype} of shape {array.shape} "
            "(from one-hot vectors: vectors.argmax(axis=1))"
        )
    if array.size and not (int(array.min()) >= 0 and int(array.max()) < classes):
        raise UsageError(f"truth: class numbers run from 0 to {classes - 1}; got {array.min()} to {array.max()}")
    return array.astype(np.intp)


def _floor(floor: ArrayLike, count: int) -> np.ndarray:
    array = _numbers(floor, "floor").astype(np.float64)
    if array.shape not in ((), (count,)):
        raise UsageError(f"floor must be one number, or one per instance ({count}); got shape {array.shape}")
    if not (np.isfinite(array) & (array >= 0)).all():
        raise UsageError("floor must be finite and not negative")
    return np.broadcast_to(array, (count,))
