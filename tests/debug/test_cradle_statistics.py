"""Streaming statistics: exact, independent of order, and the same when merged."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metaop.debug.cradle import Statistics, Worst
from metaop.errors import UsageError

INF, NAN = math.inf, math.nan
HUGE, LEAST = 1.7976931348623157e308, 5e-324

Entry = tuple[str, str, float]
values = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, INF, HUGE, -HUGE, LEAST])
entries = st.lists(st.tuples(st.sampled_from(["conv", "relu", "é\ud800"]), st.text(max_size=3), values), max_size=30)


def collect(given_entries: list[Entry], worst: int = 3) -> Statistics:
    found = Statistics(worst)
    for entry in given_entries:
        found.add(*entry)
    return found


def test_by_hand() -> None:
    found = collect([("a", "x", 1.0), ("a", "y", 3.0), ("b", "x", -0.5), ("a", "z", INF), ("a", "w", 2.0)], worst=2)
    assert list(found) == ["a", "b"]
    assert len(found) == 2
    assert "a" in found
    assert "c" not in found
    a, b = found["a"], found["b"]
    assert (a.count, a.infinite, a.mean, a.max) == (4, 1, 2, INF)
    assert a.worst == (Worst("z", INF), Worst("y", 3.0))
    assert (b.count, b.infinite, b.mean, b.max, b.worst) == (1, 0, -0.5, -0.5, (Worst("x", -0.5),))
    with pytest.raises(UsageError, match="nothing was added for 'c'"):
        found["c"]


def test_the_mean_is_exact() -> None:
    assert collect([("a", "", 0.1)] * 10)["a"].mean == 0.1
    assert collect([("a", "", v) for v in (1e100, 1.0, -1e100)])["a"].mean == 1 / 3
    assert collect([("a", "", v) for v in (HUGE, HUGE, LEAST)])["a"].mean == float(2 * Fraction(HUGE) / 3)
    assert collect([("a", "", INF)])["a"].mean == INF


def test_equal_values_are_ordered_by_name() -> None:
    found = collect([("a", name, 1.0) for name in "dbca"], worst=2)
    assert [entry.input for entry in found["a"].worst] == ["a", "b"]


def test_what_is_refused() -> None:
    found = Statistics()
    for value in (NAN, -INF):
        with pytest.raises(UsageError, match="'relu' on input 'cat'"):
            found.add("relu", "cat", value)
    assert len(found) == 0, "nothing of it was counted"
    for worst in (0, -1, 2.0, True):
        with pytest.raises(UsageError, match="at least 1"):
            Statistics(worst)
    with pytest.raises(UsageError, match="merge"):
        Statistics(2).merge(Statistics(3))


@settings(max_examples=200, deadline=None)
@given(entries)
def test_against_the_definition(given_entries: list[Entry]) -> None:
    found = collect(given_entries)
    assert set(found) == {key for key, _, _ in given_entries}
    for key in found:
        mine = [(name, value) for other, name, value in given_entries if other == key]
        finite = [Fraction(value) for _, value in mine if value != INF]
        summary = found[key]
        assert summary.count == len(mine)
        assert summary.infinite == len(mine) - len(finite)
        assert summary.mean == (float(sum(finite) / len(finite)) if finite else INF)
        assert summary.max == max(value for _, value in mine)
        assert list(summary.worst) == sorted(mine, key=lambda entry: (-entry[1], entry[0]))[:3]


@settings(max_examples=200, deadline=None)
@given(entries, st.randoms(use_true_random=False), st.integers(0, 30))
def test_neither_order_nor_parts_matter(given_entries: list[Entry], random: object, cut: int) -> None:
    whole = collect(given_entries)
    shuffled = list(given_entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert collect(shuffled) == whole
    first, second = collect(shuffled[:cut]), collect(shuffled[cut:])
    before = second.to_json()
    first.merge(second)
    assert first == whole
    assert second.to_json() == before


def test_merging_with_itself_counts_twice() -> None:
    found = collect([("a", "x", 1.0), ("a", "y", 2.0)], worst=3)
    found.merge(found)
    assert found == collect([("a", "x", 1.0), ("a", "y", 2.0)] * 2, worst=3)


@settings(max_examples=100, deadline=None)
@given(entries)
def test_json_keeps_all(given_entries: list[Entry]) -> None:
    found = collect(given_entries)
    text = found.to_json()
    again = Statistics.from_json(text)
    assert again == found
    assert again.to_json() == text
    more = [("relu", "new", 1.5), ("conv", "new", INF)]
    for entry in more:
        again.add(*entry)
    assert again == collect(given_entries + more)


def test_json_is_strict_and_readable() -> None:
    found = collect([("a", "x", INF), ("a", "y", 1.5)])
    data = json.loads(found.to_json(), parse_constant=pytest.fail)
    assert data["keys"]["a"] == {
        "count": 2,
        "infinite": 1,
        "mean": 1.5,
        "max": "inf",
        "sum": "3/2",
        "worst": [["x", "inf"], ["y", 1.5]],
    }


def change(**changes: object) -> str:
    data = json.loads(collect([("a", "x", INF), ("a", "y", 1.5)]).to_json())
    for name, value in changes.items():
        (data if name in data else data["keys"]["a"])[name] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "{}",
        "NaN",
        "[" * 100_000,
        change(format="other"),
        change(format_version=2),
        change(worst=0),
        change(worst=True),
        change(worst=[["x", "inf"]]),
        change(keys=[]),
        change(keys={"a": None}),
        change(count=-1),
        change(count=0, infinite=0),
        change(count=1.5),
        change(infinite=3),
        change(infinite=0),
        change(sum="1/0"),
        change(sum="1e999999999"),
        change(sum="9" * 701),
        change(sum="9" * 700),
        change(sum=1.5),
        change(sum="inf"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_not_such_json_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no statistics that metaop wrote"):
        Statistics.from_json(text)


def test_rows_of_the_worst_inputs_are_checked() -> None:
    for rows in ([], [["x", "inf"]], [["x", 1.0], ["y", 1.5]], [["x", "inf"], [1, 1.5]], [["x", "inf"], ["y", "nan"]]):
        data = json.loads(change())
        data["keys"]["a"]["worst"] = rows
        with pytest.raises(UsageError, match="no statistics"):
            Statistics.from_json(json.dumps(data))


def test_memory_does_not_grow_with_the_inputs() -> None:
    sizes = []
    for count in (1_000, 20_000):
        found = Statistics(worst=4)
        for i in range(count):
            found.add("a", str(i), math.sin(i))
        sizes.append(len(found.to_json()))
    assert sizes[1] < sizes[0] + 20
