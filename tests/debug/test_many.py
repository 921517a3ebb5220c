"""Many inputs: each by itself, the worst one kept, and statistics over all of them."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop.debug import session
from metaop.debug.evaluate import Evaluator
from metaop.errors import FeedError, UsageError
from metaop.graph.nodes import Node


def classifier() -> tuple[Node, Node]:
    """Four rows of logits of five classes, and what they are made from."""
    rng = np.random.default_rng(0)
    x = mo.Placeholder(shape=(4, 6), dtype="float32", name="x")
    w, v = (mo.Variable(rng.standard_normal(s).astype(np.float32), name=n) for n, s in (("w", (6, 8)), ("v", (8, 5))))
    hidden = mo.tanh(mo.matmul(x, w, name="dense"), name="tanh")
    return mo.matmul(hidden, v, name="logits"), x


def inputs(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((4, 6)).astype(np.float32) for _ in range(count)]


def large(x: np.ndarray) -> np.ndarray:
    """Wrong where its argument is beyond 8, which it hardly ever is."""
    return np.where(np.abs(x) > 8, np.float32(0.5), np.float32(1)) * np.tanh(x)


def run(source: Any, target: Node, **options: Any) -> tuple[mo.debug.DebugReport, mo.DebugSession]:
    mo.derive("numpy", name="numpy-large", forward={"tanh": large})
    sess = mo.DebugSession(progress=options.pop("progress", False))
    return sess.run(target, source, frameworks=["numpy", "numpy-large"], **options), sess


def with_outlier(count: int, place: int) -> list[np.ndarray]:
    found = inputs(count)
    found[place] = found[place] * np.float32(20)
    return [np.clip(a, -1, 1) if i != place else a for i, a in enumerate(found)]


@pytest.mark.parametrize("kind", ["list", "named", "generator", "folder"])
def test_the_worst_input_is_reported(kind: str, tmp_path: Path) -> None:
    target, x = classifier()
    arrays = with_outlier(6, 3)
    names = [str(i) for i in range(6)]
    source: Any = [{x: a} for a in arrays]
    if kind == "named":
        names = [f"batch {i}" for i in range(6)]
        source = list(zip(names, source, strict=True))
    elif kind == "generator":
        source = iter(source)
    elif kind == "folder":
        names = [f"part{i}" for i in range(6)]
        for name, a in zip(names, arrays, strict=True):
            np.savez(tmp_path / f"{name}.npz", x=a)
        source = tmp_path
    report, sess = run(source, target)
    assert [r.node for r in report.suspects] == ["tanh"]
    assert len(report.feeds) == 6
    worst = report.feeds[0]
    assert worst["name"] == names[3]
    assert worst["suspects"] == 1
    assert worst["worst_node"] == "tanh"
    assert worst["score"] == report.record("tanh").score > 1
    assert worst["output_delta"] > 0
    assert {r["name"] for r in report.feeds} == set(names)
    assert all(r["suspects"] == 0 and r["score"] <= 1 for r in report.feeds[1:])
    assert [r["score"] for r in report.feeds] == sorted((r["score"] for r in report.feeds), reverse=True)
    # What follows is about the worst input, on which alone there is something to explain.
    verdict = sess.verify(report.suspects[0])
    assert verdict.confirmed
    assert verdict.blame == "numpy-large"
    assert sess.explain().nodes == ("tanh",)


def test_one_input_in_a_list_is_that_input() -> None:
    target, x = classifier()
    (array,) = with_outlier(1, 0)
    one, _ = run({x: array}, target)
    many, _ = run([{x: array}], target)
    fields = ("node", "score", "output_delta", "gradient_delta", "local_output_delta", "suspect")
    assert [[getattr(r, f) for f in fields] for r in one.records] == [
        [getattr(r, f) for f in fields] for r in many.records
    ]
    assert one.feeds is None
    assert len(many.feeds) == 1


def test_each_node_is_shown_at_its_own_worst_input() -> None:
    """Two faults, on different inputs."""
    x = mo.Placeholder(shape=(3,), dtype="float32", name="x")
    target = mo.sigmoid(mo.tanh(x, name="tanh"), name="sigmoid")
    forward = {
        "tanh": lambda x: np.tanh(x) * np.float32(1.01 if x[0] > 5 else 1),
        "sigmoid": lambda x: (1 / (1 + np.exp(-x))) * np.float32(1.1 if x[0] < 0 else 1),
    }
    mo.derive("numpy", name="numpy-two", forward=forward)
    feeds = [{x: np.float32([v, 0.5, 0.25])} for v in (1, 6, -2, 0.5)]
    sess = mo.DebugSession(progress=False)
    report = sess.run(target, feeds, frameworks=["numpy", "numpy-two"])
    assert {r.node for r in report.suspects} == {"tanh", "sigmoid"}
    assert [r["name"] for r in report.feeds][:2] == ["2", "1"]
    assert [r["worst_node"] for r in report.feeds][:2] == ["sigmoid", "tanh"]
    statistics = json.loads(report.statistics.to_json())
    assert "score of tanh" in json.dumps(statistics)
    assert sess.verify("sigmoid").confirmed


def test_distances_of_classifiers() -> None:
    """By hand: class-based with k = 5, and mean absolute distance against the float64 result."""
    x = mo.Placeholder(shape=(2, 5), dtype="float32", name="x")
    target = mo.multiply(x, mo.Constant(np.float32(1)), name="scores")

    def moved(a: np.ndarray, b: Any) -> np.ndarray:
        found = a * b
        found[0] = np.roll(found[0], 1)
        return found

    mo.derive("numpy", name="numpy-moved", forward={"multiply": moved})
    rows = np.float32([[5, 4, 3, 2, 1], [1, 2, 3, 4, 5]])
    sess = mo.DebugSession(progress=False)
    report = sess.run(target, [{x: rows}], frameworks=["numpy", "numpy-moved"])
    (row,) = report.feeds
    # The right class is first on one side, 2 ** (5 - 1) points, and last of five on the other, 2 ** (5 - 5).
    assert row["class_distance"] == 15
    assert row["mad_distance"] == pytest.approx(1, abs=1e-3)
    assert row["output_delta"] == pytest.approx((4 + 1 + 1 + 1 + 1) / 10)
    assert report.inconsistencies
    same = sess.run(target, [{x: rows}], frameworks=["numpy", "numpy"])
    assert same.feeds[0]["class_distance"] == 0
    assert same.inconsistencies == []


def test_no_classes_without_a_classifier() -> None:
    x = mo.Placeholder(shape=(2, 5), dtype="float32", name="x")
    feeds = [{x: np.ones((2, 5), np.float32)}]
    for target in (
        mo.reduce_sum(x, name="sum"),
        mo.reduce_sum(x, axes=(1,), name="sums"),
        mo.argmax(x, axis=1, name="best"),
    ):
        report, _ = run(feeds, target)
        assert report.feeds[0]["class_distance"] is None
        assert report.consistent


def test_rates_of_change() -> None:
    """The node that makes the difference has the largest rate, and nodes before it none."""
    target, x = classifier()
    report, _ = run([{x: a} for a in with_outlier(3, 1)], target)
    rates = {r.node: r.rate_of_change for r in report.records}
    assert rates["tanh"] == max(rates.values())
    assert rates["dense"] <= 0


def test_json_is_strict_and_the_page_has_the_inputs(tmp_path: Path) -> None:
    target, x = classifier()
    hostile = "<img src=x onerror=alert(1)>"
    arrays = with_outlier(3, 1)
    report, _ = run([(hostile if i == 1 else f"input-{i}", {x: a}) for i, a in enumerate(arrays)], target)

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    data = json.loads(report.to_json(), parse_constant=refuse)
    assert data["feeds"][0]["name"] == hostile
    assert data["statistics"]
    page = report.to_html(tmp_path / "r.html")
    assert "input-2" in page
    assert hostile not in page
    assert "class_distance" in page


def test_infinite_scores_are_strict_json_too() -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    mo.derive("numpy", name="numpy-nan", forward={"tanh": lambda x: np.tanh(x) * np.float32(np.nan)})

    def fail(x: object) -> object:
        raise ZeroDivisionError("injected")

    mo.derive("numpy", name="numpy-fails", forward={"tanh": fail})
    for name in ("numpy-nan", "numpy-fails"):
        sess = mo.DebugSession(progress=False)
        report = sess.run(mo.tanh(x, name="tanh"), [{x: np.ones((2, 3), np.float32)}] * 2, frameworks=["numpy", name])
        json.loads(report.to_json(), parse_constant=lambda token: pytest.fail(token))
        assert [r.node for r in report.suspects] == ["tanh"]
        assert report.to_html()
        assert report.feeds[0]["score"] == float("inf")


def test_memory_does_not_grow_with_the_number_of_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that was computed only the last and the worst comparison are kept, whatever their number."""
    target, x = classifier()
    made: weakref.WeakSet[Evaluator] = weakref.WeakSet()
    alive: list[int] = []

    class Watched(Evaluator):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.add(self)

    def progress(record: object, done: int, total: int) -> None:
        gc.collect()
        alive.append(len(made))

    monkeypatch.setattr(session, "Evaluator", Watched)
    report, _ = run(({x: a} for a in with_outlier(12, 5)), target, progress=progress)
    assert len(report.feeds) == len(alive) == 12
    assert max(alive) <= 2


