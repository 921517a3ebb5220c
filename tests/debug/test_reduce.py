"""Operators that are wrong only together, several faults at once, and the search for the smallest set of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from benchmarks import debugged
from metaop.debug.reduce import smallest
from metaop.errors import UsageError
from metaop.graph.nodes import Node

# -- ddmin -------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.lists(st.sets(st.integers(0, 39), min_size=1), min_size=1, max_size=4))
def test_what_is_found_fails_and_is_minimal(count: int, causes: list[set[int]]) -> None:
    """For any predicate that more elements keep true; of several causes whichever."""
    within = [{c % count for c in cause} for cause in causes]
    calls = []

    def fails(chosen: Sequence[int]) -> bool:
        calls.append(list(chosen))
        return any(cause <= set(chosen) for cause in within)

    found = smallest(range(count), fails)
    assert any(cause == set(found) for cause in within) or not any(
        cause <= set(found) - {x} for x in found for cause in within
    )
    assert fails(found)
    for left_out in found if len(found) > 1 else []:
        assert not fails([x for x in found if x != left_out])
    assert found == sorted(found), "in the order in which they were given"
    assert len(calls) <= count**2 + 3 * count + len(found) + 1


@given(st.integers(1, 24), st.integers(0, 2**24), st.data())
def test_any_predicate_at_all(count: int, seed: int, data: st.DataObject) -> None:
    """Also one that more elements may turn false again: what is found fails, and no single element can be left out."""
    answers: dict[frozenset[int], bool] = {frozenset(range(count)): True}

    def fails(chosen: Sequence[int]) -> bool:
        key = frozenset(chosen)
        if key not in answers:
            answers[key] = bool(np.random.default_rng([seed, *sorted(key)]).random() < 0.3)
        return answers[key]

    found = smallest(range(count), fails)
    assert fails(found)
    if len(found) > 1:
        assert not any(fails([x for x in found if x != left_out]) for left_out in found)


def test_it_takes_few_tries_for_one_of_many() -> None:
    calls = []

    def fails(chosen: Sequence[int]) -> bool:
        calls.append(chosen)
        return 700 in chosen

    assert smallest(range(1000), fails) == [700]
    assert len(calls) <= 25


# -- several faults ----------------------------------------------------------------------------------------------------


def chain() -> tuple[Node, dict[str, Node]]:
    rng = np.random.default_rng(1)
    w = mo.Variable(rng.standard_normal((4, 4)).astype(np.float32), name="w")
    nodes: dict[str, Node] = {}
    h: Node = w
    for name, op in (
        ("first", "tanh"),
        ("second", "sigmoid"),
        ("third", "softplus"),
        ("fourth", "exp"),
        ("fifth", "square"),
    ):
        h = nodes[name] = mo.apply(op, [h], {}, name=name)
    return mo.reduce_mean(h, name="loss"), nodes


def off(op: str, factor: float = 1.01) -> str:
    reference = mo.ops()[op].reference
    mo.derive("numpy", name=f"numpy-{op}", forward={op: lambda *a, **k: reference(*a, **k) * np.float32(factor)})
    return f"numpy-{op}"


@pytest.mark.parametrize("judge", ["noise", "paper"])
@pytest.mark.parametrize("wrong", [("first",), ("second", "fifth"), ("first", "third", "fourth")], ids=len)
def test_explain_finds_all_of_them(wrong: tuple[str, ...], judge: str) -> None:
    loss, nodes = chain()
    sides = {None: "numpy", **{nodes[n]: off(nodes[n].op.name) for n in wrong}}
    with mo.DebugSession(progress=False, judge=judge) as sess:
        report = sess.run(loss, frameworks=["numpy", sides])
        assert {r.node for r in report.suspects} == set(wrong)
        found = sess.explain()
    assert found
    assert set(found.nodes) == set(wrong)
    assert found.after.output < found.before.output
    assert found.together == found.nodes
    for name in wrong:
        assert name in str(found)
    assert found.runs < 40


@pytest.mark.parametrize("side", [0, 1])
def test_explain_where_a_side_raises(side: int) -> None:
    loss, nodes = chain()

    def fail(x: object) -> object:
        raise ZeroDivisionError("injected")

    mo.derive("numpy", name="numpy-failing", forward={"softplus": fail})
    sides: list = [{None: "numpy"}, {None: "numpy", nodes["first"]: off("tanh")}]
    sides[side][nodes["third"]] = "numpy-failing"
    with mo.DebugSession(progress=False) as sess:
        report = sess.run(loss, frameworks=sides)
        assert [r.node for r in report.suspects] == ["third", "first"]
        found = sess.explain()
    assert "third" in found.nodes


def test_explain_needs_a_difference() -> None:
    loss, _ = chain()
    sess = mo.DebugSession(progress=False)
    with pytest.raises(UsageError, match="call run first"):
        sess.explain()
    sess.run(loss, frameworks=["numpy", "numpy"])
    found = sess.explain()
    assert not found
    assert found.nodes == found.together == ()
    assert "no difference" in str(found)


def test_explain_in_a_long_graph() -> None:
    network = debugged.cnn(blocks=10, channels=2, size=4)
    wrong = ("block2.norm1", "block7.relu0")
    sides = {None: "numpy", **{network.node(n): off(network.node(n).op.name, 1.1) for n in wrong}}
    with mo.DebugSession(progress=False) as sess:
        report = sess.run(network.loss, network.feeds, frameworks=["numpy", sides])
        assert {r.node for r in report.suspects} == set(wrong)
        assert set(sess.explain().nodes) == set(wrong)


# -- wrong together ----------------------------------------------------------------------------------------------------


def coarse(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Rounded to bfloat16, roughly, so that one more unit in the last place can be told from what A gives."""
    return lambda x: (function(x).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def stumbling(op: str) -> Callable[[np.ndarray], np.ndarray]:
    """As good as the reference on what A gives; off by 1 on anything with more digits."""
    reference = mo.ops()[op].reference

    def function(x: np.ndarray) -> np.ndarray:
        fine = (x.view(np.uint32) & np.uint32(0xFFFF)).any()
        return reference(x) + np.float32(fine)

    return function


def test_operators_that_are_wrong_only_together() -> None:
    """B's square stumbles over what B's tanh gives, and neither is wrong by itself."""
    w = mo.Variable(coarse(np.asarray)(np.linspace(-1, 1, 16, dtype=np.float32)), name="w")
    # The same bits on either side, so that it is no rounding that A's tanh would be blamed for.
    bend = mo.negative(w, name="bend")
    loss = mo.reduce_sum(mo.square(bend, name="square"), name="loss")
    later = mo.exp(mo.multiply(loss, mo.Constant(np.float32(0.1)), name="less"), name="later")
    nudged = {"negative": lambda x: np.nextafter(-x, np.float32(9)), "square": stumbling("square")}
    mo.derive("numpy", name="numpy-pair", forward=nudged)
    for method in ("auto", "sweep"):
        with mo.DebugSession(progress=False) as sess:
            report = sess.run(later, frameworks=["numpy", "numpy-pair"], gradients=False, method=method)
            assert {r.node for r in report.suspects} == {"bend", "square"}
            assert {r.kind for r in report.suspects} == {"fault"}
            (note,) = report.notes
            assert "no operator is wrong by itself" in note
            assert "bend" in note
            assert "square" in note
            found = sess.explain()
            assert set(found.together) == {"bend", "square"}
            assert len(found.nodes) == 1
    # The local check alone does not see it.
    report = mo.DebugSession(progress=False).run(
        later, frameworks=["numpy", "numpy-pair"], gradients=False, method="local"
    )
    assert report.consistent


def test_a_graph_that_magnifies_rounding_accuses_nobody() -> None:
    """A difference of nearly equal numbers, divided by itself: whatever comes out, no operator made it."""
    w = mo.Variable(np.linspace(0.1, 0.9, 9, dtype=np.float32), name="w")
    small = mo.subtract(mo.exp(mo.log(w, name="log"), name="exp"), w, name="small")
    loss = mo.reduce_sum(mo.multiply(small, mo.Constant(np.float32(1e7)), name="magnified"), name="loss")
    up = {"log": lambda x: np.nextafter(np.log(x), np.float32(9))}
    mo.derive("numpy", name="numpy-up", forward=up)
    report = mo.DebugSession(progress=False).run(loss, frameworks=["numpy", "numpy-up"])
    assert report.consistent, str(report)


def test_conventions_are_not_wrong_together() -> None:
    """Two operators that choose otherwise at their kinks move every gradient, and neither is wrong."""
    w = mo.Variable(np.float32([0.0, 0.0, 1.0, -1.0]), name="w")
    bent = mo.relu(w, name="relu")
    loss = mo.reduce_sum(mo.add(bent, mo.abs(w, name="abs"), name="both"), name="loss")
    other = {
        "relu": lambda g, y, x: (np.where(x >= 0, g, np.float32(0)),),
        "abs": lambda g, y, x: (np.where(x >= 0, g, -g),),
    }
    mo.derive("numpy", name="numpy-other", gradient=other)
    report = mo.DebugSession(progress=False).run(loss, frameworks=["numpy", "numpy-other"])
    assert report.consistent
    assert {r.node: r.kind for r in report.records if r.kind == "convention"} == {
        "relu": "convention",
        "abs": "convention",
    }
    assert all("no operator is wrong by itself" not in note for note in report.notes)
