"""CRADLE's measures, against values computed by hand and against the definitions written out slowly."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import metaop as mo
from metaop.debug.cradle import (
    Metric,
    class_distance,
    class_metric,
    detect,
    deviations,
    highlighted,
    localization_map,
    mad_distance,
    mad_metric,
    one_hot,
    rates_of_change,
    third_quartile,
    top_class,
    unique_inconsistencies,
)
from metaop.debug.cradle.distances import MOST_RANKS
from metaop.errors import UsageError

INF, NAN = math.inf, math.nan
HUGE = sys.float_info.max
LEAST = 5e-324


def ranked(rank: int, classes: int = 10) -> list[float]:
    """Scores by which class 0 has the given rank."""
    return [0.5, *(1.0 if other < rank else 0.0 for other in range(1, classes))]


# -- D_CLASS -----------------------------------------------------------------------------------------------------------


def test_the_papers_petri_dish() -> None:
    """Rank 1 scores 16; not in the top 5 scores 0; rank 2 scores 8."""
    assert class_distance([ranked(1)], [ranked(6)], [0]) == 16
    assert class_distance([ranked(1)], [ranked(2)], [0]) == 8


@pytest.mark.parametrize(
    ("rank_a", "rank_b", "expected"),
    [(1, 1, 0), (2, 3, 4), (4, 5, 1), (5, 6, 1), (1, 5, 15), (3, 9, 4), (6, 10, 0), (2, 1, 8)],
)
def test_class_distance_by_hand(rank_a: int, rank_b: int, expected: float) -> None:
    assert class_distance([ranked(rank_a)], [ranked(rank_b)], [0]) == expected


def test_k_is_the_last_rank_that_counts() -> None:
    assert class_distance([ranked(1)], [ranked(2)], [0], k=1) == 1
    assert class_distance([ranked(3)], [ranked(4)], [0], k=3) == 1
    assert class_distance([ranked(1)], [ranked(10)], [0], k=MOST_RANKS) == 2.0**52 - 2.0**43
    for k in (0, -1, MOST_RANKS + 1, 2.0, True, None):
        with pytest.raises(UsageError, match="k is a whole number"):
            class_distance([[1.0]], [[1.0]], [0], k=k)


def test_of_equal_scores_the_lower_class_ranks_first() -> None:
    tied, clear = [[1.0, 1.0, 1.0]], [[1.0, 0.0, 0.0]]
    assert [class_distance(tied, clear, [c]).item() for c in range(3)] == [0, 0, 0]
    assert class_distance(tied, [[0.0, 1.0, 0.0]], [0]) == 8
    assert top_class(tied) == 0


def test_nan_ranks_last_and_on_one_side_only_is_infinite() -> None:
    with_nan, without = [[NAN, 0.0, -INF]], [[3.0, 0.0, -INF]]
    assert class_distance(with_nan, without, [1]) == INF
    assert class_distance(without, with_nan, [1]) == INF
    assert class_distance(with_nan, [[NAN, -INF, 0.0]], [1]) == 8, "NaN on both sides: ranks 1 and 2"
    assert class_distance(with_nan, [[NAN, 5.0, 6.0]], [0]) == 0, "rank 3 on both"
    assert class_distance([[NAN, NAN, 0.0]], [[NAN, NAN, 0.0]], [1]) == 0
    assert class_distance([[NAN, 1.0]], [[1.0, NAN]], [0]) == INF
    assert top_class([[NAN, NAN], [NAN, -INF]]).tolist() == [0, 1]


def test_infinite_scores_are_ranked() -> None:
    assert class_distance([[INF, 0.0]], [[0.0, INF]], [0]) == 8
    assert class_distance([[INF, INF]], [[INF, INF]], [1]) == 0


def test_without_truth_side_a_is_asked() -> None:
    a, b = [[0.6, 0.3, 0.1]], [[0.3, 0.1, 0.6]]
    assert class_distance(a, b, None) == class_distance(a, b, [0]) == 8
    assert class_distance(b, a, None) == class_distance(b, a, [2]) == 12
    with pytest.raises(UsageError):
        class_distance(np.zeros((1, 0)), np.zeros((1, 0)), None)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint64", "float16", "float32", "float64"])
def test_scores_of_any_dtype(dtype: str) -> None:
    a, b = np.array([[1, 0]], dtype), np.array([[0, 1]], dtype)
    assert class_distance(a, b, [0]) == 8
    assert top_class(b) == 1
    assert top_class(np.zeros((1, 2), dtype)) == 0


def test_wide_integers_are_not_rounded() -> None:
    assert class_distance([[2**53, 2**53 + 1]], [[2**53 + 1, 2**53]], [0]) == 8


@pytest.mark.parametrize(
    ("a", "b", "truth", "message"),
    [
        ([1.0, 2.0], [1.0, 2.0], [0], r"scores\[None\]"),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], [0], "must be equal"),
        ([[1.0, 2.0]], [[1.0, 2.0]], [2], "from 0 to 1"),
        ([[1.0, 2.0]], [[1.0, 2.0]], [-1], "from 0 to 1"),
        ([[1.0, 2.0]], [[1.0, 2.0]], [0, 1], r"1 of them"),
        ([[1.0, 2.0]], [[1.0, 2.0]], [[0, 1]], "argmax"),
        ([[1.0, 2.0]], [[1.0, 2.0]], [1.0], "float64"),
        ([[1.0, 2.0]], [[1.0, 2.0]], [True], "bool"),
        ([["a", "b"]], [[1.0, 2.0]], [0], "real numbers"),
        ([[1j, 2.0]], [[1.0, 2.0]], [0], "real numbers"),
    ],
)
def test_scores_and_truths_that_do_not_fit(a: list, b: list, truth: list, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        class_distance(a, b, truth)


def slow_class_distance(a: np.ndarray, b: np.ndarray, truth: int, k: int) -> float:
    """By sorting, class by class."""
    if any(math.isnan(x) != math.isnan(y) for x, y in zip(a, b, strict=True)):
        return INF

    def sigma(scores: np.ndarray) -> int:
        order = sorted(range(len(scores)), key=lambda c: (math.isnan(scores[c]), -scores[c], c))
        # a NaN's own order among NaNs is by class: the key must not compare it
        nans = [c for c in range(len(scores)) if math.isnan(scores[c])]
        order = [c for c in order if c not in nans] + nans
        rank = order.index(truth) + 1
        return 2 ** (k - rank) if rank <= k else 0

    return abs(sigma(a) - sigma(b))


few = st.sampled_from([0.0, 0.5, 1.0, -1.0, INF, -INF, NAN, LEAST, HUGE])


@st.composite
def classified(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    count, classes = draw(st.integers(0, 4)), draw(st.integers(1, 8))
    values = few if draw(st.booleans()) else st.floats(allow_nan=False)
    a, b = (draw(hnp.arrays(np.float64, (count, classes), elements=values)) for _ in range(2))
    truth = draw(hnp.arrays(np.int64, (count,), elements=st.integers(0, classes - 1)))
    return a, b, truth, draw(st.integers(1, 6))


@settings(max_examples=300, deadline=None)
@given(classified())
def test_class_distance_properties(case: tuple[np.ndarray, np.ndarray, np.ndarray, int]) -> None:
    a, b, truth, k = case
    found = class_distance(a, b, truth, k)
    assert found.shape == (len(a),)
    assert found.dtype == np.float64
    assert found.tolist() == [slow_class_distance(*row, k) for row in zip(a, b, truth, strict=True)]
    assert found.tolist() == class_distance(b, a, truth, k).tolist()
    assert found.tolist() == [class_distance(a[i : i + 1], b[i : i + 1], truth[i : i + 1], k)[0] for i in range(len(a))]
    assert ((found >= 0) & ((found <= 2 ** (k - 1)) | (found == INF))).all()
    assert not class_distance(a, a.copy(), truth, k).any()
    assert class_distance(a, b, None, k).tolist() == class_distance(a, b, top_class(a), k).tolist()


# -- D_MAD -------------------------------------------------------------------------------------------------------------


def test_mad_distance_by_hand() -> None:
    # Dave's angles, as far as the paper's text has kept its digits: 0.4 on one backend and 0.1 on the other.
    assert mad_distance([0.4], [0.1], [0.2])[0] == pytest.approx(1 / 3)
    assert mad_distance([[1.0, 5.0]], [[2.0, 2.0]], [[2.0, 2.0]]) == 1, "one side exact"
    assert mad_distance([[1.0, 5.0]], [[2.0, 3.0]], [[2.0, 2.0]]) == 0.6, "means 2 and 0.5"
    assert mad_distance([[0.5, 0.5]], [[1.0, 0.0]], one_hot([0], 2)) == 1
    assert mad_distance(np.zeros((2, 1, 2)), np.ones((2, 1, 2)), np.full((2, 1, 2), 4.0)).tolist() == [1 / 7] * 2


def test_mad_distance_where_both_sides_are_equally_far() -> None:
    assert mad_distance([1.0], [1.0], [1.0]) == 0, "0/0"
    assert mad_distance([3.0], [1.0], [2.0]) == 0, "it measures severity, not equality"


@pytest.mark.parametrize(
    ("a", "b", "truth", "expected"),
    [
        (NAN, 1.0, 1.0, INF),
        (INF, 1.0, 1.0, INF),
        (INF, -INF, 1.0, INF),
        (INF, NAN, 1.0, INF),
        (NAN, 1.0, NAN, INF),
        (-INF, 1.0, -INF, INF),
        (1.0, 2.0, NAN, INF),
        (1.0, 2.0, INF, INF),
        (NAN, NAN, 1.0, 0.0),
        (INF, INF, 1.0, 0.0),
        (INF, INF, INF, 0.0),
        (1.0, 1.0, NAN, 0.0),
    ],
)
def test_mad_distance_of_special_values(a: float, b: float, truth: float, expected: float) -> None:
    assert mad_distance([a], [b], [truth]) == expected
    assert mad_distance([b], [a], [truth]) == expected
    # The same beside a difference that is finite: an infinite one wins, a shared one hides nothing.
    beside = mad_distance([[a, 3.0]], [[b, 1.0]], [[truth, 0.0]])
    assert beside == (INF if expected == INF else 0.5)
    # And it stays in its own row.
    assert mad_distance([[a], [3.0]], [[b], [1.0]], [[truth], [0.0]])[1] == 0.5


@pytest.mark.parametrize(
    ("a", "b", "truth", "expected"),
    [
        (HUGE, 0.0, -HUGE, 1 / 3),
        (HUGE, -HUGE, -HUGE, 1.0),
        (LEAST, 0.0, 0.0, 1.0),
        (3 * LEAST, LEAST, 0.0, 0.5),
        (HUGE, LEAST, 0.0, 1.0),
    ],
)
def test_nothing_overflows_or_underflows(a: float, b: float, truth: float, expected: float) -> None:
    assert mad_distance([a], [b], [truth])[0] == pytest.approx(expected, rel=1e-15)
    wide = [[value] + [0.0] * 99 for value in (a, b, truth)]
    assert mad_distance(wide[:1], wide[1:2], wide[2:])[0] == pytest.approx(expected, rel=1e-15)
    # A huge value that all agree on does not swallow the least difference of the others.
    beside = [[value, 1e300] for value in (LEAST, 0.0, 0.0)]
    assert mad_distance(beside[:1], beside[1:2], beside[2:]) == 1


def test_a_floor_keeps_rounding_errors_from_looking_severe() -> None:
    a, b, truth = np.float32([1 + 1e-6]), np.float32([1.0]), np.float64([1.0])
    assert mad_distance(a, b, truth) == 1
    assert mad_distance(a, b, truth, floor=1e-4) < 0.01
    assert mad_distance([2.0], b, truth, floor=1e-4) > 0.999, "and bugs stay"
    assert mad_distance([2.0, 2.0], [1.0, 1.0], [1.0, 1.0], floor=[1.0, 3.0]).tolist() == [0.5, 0.25]
    assert mad_distance([1.0], [1.0], [1.0], floor=1.0) == 0
    assert mad_distance([LEAST], [0.0], [0.0], floor=HUGE) == 0
    for floor in (-1.0, NAN, INF, [1.0, 2.0, 3.0]):
        with pytest.raises(UsageError, match="floor"):
            mad_distance([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], floor=floor)


def test_mad_distance_refuses_what_it_cannot_judge() -> None:
    with pytest.raises(UsageError, match="side A cannot stand for it"):
        mad_distance([1.0], [1.0], None)
    for shapes in [((2,), (2, 1), (2,)), ((2,), (2,), (1,)), ((), (), ())]:
        with pytest.raises(UsageError, match="one shape"):
            mad_distance(*(np.zeros(shape) for shape in shapes))
    with pytest.raises(UsageError, match="truth must hold real numbers"):
        mad_distance([1.0], [1.0], ["cat"])


def test_empty_batches_and_instances() -> None:
    assert mad_distance(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3))).shape == (0,)
    assert mad_distance(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0))).tolist() == [0, 0]
    assert class_distance(np.zeros((0, 3)), np.zeros((0, 3)), []).shape == (0,)
    assert one_hot([], 3).shape == (0, 3)


def exact_mad_distance(a: np.ndarray, b: np.ndarray, truth: np.ndarray) -> float:
    """By the definition, in fractions."""
    off = [Fraction(0), Fraction(0)]
    for x, y, o in zip(a.ravel().tolist(), b.ravel().tolist(), truth.ravel().tolist(), strict=True):
        same = x == y or (math.isnan(x) and math.isnan(y))
        if math.isfinite(x) and math.isfinite(y) and math.isfinite(o):
            off = [off[0] + abs(Fraction(x) - Fraction(o)), off[1] + abs(Fraction(y) - Fraction(o))]
        elif not same:
            return INF
    return float(abs(off[0] - off[1]) / sum(off)) if any(off) else 0.0


@st.composite
def regressed(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    elements = few if draw(st.booleans()) else st.floats()
    a, b, truth = (draw(hnp.arrays(np.float64, shape, elements=elements)) for _ in range(3))
    return a, np.where(draw(hnp.arrays(np.bool_, shape)), a, b), truth


@settings(max_examples=500, deadline=None)
@given(regressed())
def test_mad_distance_properties(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    a, b, truth = case
    found = mad_distance(a, b, truth)
    assert found.shape == (len(a),)
    assert ((found >= 0) & ((found <= 1) | (found == INF))).all()
    assert found.tolist() == mad_distance(b, a, truth).tolist()
    assert found.tolist() == [mad_distance(a[i : i + 1], b[i : i + 1], truth[i : i + 1])[0] for i in range(len(a))]
    assert found == pytest.approx([exact_mad_distance(*row) for row in zip(a, b, truth, strict=True)], abs=1e-14)
    assert not mad_distance(a, a.copy(), truth).any()
    assert (mad_distance(a, b, truth, floor=1.0) <= found).all()


# -- inconsistencies ---------------------------------------------------------------------------------------------------


def test_thresholds_are_reached_not_only_passed() -> None:
    """The strictest thresholds of the paper are the largest distances; a T_M of 0 takes every input."""
    assert class_metric(threshold=16).triggers(16)
    assert not class_metric(threshold=16).triggers(15)
    assert class_metric(threshold=1).triggers(1)
    assert not class_metric(threshold=1).triggers(0)
    assert mad_metric(threshold=1).triggers(1)
    assert mad_metric(threshold=0).triggers(0)
    assert mad_metric().triggers(INF)
    assert (class_metric().threshold, mad_metric().threshold) == (8, 0.2)


def test_patterns() -> None:
    everything = [0, 1, 2, 3, 4, 6, 7, 8, 12, 14, 15, 16, INF]
    assert class_metric().pattern(everything) == (1, 1, 2, 3, 4, 1, 1)
    assert mad_metric().pattern([0, 0.2, 0.39, 0.6, 0.79, 0.8, 1, INF]) == (1, 2, 0, 2, 2, 1)
    assert class_metric(k=2).edges == (0, 1, 2)
    with pytest.raises(UsageError, match="nan"):
        class_metric().pattern([0, NAN])
    for edges in [(), (1.0,), (0.0, 0.0), (0.0, INF), (0.0, NAN)]:
        with pytest.raises(UsageError, match="rise from 0"):
            Metric("mine", 1.0, edges)
    with pytest.raises(UsageError, match="threshold"):
        Metric("mine", NAN, (0.0,))


def test_a_pair_is_inconsistent_from_p_percent_on_and_never_without_a_trigger() -> None:
    distances = {f"input {i}": 8.0 * (i < 2) for i in range(10)}
    assert detect("m", ("a", "b"), distances, class_metric(), percent=20)
    assert detect("m", ("a", "b"), distances, class_metric(), percent=20.001) is None
    assert detect("m", ("a", "b"), {"one": 7.9}, class_metric()) is None
    for percent in (-1, 101, NAN):
        with pytest.raises(UsageError, match="percent"):
            detect("m", ("a", "b"), distances, class_metric(), percent=percent)
    with pytest.raises(UsageError, match="no inputs"):
        detect("m", ("a", "b"), {}, class_metric())
    for wrong in (NAN, -1.0):
        with pytest.raises(UsageError, match="0 or more"):
            detect("m", ("a", "b"), {"one": 16.0, "two": wrong}, class_metric())


def test_the_worst_input_is_the_one_to_localise_on() -> None:
    distances = {"c": 8.0, "z": 16.0, "b": 16.0, "none": 0.0}
    found = detect("m", ("a", "b"), distances, class_metric(), rates={"conv": 0.0, "norm": 9.0, "relu": 1.0})
    assert found is not None
    assert found.triggering == ("b", "z", "c")
    assert found.worst == "b"
    assert found.highlighted == ("norm",)
    nan = detect("m", ("a", "b"), distances | {"broken": INF}, class_metric())
    assert nan is not None
    assert nan.worst == "broken"
    assert nan.highlighted == ()


def test_unique_inconsistencies_as_in_table_1() -> None:
    """Two models on two versions, each with its own pattern: two unique inconsistencies out of four."""
    xception = {"a": 16.0, "b": 8.0, "c": 0.0}
    nasnet = {"a": 16.0, "b": 16.0, "c": 0.0}
    found = [
        detect(model, ("tf", "cn"), distances, class_metric(), setting=version)
        for version in ("2.2.0", "2.1.6")
        for model, distances in (("xception", xception), ("nasnet", nasnet))
    ]
    groups = unique_inconsistencies([one for one in found if one])
    assert [[(one.model, one.setting) for one in group] for group in groups] == [
        [("xception", "2.2.0"), ("xception", "2.1.6")],
        [("nasnet", "2.2.0"), ("nasnet", "2.1.6")],
    ]


def test_what_keeps_inconsistencies_apart() -> None:
    base = detect("m", ("a", "b"), {"x": 16.0, "y": 0.0}, class_metric())
    others = [
        detect("n", ("a", "b"), {"x": 16.0, "y": 0.0}, class_metric()),
        detect("m", ("a", "c"), {"x": 16.0, "y": 0.0}, class_metric()),
        detect("m", ("a", "b"), {"x": 15.0, "y": 0.0}, class_metric()),
        detect("m", ("a", "b"), {"x": INF, "y": 0.0}, class_metric()),
        detect("m", ("a", "b"), {"x": 1.0, "y": 0.0}, mad_metric()),
    ]
    assert len(unique_inconsistencies([base, *others])) == 6
    # A pattern is a distribution: which inputs trigger, and where within a bin, is not part of it.
    same = [detect("m", ("b", "a"), {"x": 0.0, "y": 16.0}, class_metric())]
    assert len(unique_inconsistencies([base, *same])) == 1
    assert unique_inconsistencies([]) == []


# -- the localisation map ----------------------------------------------------------------------------------------------


def chain(length: int) -> list[mo.Operator]:
    node: mo.Node = mo.Variable([1.0])
    found = []
    for _ in range(length):
        node = mo.relu(node)
        found.append(node)
    return found


def test_rates_by_hand() -> None:
    x = mo.Placeholder((2,), "float32", name="x")
    a, b = mo.relu(x), mo.exp(x)
    c = a + b
    d = c * mo.Variable([1.0, 2.0])
    rates = rates_of_change([a, b, c, d], {a: 0.0, b: 0.5, c: 0.75, d: 0.25})
    assert rates[a] == 0
    assert rates[b] == pytest.approx(0.5 / 1e-7)
    assert rates[c] == pytest.approx(0.25 / (0.5 + 1e-7)), "the larger predecessor counts"
    assert rates[d] == pytest.approx(-0.5 / (0.75 + 1e-7))
    assert list(rates_of_change([d, a], {a: 0.0, b: 0.5, c: 0.75, d: 0.25})) == [d, a]


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [(0.0, INF, INF), (1.0, INF, INF), (INF, INF, 0.0), (INF, 1.0, -1.0), (INF, 0.0, -1.0), (0.0, 0.0, 0.0)],
)
def test_rates_of_infinite_distances(before: float, after: float, rate: float) -> None:
    a, b = chain(2)
    assert rates_of_change([a, b], {a: before, b: after})[b] == rate


def test_only_an_infinite_distance_makes_an_infinite_rate() -> None:
    (a,) = chain(1)
    assert rates_of_change([a], {a: HUGE})[a] == HUGE


def test_predecessors_of_every_kind() -> None:
    x = mo.Variable([[1.0, 2.0], [3.0, 4.0]])
    first = mo.relu(x)
    parts = mo.split(first, num_outputs=2)
    both = parts[1] * parts[1]
    later = mo.exp(x).run_after(both)
    split = parts[0].producer
    distance = {first: 1.0, split: 2.0, both: 3.0, later: 4.0}
    rates = rates_of_change([first, split, both, later], distance)
    assert rates[both] == pytest.approx(0.5), "an output of several stands for its operator"
    assert rates[later] == pytest.approx(4e7), "control edges carry nothing"


def test_what_steers_an_open_attribute_counts_where_it_was_measured() -> None:
    x = mo.Placeholder((2, 2), "float32", name="x")
    shape = mo.identity(mo.Variable(np.array([4])))
    flat = mo.reshape(x, shape=shape)
    assert rates_of_change([flat], {flat: 1.0})[flat] == pytest.approx(1e7)
    assert rates_of_change([flat], {flat: 1.0, shape: 1.0})[flat] == 0


def test_a_distance_that_is_missing_or_none() -> None:
    a, b = chain(2)
    with pytest.raises(UsageError, match=f"no distance of node {a.name!r}, needed for {b.name!r}"):
        rates_of_change([b], {b: 1.0})
    for wrong in (NAN, -1.0):
        with pytest.raises(UsageError, match="0 or more"):
            rates_of_change([a], {a: wrong})


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, allow_nan=False) | st.sampled_from([0.0, INF]), min_size=1, max_size=8))
def test_rate_properties(distances: list[float]) -> None:
    nodes = chain(len(distances))
    given_distances = dict(zip(nodes, distances, strict=True))
    for node, rate in rates_of_change(nodes, given_distances).items():
        assert rate >= -1, "which also says that it is no NaN"
        if rate == INF:
            assert given_distances[node] == INF
    found = localization_map(nodes, given_distances)
    assert [e.node for e in found] == nodes
    assert all(e.highlighted for e in found if e.rate == INF)
    if INF not in distances:
        assert sum(e.highlighted for e in found) <= math.ceil(len(found) / 4)


def test_third_quartile() -> None:
    assert third_quartile([4.0]) == 4
    assert third_quartile([0.0, 1.0, 2.0, 3.0, 4.0]) == 3
    assert third_quartile([0.0, 1.0, 2.0, 3.0]) == 2.25
    assert third_quartile([0.0, 1.0, INF, INF]) == INF
    assert third_quartile([INF, INF]) == INF
    assert third_quartile([-1.0, HUGE, HUGE]) == HUGE
    for wrong in ([], [1.0, NAN]):
        with pytest.raises(UsageError):
            third_quartile(wrong)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1, 1e300), min_size=1, max_size=30))
def test_third_quartile_is_numpys(rates: list[float]) -> None:
    assert third_quartile(rates) == pytest.approx(float(np.quantile(rates, 0.75)), rel=1e-12)


def test_highlighted() -> None:
    assert highlighted({}) == []
    assert highlighted({"a": 0.0, "b": 0.0}) == [], "a map without differences has no spike"
    assert highlighted({"a": INF, "b": 1.0, "c": INF, "d": INF}) == ["a", "c", "d"]
    assert highlighted({"a": 1.0, "b": 9.0, "c": 2.0, "d": 3.0, "e": 0.5, "f": 8.0, "g": 0.0, "h": 0.1}) == ["b", "f"]


def test_deviations() -> None:
    a, b = chain(2)
    x, y = np.float32([1, 2]), np.float32([1, 4])
    assert deviations({a: [x], b: [x, x]}, {a: [y], b: [x, y]}) == {a: 1.0, b: 1.0}
    assert deviations({a: [x]}, {a: [x.astype(np.float64)]})[a] == INF
    assert deviations({a: [x]}, {a: [np.float32([NAN, 2])]})[a] == INF
    for one, other in [({a: [x]}, {a: [x], b: [x]}), ({a: [x], b: [x]}, {a: [x]})]:
        with pytest.raises(UsageError, match=repr(b.name)):
            deviations(one, other)
    with pytest.raises(UsageError, match="2 outputs on A and 1 on B"):
        deviations({a: [x, x]}, {a: [x]})


def test_the_map_finds_where_a_fault_comes_in() -> None:
    """The values of a chain computed twice, once with a fault in the middle."""
    nodes = chain(8)
    right = [np.linspace(1, 2, 5) * 1.1**i for i in range(8)]
    wrong = [value * (1 + 1e-9) if i < 4 else value + 0.1 for i, value in enumerate(right)]
    distance = deviations(
        {n: [v] for n, v in zip(nodes, right, strict=True)}, {n: [v] for n, v in zip(nodes, wrong, strict=True)}
    )
    found = localization_map(nodes, distance)
    assert max(found, key=lambda e: e.rate).node is nodes[4]
    assert found[4].highlighted
    assert found[4].deviation == pytest.approx(0.1)
    assert not any(e.highlighted for e in found[5:]), "what passes a deviation on does not introduce it"