def test_a_run_that_is_ended_early() -> None:
    target, x = classifier()
    report, _ = run([{x: a} for a in inputs(5)], target, progress=lambda record, done, total: done < 2)
    assert len(report.feeds) == 2
    assert any("ended early, after 2 inputs" in note for note in report.notes)


def test_ctrl_c_keeps_the_inputs_that_are_done() -> None:
    target, x = classifier()
    mo.derive("numpy", name="numpy-large", forward={"tanh": large})

    def stop(record: object, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    sess = mo.DebugSession(progress=stop)
    with pytest.raises(KeyboardInterrupt):
        sess.run(target, [{x: a} for a in inputs(5)], frameworks=["numpy", "numpy-large"])
    assert len(sess.report.feeds) == 3
    assert any("ended early" in note for note in sess.report.notes)


def test_many_inputs_go_on_from_a_journal(tmp_path: Path) -> None:
    target, x = classifier()
    feeds = [{x: a} for a in with_outlier(4, 2)]
    first, _ = run(feeds, target, out=tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"input-{i}.jsonl" for i in range(4)]
    second, _ = run(feeds, target, out=tmp_path)
    assert first.feeds == second.feeds
    assert [r.score for r in first.records] == [r.score for r in second.records]
    with pytest.raises(UsageError, match="is of another run"):
        run(feeds[::-1], target, out=tmp_path)


def test_progress_counts_inputs() -> None:
    target, x = classifier()
    calls: list[tuple] = []
    run([{x: a} for a in inputs(3)], target, progress=lambda *c: calls.append(c[1:]))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_sources_that_make_no_sense(tmp_path: Path) -> None:
    target, _ = classifier()
    with pytest.raises(UsageError, match="no inputs"):
        run([], target)
    with pytest.raises(FeedError, match=r"no \.npz"):
        run(tmp_path, target)
    with pytest.raises(FeedError, match="must be a dict"):
        run([np.ones(3)], target)
    with pytest.raises(FeedError, match="'x'"):
        run([{}], target)
    with pytest.raises(FeedError):
        run(7, target)


def test_a_target_without_operators() -> None:
    x = mo.Placeholder(shape=(3,), dtype="float32", name="x")
    report, _ = run([{x: np.ones(3, np.float32)}] * 2, x)
    assert report.consistent
    assert report.records == []
