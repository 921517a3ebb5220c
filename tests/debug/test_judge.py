"""What the session must not call a fault, and on whom it must lay one: cases that real frameworks brought up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop.debug.blame import _verdict

A, B = (True, False), (False, True)


def weights(*values: float) -> mo.Node:
    return mo.Variable(np.float32(values), name="w")


def loss_of(y: mo.Node) -> mo.Node:
    """A loss with a gradient of its own for each element."""
    factors = np.linspace(0.5, 2, y.shape[-1] or 1, dtype=np.float32)
    return mo.reduce_sum(mo.multiply(y, factors, name="weighted"), name="loss")


def compare(target: mo.Node, *frameworks: Any) -> tuple[mo.DebugReport, Any]:
    with mo.DebugSession(progress=False) as sess:
        report = sess.run(target, frameworks=frameworks)
        return report, sess.verify(report.suspects[0]) if report.suspects else None


def test_conventions_at_a_kink_are_no_fault_of_the_whole() -> None:
    """JAX has 1 for the derivative of abs at 0: the parameters' gradients move, and nobody is wrong."""
    mo.derive("numpy", name="kink", gradient={"abs": lambda g, y, x: (np.where(x >= 0, g, -g),)})
    target = loss_of(mo.abs(mo.multiply(weights(-1.0, 0.0, 2.0), 1.5, name="scaled"), name="abs"))
    report, _ = compare(target, "numpy", "kink")
    assert report.consistent
    assert report.record("abs").kind == "convention"
    assert report.record("abs").gradient_delta or report.record("scaled").gradient_delta
    assert "abs" in " ".join(report.notes)


def test_what_lies_beyond_a_kink_is_a_fault() -> None:
    mo.derive("numpy", name="no-kink", gradient={"abs": lambda g, y, x: (np.where(x >= 0, 2 * g, -g),)})
    report, verdict = compare(loss_of(mo.abs(weights(-1.0, 0.0, 2.0), name="abs")), "numpy", "no-kink")
    assert [r.node for r in report.suspects] == ["abs"]
    assert verdict
    assert verdict.blame == "no-kink"


def test_there_is_no_derivative_at_a_nan() -> None:
    """PyTorch's relu passes the gradient on where its input is NaN, others give 0."""
    target = loss_of(mo.relu(weights(1.0, np.nan, -1.0), name="relu"))
    mo.derive("numpy", name="passes", gradient={"relu": lambda g, y, x: (np.where(x <= 0, 0, g),)})
    report, _ = compare(target, "numpy", "passes")
    assert report.record("relu").kind != "fault"
    mo.derive("numpy", name="elsewhere", gradient={"relu": lambda g, y, x: (np.where(x == 1, 0, g * (x > 0)),)})
    report, verdict = compare(target, "numpy", "elsewhere")
    assert [r.node for r in report.suspects] == ["relu"]
    assert verdict.blame == "elsewhere"


def test_a_nan_that_is_dropped_is_wrong_whatever_the_gradients() -> None:
    def gradient(g: Any, y: Any, x: Any) -> tuple[Any]:
        return (np.where(np.isnan(x), np.nan, g * (x > 0)),)

    mo.derive("numpy", name="passes-nan", gradient={"relu": gradient})
    mo.derive("numpy", name="drops", forward={"relu": lambda x: np.fmax(x, np.float32(0))})
    report, verdict = compare(loss_of(mo.relu(weights(1.0, np.nan, -1.0), name="relu")), "passes-nan", "drops")
    assert [(r.node, r.wrong) for r in report.suspects] == [("relu", "drops")]
    assert verdict
    assert verdict.blame == "drops"


def test_a_fault_that_the_first_frameworks_operators_hide() -> None:
    """MXNet's prod gives NaN beside a 0; its relu passes that on, and others swallow it."""
    relu = mo.relu(mo.multiply(weights(3.0, -1.0, 2.0), 1.0, name="scaled"), name="relu")
    target = mo.reduce_sum(mo.reduce_prod(mo.reshape(relu, shape=(1, 3)), axes=(1,), name="prod"), name="loss")
    swallow = {"relu": lambda g, y, x: (np.where(x > 0, g, np.float32(0)),)}
    mo.derive("numpy", name="swallows", gradient=swallow)

    def ratio(g: Any, y: Any, x: Any, *, axes: Any, keepdims: Any) -> tuple[Any]:
        with np.errstate(all="ignore"):
            return (g[..., None] * y[..., None] / x,)

    passing = {"relu": lambda g, y, x: (g * (x > 0).astype(np.float32),), "reduce_prod": ratio}
    mo.derive("numpy", name="divides", gradient=passing)
    report, verdict = compare(target, "swallows", "divides")
    assert [r.node for r in report.suspects] == ["prod"]
    assert verdict
    assert (verdict.scope, verdict.blame) == ("node", "divides")


def test_long_sums_may_be_added_up_in_any_order() -> None:
    """NumPy adds in pairs; ONNX Runtime adds up in a few lanes, and is 2e-5 off for a million numbers."""

    def in_lanes(x: np.ndarray, *, axes: Any, keepdims: bool) -> np.ndarray:
        return np.cumsum(x.reshape(-1, 2), axis=0, dtype=np.float32)[-1].sum()

    mo.derive("numpy", name="in-lanes", forward={"reduce_sum": in_lanes})
    mo.derive("numpy", name="too-much", forward={"reduce_sum": lambda x, **_: np.sum(x) * np.float32(1.001)})
    x = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    target = mo.reduce_sum(mo.square(mo.Variable(x, name="x"), name="square"), name="sum")
    report, _ = compare(target, "numpy", "in-lanes")
    assert report.record("sum").local_output_delta > 1
    assert report.consistent
    report, verdict = compare(target, "numpy", "too-much")
    assert [r.node for r in report.suspects] == ["sum"]
    assert verdict.blame == "too-much"


def test_votes() -> None:
    assert _verdict([A], []) == A
    assert _verdict([A], [A, B]) == A, "one shares the bug"
    assert _verdict([A], [B]) is None
    assert _verdict([A], [A, B, B]) is None
    assert _verdict([A, B], [A]) is None
    assert _verdict([], [A, A]) == A
    assert _verdict([], [A, B]) is None
    assert _verdict([], []) is None


def test_a_reference_that_fails_is_told_and_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frameworks are still compared; that nobody knows who is right stands in the notes."""
    from metaop.debug.reference import Reference

    def fail(self: Reference, *arguments: object) -> list:
        raise np.linalg.LinAlgError("no such matrix")

    monkeypatch.setattr(Reference, "_run", fail)
    w = mo.Variable(np.linspace(-1, 1, 8).astype(np.float32), name="w")
    loss = mo.reduce_sum(mo.tanh(w, name="tanh"), name="loss")
    mo.derive("numpy", name="numpy-no-reference", forward={"tanh": lambda x: np.tanh(x) * np.float32(1.1)})
    for other, suspects in (("numpy", []), ("numpy-no-reference", ["tanh"])):
        with mo.DebugSession(progress=False) as session:
            report = session.run(loss, frameworks=["numpy", other])
            assert [r.node for r in report.suspects] == suspects
            assert any("no opinion: LinAlgError: no such matrix" in note for note in report.notes)
            if suspects:
                assert session.verify("tanh").blame is None
