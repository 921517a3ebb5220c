"""The distances, against a slow computation in exact fractions. What judges must be able to say no: about anything."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from metaop.debug.compare import gradient_distance, mean_absolute_distance
from metaop.types import ANY, FLOATING

DTYPES = sorted(ANY, key=str)
WIDE = [np.dtype("int64"), np.dtype("uint64")]


def slow(a: np.ndarray, b: np.ndarray) -> Fraction | float:
    """The same by the definition: element by element, in exact arithmetic."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    total = Fraction(0)
    for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
        if isinstance(x, float):
            if (math.isnan(x) and math.isnan(y)) or x == y:
                continue
            if not (math.isfinite(x) and math.isfinite(y)):
                return math.inf
        total += abs(Fraction(x) - Fraction(y))
    return total / a.size if a.size else total


def same(found: float, exact: Fraction | float) -> bool:
    if exact == math.inf or exact == 0:
        return found == exact
    if found == math.inf:
        # The mean may lie within float64's range although the sum does not.
        return exact > Fraction(np.finfo(np.float64).max) / 10**6
    return abs(Fraction(found) - exact) <= exact / 10**12 + Fraction(5e-324)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of one dtype and shape; the second often repeats elements of the first."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    a, b = draw(hnp.arrays(dtype, shape)), draw(hnp.arrays(dtype, shape))
    keep = draw(hnp.arrays(np.bool_, shape))
    return a, np.where(keep, a, b)


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_against_the_definition(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    found = mean_absolute_distance(a, b)
    assert type(found) is float
    assert same(found, slow(a, b)), (found, slow(a, b))


@settings(max_examples=200, deadline=None)
@given(pairs())
def test_symmetric_and_never_nan_or_negative(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    found = mean_absolute_distance(a, b)
    assert found == mean_absolute_distance(b, a)
    assert found >= 0
    assert mean_absolute_distance(a, a.copy()) == 0


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_zero_means_equal(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    equal = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    assert (mean_absolute_distance(a, b) == 0) == equal


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_element_among_many_is_seen(dtype: np.dtype) -> None:
    """The smallest step of every dtype, at every position."""
    step = np.finfo(dtype).smallest_subnormal if dtype.kind == "f" else dtype.type(1)
    for position in range(7):
        a, b = np.zeros(7, dtype), np.zeros(7, dtype)
        b[position] = step
        assert mean_absolute_distance(a, b) > 0
        assert gradient_distance([a, a, a], [a, a, b]) > 0


@pytest.mark.parametrize("dtype", sorted(FLOATING, key=str), ids=str)
def test_special_values(dtype: np.dtype) -> None:
    nan, inf = np.nan, np.inf
    apart = [(nan, 1.0), (nan, 0.0), (inf, 1.0), (-inf, 1.0), (inf, -inf), (nan, inf), (nan, -inf)]
    for x, y in apart:
        a, b = np.array([1, x, 2], dtype), np.array([1, y, 2], dtype)
        assert mean_absolute_distance(a, b) == inf
        assert mean_absolute_distance(b, a) == inf
        assert gradient_distance([a[:1], a], [b[:1], b]) == inf
    for x in (nan, inf, -inf):
        a = np.array([1, x, 2], dtype)
        assert mean_absolute_distance(a, a.copy()) == 0
        b = np.array([4, x, 2], dtype)
        assert mean_absolute_distance(a, b) == 1
    # NaN is NaN, whatever its sign and payload.
    assert mean_absolute_distance(np.array([nan], dtype), -np.array([nan], dtype)) == 0
    assert mean_absolute_distance(np.array([0.0], dtype), np.array([-0.0], dtype)) == 0


def test_empty() -> None:
    for shape in ((0,), (0, 3), (2, 0, 4)):
        assert mean_absolute_distance(np.zeros(shape), np.ones(shape)) == 0
    assert gradient_distance([], []) == 0


SHAPES = [(), (1,), (0,), (2,), (1, 2), (2, 1)]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(SHAPES, 2)), ids=str)
def test_shapes(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """Nothing is broadcast."""
    a, b = np.zeros(one, np.float32), np.zeros(other, np.float32)
    assert mean_absolute_distance(a, b) == math.inf
    assert gradient_distance([a], [b]) == math.inf


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(DTYPES, 2)), ids=str)
def test_dtypes(one: np.dtype, other: np.dtype) -> None:
    assert mean_absolute_distance(np.zeros(3, one), np.zeros(3, other)) == math.inf
    assert mean_absolute_distance(np.zeros(0, one), np.zeros(0, other)) == math.inf


@pytest.mark.parametrize("dtype", WIDE, ids=str)
def test_wide_integers(dtype: np.dtype) -> None:
    """float64 cannot tell neighbours beyond 2**53 apart, and 64-bit subtraction wraps."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert mean_absolute_distance(np.array([high], dtype), np.array([high - 1], dtype)) == 1
    assert mean_absolute_distance(np.array([high, 5], dtype), np.array([high - 3, 5], dtype)) == 1.5
    assert mean_absolute_distance(np.array([low], dtype), np.array([high], dtype)) == float(high - low)
    assert mean_absolute_distance(np.array(2**53, dtype), np.array(2**53 + 1, dtype)) == 1


def test_bool() -> None:
    a = np.array([True, False, True, False])
    assert mean_absolute_distance(a, ~a) == 1
    assert mean_absolute_distance(a, np.array([True, True, True, False])) == 0.25


def test_no_overflow_hides_a_difference() -> None:
    big = np.finfo(np.float64).max
    assert mean_absolute_distance(np.array([big, 0]), np.array([-big, 0])) == math.inf
    narrow = np.array([np.finfo(np.float16).max], np.float16)
    assert mean_absolute_distance(narrow, -narrow) == 2 * float(narrow[0])
    assert mean_absolute_distance(np.array([127], np.int8), np.array([-128], np.int8)) == 255
    assert mean_absolute_distance(np.array([0], np.uint8), np.array([255], np.uint8)) == 255


def test_strides_do_not_matter() -> None:
    a = np.arange(24.0).reshape(4, 6)
    assert mean_absolute_distance(a.T, np.ascontiguousarray(a.T)) == 0
    assert mean_absolute_distance(a[::-2, ::3], a[::-2, ::3] + 2) == 2
    assert mean_absolute_distance(np.broadcast_to(np.float32(1), (3, 3)), np.full((3, 3), 2, np.float32)) == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(pairs(), max_size=4))
def test_gradients_are_averaged_by_parameter(given_pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """Each parameter counts the same, however many elements it has."""
    a, b = [p[0] for p in given_pairs], [p[1] for p in given_pairs]
    each = [slow(x, y) for x, y in given_pairs]
    exact = math.inf if math.inf in each else sum(each, Fraction(0)) / max(1, len(each))
    assert same(gradient_distance(a, b), exact)


def test_a_parameter_too_few_is_not_passed_over() -> None:
    a = [np.ones(2), np.ones(3)]
    with pytest.raises(ValueError, match="shorter"):
        gradient_distance(a, a[:1])
