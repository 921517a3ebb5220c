"""What a report holds, what a verification says, and that a session goes on where a framework cannot."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

import metaop as mo
from metaop.debug.records import Distance
from metaop.errors import (
    FeedError,
    FrameworkError,
    GraphError,
    UnknownBackendError,
    UnsupportedOpError,
    UsageError,
)
from metaop.graph.nodes import Node
from tests import checks, models

needs_torch = pytest.mark.skipif("torch" not in checks.BACKENDS, reason="METAOP_TEST_BACKENDS leaves torch out")
needs_ort = pytest.mark.skipif("onnxruntime" not in checks.BACKENDS, reason="METAOP_TEST_BACKENDS leaves it out")


def session(**options: object) -> mo.DebugSession:
    """With the paper's fixed thresholds; what is said of rounding is in test_noise.py."""
    return mo.DebugSession(**{"progress": False, "judge": "paper"} | options)


def chain() -> dict[str, Node]:
    """w -> first (matmul) -> bend (tanh) -> second (matmul) -> squash (sigmoid) -> third (matmul) -> loss."""
    rng = np.random.default_rng(1)
    w, u = (mo.Variable(rng.standard_normal((3, 3)).astype(np.float32), name=name) for name in "wu")
    nodes: dict[str, Node] = {"w": w, "u": u}
    nodes["first"] = mo.matmul(w, u, name="first")
    nodes["bend"] = mo.tanh(nodes["first"], name="bend")
    nodes["second"] = mo.matmul(nodes["bend"], u, name="second")
    nodes["squash"] = mo.sigmoid(nodes["second"], name="squash")
    nodes["third"] = mo.matmul(nodes["squash"], w, name="third")
    nodes["loss"] = mo.reduce_sum(nodes["third"], name="loss")
    return nodes


SWAP_ORDER = ["loss", "third", "squash", "second", "bend", "first"]


def off(op: str, factor: float = 1.1, name: str = "numpy-off") -> str:
    """NumPy with one operator scaled."""
    reference = mo.ops()[op].reference

    def function(*inputs: np.ndarray, **attrs: object) -> np.ndarray:
        return np.float32(factor) * reference(*inputs, **attrs)

    mo.derive("numpy", name=name, forward={op: function})
    return name


def raising(op: str, error: Exception, name: str = "numpy-raising") -> str:
    def function(*inputs: object, **attrs: object) -> object:
        raise error

    mo.derive("numpy", name=name, forward={op: function})
    return name


# -- records -----------------------------------------------------------------------------------------------------------


def test_records_come_in_swap_order() -> None:
    report = session().run(chain()["loss"], frameworks=["numpy", "numpy"])
    assert [r.node for r in report.records] == SWAP_ORDER
    assert [r.op for r in report.records] == ["reduce_sum", "matmul", "sigmoid", "matmul", "tanh", "matmul"]
    assert report.parameters == ["u", "w"] or report.parameters == ["w", "u"]
    assert report.target == "loss"
    assert report.frameworks == ("numpy", "numpy")
    assert report.versions == (np.__version__, np.__version__)
    assert report.consistent
    assert report
    assert report.suspects == []


def test_a_swap_is_one_node_and_those_below_stay_swapped() -> None:
    """Two faults: each shows at its own swap, and at no other."""
    nodes = chain()
    sides = {None: "numpy", nodes["third"]: off("matmul"), nodes["bend"]: off("tanh", name="t")}
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    assert {r.node for r in report.records if r.output_delta} == {"third", "bend"}
    # The incoming gradients of the nodes above have changed by then, but not between two swaps.
    assert {r.node for r in report.records if r.gradient_delta} == {"third", "bend"}
    assert {r.node for r in report.records if r.local_output_delta} == {"third", "bend"}


def test_numbers_of_one_swap() -> None:
    """By hand: loss = sum(1.1 * w * w) instead of sum(w * w)."""
    w = mo.Variable([1.0, 2.0], name="w")
    loss = mo.reduce_sum(mo.square(w, name="square"), name="loss")
    report = session().run(loss, frameworks=["numpy", off("square")])
    record = report.record("square")
    assert record.output_delta == pytest.approx(0.5, rel=1e-6)
    # The gradient rule is the operator's own, computed with this backend's forwards: 2 * w * g, which uses no square.
    assert record.gradient_delta == 0
    assert record.local_output_delta == pytest.approx((0.1 + 0.4) / 2, rel=1e-6)
    assert record.local_gradient_delta == 0
    assert record.score == pytest.approx(0.5 / 1.5e-4, rel=1e-6)
    assert record.suspect
    assert report.record("loss").output_delta == 0
    with pytest.raises(UsageError, match="no record of a node named 'nothing'"):
        report.record("nothing")


def test_gradient_deltas_by_hand() -> None:
    """The mean over parameters, not over elements."""
    w, v = mo.Variable([1.0, 2.0], name="w"), mo.Variable([[5.0]], name="v")
    loss = mo.add(mo.reduce_sum(mo.square(w, name="square"), name="sum"), mo.reduce_sum(v, name="v_sum"), name="loss")
    mo.derive("numpy", name="grad-off", gradient={"square": lambda g, y, x: (g * (2 * x + 3),)})
    record = session().run(loss, frameworks=["numpy", "grad-off"]).record("square")
    assert record.output_delta == 0
    assert record.gradient_delta == pytest.approx(3 / 2)
    # Locally the incoming gradient is random: not the ones that come from the sum.
    assert record.local_gradient_delta > 0
    assert record.score == pytest.approx(1.5 / 1.5e-4)
    assert record.gradient_kind == ("derived", "custom")
    # No gradient is a gradient of zeros: (|2| + |4|) / 2 for w, nothing for v.
    mo.derive("numpy", name="grad-gone", gradient={"square": lambda g, y, x: (None,)})
    gone = session().run(loss, frameworks=["numpy", "grad-gone"]).record("square")
    assert gone.gradient_delta == pytest.approx(3 / 2)
    assert gone.local_gradient_delta > 0


@needs_torch
def test_gradient_kinds() -> None:
    mo.derive("torch", name="torch-custom", gradient={"tanh": lambda g, y, x: (g * (1 - y * y),)})
    report = session().run(chain()["loss"], frameworks=["numpy", "torch-custom"])
    assert report.consistent
    for record in report.records:
        assert record.gradient_kind == ("derived", "custom" if record.node == "bend" else "native")


def test_seconds_and_bytes() -> None:
    report = session().run(chain()["loss"], frameworks=["numpy", "numpy"])
    for record in report.records:
        assert 0 < record.seconds < 10
        assert isinstance(record.bytes, int)
        assert record.bytes >= 0


def test_bytes_see_a_backend_that_keeps_memory() -> None:
    kept = []

    def hoard(x: np.ndarray) -> np.ndarray:
        # More than any allocator serves from memory that it held on to.
        kept.append(np.ones(8_000_000))
        return np.tanh(x)

    mo.derive("numpy", name="hoarder", forward={"tanh": hoard})
    report = session().run(chain()["loss"], frameworks=["numpy", "hoarder"])
    assert report.record("bend").bytes >= 32_000_000


def test_without_gradients() -> None:
    report = session().run(chain()["loss"], frameworks=["numpy", off("tanh")], gradients=False)
    assert report.parameters == []
    assert all(r.gradient_delta is None and r.local_gradient_delta is None for r in report.records)
    assert [r.node for r in report.suspects] == ["bend"]
    raised = session().run(chain()["loss"], frameworks=["numpy", raising("tanh", ValueError())], gradients=False)
    assert raised.record("bend").output_delta == math.inf
    assert raised.record("bend").gradient_delta is None
    assert raised.record("bend").local_gradient_delta is None


def test_several_outputs() -> None:
    """The worst of them counts, and a verification finds the operator by any of its names."""
    w = mo.Variable(np.arange(6, dtype=np.float32), name="w")
    left, right = mo.split(w, num_outputs=2, name="halves")
    loss = mo.reduce_sum(mo.multiply(left, right, name="product"), name="loss")
    mo.derive("numpy", name="second-off", forward={"split": lambda x, **attrs: (x[:3].copy(), x[3:] + np.float32(1))})
    with session() as sess:
        report = sess.run(loss, frameworks=["numpy", "second-off"])
        assert report.record("halves").local_output_delta == 1
        for name in (left, right, left.name, "halves"):
            assert sess.verify(name).nodes == ("halves",)
            assert sess.verify(name).confirmed


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_other_floating_dtypes(dtype: str) -> None:
    w = mo.Variable(np.linspace(-1, 1, 8).astype(dtype), name="w")
    loss = mo.reduce_sum(mo.square(mo.tanh(w, name="tanh"), name="square"), name="loss")
    reference = mo.ops()["tanh"].reference
    mo.derive("numpy", name="half-off", forward={"tanh": lambda x: reference(x) * x.dtype.type(1.25)})
    with session() as sess:
        report = sess.run(loss, frameworks=["numpy", "half-off"])
        assert [r.node for r in report.suspects] == ["tanh"]
        verdict = sess.verify("tanh")
    assert verdict.confirmed
    assert verdict.blame == "half-off"


def test_node_backends_are_not_looked_at() -> None:
    nodes = chain()
    nodes["bend"].backend = off("tanh")
    assert session().run(nodes["loss"], frameworks=["numpy", "numpy"]).consistent


def test_sessions_leave_the_graph_and_the_feeds_alone() -> None:
    model = models.mlp(0)
    before = {p: a.copy() for p, a in model.feeds.items()}
    session().run(model.loss, model.feeds, frameworks=["numpy", off("tanh")])
    assert all(np.array_equal(a, before[p]) for p, a in model.feeds.items())
    assert all(n.backend is None for n in model.operators)


def test_feeds_by_name() -> None:
    model = models.mlp(0)
    named = {p.name: a for p, a in model.feeds.items()}
    one, other = (session().run(model.loss, feeds, frameworks=["numpy", off("tanh")]) for feeds in (model.feeds, named))
    assert [r.output_delta for r in one.records] == [r.output_delta for r in other.records]


def test_runs_repeat_bit_for_bit_and_seeds_count() -> None:
    model = models.mlp(0)

    def deltas(seed: int) -> list[object]:
        report = session(seed=seed).run(model.prediction, model.feeds, frameworks=["numpy", off("tanh")])
        assert report.seed == seed
        return [(r.output_delta, r.gradient_delta, r.local_gradient_delta) for r in report.records]

    assert deltas(3) == deltas(3)
    # The target is no scalar, so gradients are those of its projection on a vector that the seed determines.
    assert deltas(3) != deltas(4)


# -- thresholds, ranking, suspects -------------------------------------------------------------------------------------


def test_thresholds() -> None:
    w = mo.Variable([1.0, 2.0], name="w")
    loss = mo.reduce_sum(mo.square(w, name="square"), name="loss")
    mo.derive("numpy", name="grad-off", gradient={"square": lambda g, y, x: (g * (2 * x + 3),)})
    off("square", name="value-off")
    for wrong, option in (("value-off", "threshold_output"), ("grad-off", "threshold_gradient")):
        frameworks = ["numpy", wrong]
        other = {"threshold_output": "threshold_gradient", "threshold_gradient": "threshold_output"}[option]
        delta = {"threshold_output": 0.5, "threshold_gradient": 3.0}[option]
        assert not session(**{option: delta * 0.99}).run(loss, frameworks=frameworks)
        assert session(**{option: delta * 1.01}).run(loss, frameworks=frameworks)
        assert not session(**{other: 1e9}).run(loss, frameworks=frameworks)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1e-4", True])
@pytest.mark.parametrize("option", ["threshold_output", "threshold_gradient"])
def test_thresholds_that_make_no_sense(option: str, value: object) -> None:
    with pytest.raises(UsageError, match=option):
        mo.DebugSession(**{option: value})


def test_ranking() -> None:
    nodes = chain()
    sides = ["numpy", {None: "numpy", nodes["third"]: off("matmul", 1.01), nodes["bend"]: off("tanh", 1.3, "t")}]
    report = session().run(nodes["loss"], frameworks=sides)
    for by in ("output", "gradient"):
        ranked = report.ranking(by)
        assert sorted(r.node for r in ranked) == sorted(SWAP_ORDER)
        deltas = [getattr(r, f"{by}_delta") for r in ranked]
        assert deltas == sorted(deltas, reverse=True)
        assert deltas[1] > 0 == deltas[2]
        # Ties stay in swap order.
        assert [r.node for r in ranked[2:]] == [n for n in SWAP_ORDER if n not in ("third", "bend")]
    with pytest.raises(UsageError, match="'output' or 'gradient'"):
        report.ranking("size")


def two_branches() -> dict[str, Node]:
    """loss = sum(50 * tanh(w)) + sum(square(v))."""
    rng = np.random.default_rng(2)
    w, v = (mo.Variable(rng.uniform(0.5, 1, 5).astype(np.float32), name=name) for name in "wv")
    nodes: dict[str, Node] = {"w": w, "v": v, "bend": mo.tanh(w, name="bend"), "square": mo.square(v, name="square")}
    strong = mo.multiply(nodes["bend"], 50.0, name="strong")
    nodes["loss"] = mo.add(mo.reduce_sum(strong, name="a"), mo.reduce_sum(nodes["square"], name="b"), name="loss")
    return nodes


def test_rankings_of_values_and_of_gradients_differ() -> None:
    nodes = two_branches()
    mo.derive("numpy", name="grad-off", gradient={"square": lambda g, y, x: (3 * g * x,)})
    sides = {None: "numpy", nodes["bend"]: off("tanh", 1.001), nodes["square"]: "grad-off"}
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    assert report.ranking("output")[0].node == report.ranking()[0].node == "bend"
    assert report.ranking("gradient")[0].node == "square"


def test_what_counts_is_the_target_and_not_the_node() -> None:
    """A small local difference that is amplified is worse than a larger one that is not."""
    nodes = two_branches()
    sides = {None: "numpy", nodes["bend"]: off("tanh", 1.01), nodes["square"]: off("square", 1.05, "s")}
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    bend, square = report.record("bend"), report.record("square")
    assert bend.local_output_delta < square.local_output_delta
    assert [r.node for r in report.suspects] == ["bend", "square"]


def test_failures_come_before_infinite_deltas() -> None:
    nodes = chain()
    mo.derive("numpy", name="numpy-nan", forward={"sigmoid": lambda x: x * np.float32(np.nan)})
    sides = {None: "numpy", nodes["squash"]: "numpy-nan", nodes["bend"]: raising("tanh", ValueError("no"))}
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    assert [r.node for r in report.suspects] == ["bend", "squash"]
    assert report.record("squash").score == math.inf


def test_suspects_are_sorted_by_how_bad_they_are() -> None:
    """Failures first, then by score; a node that is only noisy is none."""
    nodes = chain()
    sides = {
        None: "numpy",
        nodes["first"]: off("matmul", 1.2),
        nodes["third"]: off("matmul", 1.01, "little"),
        nodes["squash"]: raising("sigmoid", ValueError("no")),
        nodes["second"]: off("matmul", 1 + 1e-6, "noise"),
    }
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    assert [r.node for r in report.suspects] == ["squash", "first", "third"]
    assert not report.consistent
    assert not report
    assert not report.record("second").suspect
    assert 0 < report.record("second").score < 1


def test_a_nan_that_is_swallowed_below_is_suspect_all_the_same() -> None:
    w = mo.Variable([1.0, 2.0, 3.0], name="w")
    zeros = mo.Constant([0.0, 0.0, 0.0])
    kept = mo.where(mo.Constant([True, True, False]), mo.tanh(w, name="tanh"), zeros, name="kept")
    mo.derive("numpy", name="nan-last", forward={"tanh": lambda x: np.append(np.tanh(x[:-1]), np.float32(np.nan))})
    with session() as sess:
        report = sess.run(mo.reduce_sum(kept, name="loss"), frameworks=["numpy", "nan-last"])
        record = report.record("tanh")
        assert record.output_delta == 0
        assert record.local_output_delta == math.inf
        assert [r.node for r in report.suspects] == ["tanh"]
        verdict = sess.verify("tanh")
    # At the target there is nothing to explain: it is confirmed where it is, and who is wrong can be told.
    assert verdict.confirmed
    assert verdict.scope == "node"
    assert verdict.blame == "nan-last"


def test_a_fault_that_a_normalisation_hides_shows_in_the_local_deltas() -> None:
    """Scaling the input of a layer normalisation moves neither its result nor any gradient."""
    rng = np.random.default_rng(0)
    w = mo.Variable(rng.standard_normal((4, 6)).astype(np.float32), name="w")
    hidden = mo.layer_norm(mo.tanh(w, name="tanh"), epsilon=1e-12, name="norm")
    weights = rng.standard_normal((4, 6)).astype(np.float32)
    loss = mo.reduce_sum(mo.multiply(hidden, weights, name="weighted"), name="loss")
    report = session().run(loss, frameworks=["numpy", off("tanh", 1.05)], gradients=False)
    assert report.record("tanh").output_delta < report.threshold_output
    assert report.record("tanh").local_output_delta > 100 * report.threshold_output


# -- frameworks that cannot --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("gradients", [True, False])
def test_an_unsupported_operator_stays_on_the_other_side(side: int, gradients: bool) -> None:
    """The session goes on, other faults are still found, and nobody is called wrong."""
    nodes = chain()
    lacking = raising("sigmoid", UnsupportedOpError("numpy-lacking has no 'sigmoid'"), "numpy-lacking")
    sides = [{None: "numpy", nodes["squash"]: lacking}, {None: "numpy", nodes["squash"]: lacking}]
    sides[1 - side] = {None: "numpy"}
    sides[1][nodes["bend"]] = off("tanh")
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=sides, gradients=gradients)
        record = report.record("squash")
        assert record.status == "unsupported"
        assert "'squash' (sigmoid on numpy-lacking)" in record.message
        assert "has no 'sigmoid'" in record.message
        assert record.output_delta is record.gradient_delta is record.local_output_delta is None
        assert record.score == 0
        assert not record.suspect
        assert [r.node for r in report.records] == SWAP_ORDER
        assert [r.node for r in report.suspects] == ["bend"]
        assert {r.status for r in report.records if r.node != "squash"} == {"ok"}
        assert sess.verify("bend").confirmed
        assert sess.verify("bend").blame == "numpy-off"
        verdict = sess.verify("squash")
    assert not verdict.confirmed
    assert verdict.blame is None
    assert any("has no 'sigmoid'" in line for line in verdict.evidence)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("what", ["forward", "gradient"])
def test_an_exception_is_found_on_either_side(side: int, what: str) -> None:
    def fail(*inputs: object, **attrs: object) -> object:
        raise ZeroDivisionError("injected")

    mo.derive("numpy", name="numpy-failing", **{what: {"sigmoid": fail}})
    nodes = chain()
    sides: list[object] = ["numpy", "numpy"]
    sides[side] = "numpy-failing"
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=sides)
        record = report.record("squash")
        assert record.status == "error"
        assert "ZeroDivisionError: injected" in record.message
        assert "'squash' (sigmoid" in record.message
        assert "numpy-failing" in record.message
        assert record.output_delta == record.gradient_delta == record.score == math.inf
        assert record.suspect
        assert [r.node for r in report.suspects] == ["squash"]
        assert [r.node for r in report.records] == SWAP_ORDER
        verdict = sess.verify(record)
    assert verdict.confirmed
    assert verdict.blame == "numpy-failing"
    assert verdict.before == Distance(math.inf, math.inf)
    assert verdict.after == Distance(0.0, 0.0)
    assert verdict.reproduced == Distance(math.inf, math.inf)
    assert any("injected" in line for line in verdict.evidence)


@pytest.mark.parametrize("status", ["crash", "timeout"])
def test_other_statuses_come_with_the_exception(status: str) -> None:
    class Died(FrameworkError):
        pass

    Died.status = status
    died = raising("tanh", Died("the worker is gone", node="bend"))
    report = session().run(chain()["loss"], frameworks=["numpy", died])
    assert report.record("bend").status == status
    assert "the worker is gone" in report.record("bend").message
    assert [r.node for r in report.suspects] == ["bend"]


def test_failures_on_both_sides_at_different_nodes() -> None:
    frameworks = [raising("tanh", ValueError("a"), "fails-tanh"), raising("sigmoid", ValueError("b"), "fails-sigmoid")]
    with session() as sess:
        report = sess.run(chain()["loss"], frameworks=frameworks)
        assert {r.node: r.status for r in report.records if r.status != "ok"} == {"bend": "error", "squash": "error"}
        assert sess.verify("bend").blame == "fails-tanh"
        assert sess.verify("squash").blame == "fails-sigmoid"
        assert sess.verify("bend").confirmed
        assert sess.verify("squash").confirmed


def test_what_neither_side_computes_is_an_error() -> None:
    frameworks = [raising("tanh", ValueError("a"), "fails-1"), raising("tanh", ValueError("b"), "fails-2")]
    with pytest.raises(FrameworkError, match="'bend'"):
        session().run(chain()["loss"], frameworks=frameworks)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "returned",
    [
        lambda x: np.tanh(x).astype(np.float64),
        lambda x: np.tanh(x)[:1],
        lambda x: (np.tanh(x), x),
        lambda x: None,
        lambda x: "tanh",
    ],
    ids=["dtype", "shape", "two outputs", "nothing", "no tensor"],
)
def test_results_of_the_wrong_kind(returned: object, side: int) -> None:
    mo.derive("numpy", name="numpy-strange", forward={"tanh": returned})
    sides = ["numpy", "numpy"]
    sides[side] = "numpy-strange"
    with session() as sess:
        report = sess.run(chain()["loss"], frameworks=sides)
        assert [(r.node, r.status) for r in report.suspects] == [("bend", "error")]
        assert "bend" in report.record("bend").message
        assert sess.verify("bend").confirmed
        assert sess.verify("bend").blame == "numpy-strange"


@pytest.mark.parametrize(
    "gradient",
    [
        lambda g, y, x: (g.astype(np.float64),),
        lambda g, y, x: (g[:1],),
        lambda g, y, x: ("gradient",),
    ],
    ids=["dtype", "shape", "no tensor"],
)
def test_gradients_of_the_wrong_kind(gradient: object) -> None:
    mo.derive("numpy", name="numpy-strange", gradient={"tanh": gradient})
    with session() as sess:
        report = sess.run(chain()["loss"], frameworks=["numpy", "numpy-strange"])
        assert [(r.node, r.status) for r in report.suspects] == [("bend", "error")]
        assert sess.verify("bend").blame == "numpy-strange"


def test_a_gradient_that_only_the_local_check_reaches_may_raise() -> None:
    """Below, B drops the gradient; the local check feeds A's, and B's next node does not survive that."""

    def fail(*inputs: object, **attrs: object) -> object:
        raise ZeroDivisionError("injected")

    mo.derive("numpy", name="drops", gradient={"sigmoid": lambda g, y, x: (None,)})
    mo.derive("numpy", name="raises", gradient={"tanh": fail})
    nodes = chain()
    sides = {None: "numpy", nodes["squash"]: "drops", nodes["bend"]: "raises"}
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    assert {r.node: r.status for r in report.records if r.suspect} == {"squash": "ok", "bend": "error"}


@needs_torch
@needs_ort
@pytest.mark.parametrize("turn", [1, -1])
def test_a_kernel_that_onnxruntime_does_not_have(turn: int) -> None:
    """The real thing: no float64 gelu there."""
    w = mo.Variable(np.linspace(-1, 1, 6), name="w")
    loss = mo.reduce_sum(mo.square(mo.gelu(w, name="gelu"), name="square"), name="loss")
    report = session().run(loss, frameworks=["onnxruntime", "torch"][::turn])
    assert {r.node: r.status for r in report.records} == {"loss": "ok", "square": "ok", "gelu": "unsupported"}
    assert "onnxruntime does not compute 'gelu'" in report.record("gelu").message
    assert report.consistent


# -- verification ------------------------------------------------------------------------------------------------------


def test_verify_by_record_node_and_name() -> None:
    nodes = chain()
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=["numpy", off("tanh")])
        found = [sess.verify(s) for s in (report.suspects[0], report.record("bend"), nodes["bend"], "bend")]
    assert all(v.confirmed and v for v in found)
    assert len({str(v) for v in found}) == 1
    verdict = found[0]
    assert verdict.nodes == ("bend",)
    assert verdict.op == "tanh"
    assert verdict.blame == "numpy-off"
    assert verdict.before.output > 1.5e-4
    assert verdict.after == Distance(0.0, 0.0)
    assert verdict.reproduced == verdict.before
    assert "confirmed" in str(verdict)
    assert any("numpy is off by" in line and "from the float64 reference" in line for line in verdict.evidence)


@pytest.mark.parametrize("name", [n for n in SWAP_ORDER if n != "bend"])
def test_an_innocent_node_is_not_confirmed(name: str) -> None:
    with session() as sess:
        sess.run(chain()["loss"], frameworks=["numpy", off("tanh")])
        verdict = sess.verify(name)
    assert not verdict
    assert verdict.nodes == (name,)
    assert verdict.blame is None
    assert any("other nodes contribute" in line for line in verdict.evidence)


def test_where_nothing_differs_nothing_is_confirmed() -> None:
    with session() as sess:
        sess.run(chain()["loss"], frameworks=["numpy", "numpy"])
        for name in SWAP_ORDER:
            verdict = sess.verify(name)
            assert not verdict.confirmed
            assert any("nothing to explain" in line for line in verdict.evidence)


def test_two_faulty_nodes_of_one_operator_are_verified_together() -> None:
    nodes = chain()
    sides = {None: "numpy", nodes["first"]: off("matmul"), nodes["third"]: "numpy-off"}
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=["numpy", sides])
        assert {r.node for r in report.suspects} == {"first", "third"}
        for name in ("first", "third"):
            verdict = sess.verify(name)
            assert verdict.confirmed
            assert set(verdict.nodes) == {"first", "third"}
            assert verdict.blame == "numpy-off"
        # The third of that operator does nothing wrong, and does not answer for the others.
        innocent = sess.verify("second")
    assert not innocent.confirmed
    assert innocent.nodes == ("second",)
    assert innocent.blame is None


def test_all_nodes_of_an_operator_are_faulty() -> None:
    with session() as sess:
        report = sess.run(chain()["loss"], frameworks=["numpy", off("matmul")])
        assert {r.node for r in report.suspects} == {"first", "second", "third"}
        verdict = sess.verify(report.suspects[0])
    assert verdict.confirmed
    assert set(verdict.nodes) == {"first", "second", "third"}


def test_faults_of_two_operators_explain_the_difference_only_together() -> None:
    nodes = chain()
    sides = {None: "numpy", nodes["bend"]: off("tanh"), nodes["third"]: off("matmul", name="m")}
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=["numpy", sides])
        assert {r.node for r in report.suspects} == {"bend", "third"}
        for name, wrong in (("bend", "numpy-off"), ("third", "m")):
            verdict = sess.verify(name)
            assert not verdict.confirmed
            assert verdict.blame == wrong


@pytest.mark.parametrize("side", [0, 1])
def test_a_failure_explains_only_itself(side: int) -> None:
    """Beside the failure, values differ elsewhere: repairing the failing node does not bring both together."""
    nodes = chain()
    failing, wrong = raising("tanh", ValueError("no")), off("matmul", 1.2)
    sides = [{None: "numpy"}, {None: "numpy", nodes["third"]: wrong}]
    sides[side][nodes["bend"]] = failing
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=sides)
        assert {r.node for r in report.suspects} == {"bend", "third"}
        verdict = sess.verify("bend")
        assert not verdict.confirmed
        assert verdict.blame == failing
        # The other way round it does: what fails runs on the side that can.
        assert sess.verify("third").confirmed
        assert sess.verify("third").blame == wrong


def test_a_difference_that_takes_two_nodes_is_not_confirmed_for_one() -> None:
    """B's square stumbles only over what B's tanh gives: on its own it is as good as A's."""
    w = mo.Variable([0.5, -0.5], name="w")
    bend = mo.tanh(w, name="bend")
    loss = mo.reduce_sum(mo.square(bend, name="square"), name="loss")

    def clean(x: np.ndarray) -> np.ndarray:
        return np.tanh(x).astype(np.float16).astype(np.float32)

    def stumble(x: np.ndarray) -> np.ndarray:
        return x * x + np.float32((x.astype(np.float16).astype(np.float32) != x).any())

    mo.derive("numpy", name="a-clean", forward={"tanh": clean})
    mo.derive(
        "numpy", name="b-pair", forward={"tanh": lambda x: np.nextafter(clean(x), np.float32(9)), "square": stumble}
    )
    with session() as sess:
        report = sess.run(loss, frameworks=["a-clean", "b-pair"], gradients=False)
        # Algorithm 1 sees it when the second of them is swapped.
        assert [r.node for r in report.suspects] == ["bend"]
        for name in ("bend", "square"):
            verdict = sess.verify(name)
            assert verdict.before.output == pytest.approx(2)
            assert verdict.after.output < 1e-6
            assert verdict.reproduced.output < 1e-6
            assert not verdict.confirmed
            assert any("other nodes take part" in line for line in verdict.evidence)


def test_rounding_blames_nobody() -> None:
    """However much smaller the other's error is."""
    with session() as sess:
        sess.run(chain()["loss"], frameworks=["numpy", off("tanh", 1 + 1e-6)])
        assert sess.verify("bend").blame is None
        sess.run(chain()["loss"], frameworks=["numpy", off("tanh", 1 + 1e-3)])
        assert sess.verify("bend").blame == "numpy-off"


@pytest.mark.parametrize("node", SWAP_ORDER)
@pytest.mark.parametrize("what", ["value", "nan", "gradient", "exception"])
def test_a_fault_on_the_first_side(node: str, what: str) -> None:
    nodes = chain()
    op = nodes[node].op.name
    reference = mo.ops()[op].reference
    numpy = mo.Session("numpy").backend_of(nodes[node])

    def spoiled(*inputs: np.ndarray, **attrs: object) -> np.ndarray:
        y = np.array(reference(*inputs, **attrs))
        y.flat[0] = np.nan
        return y

    def gradient(g: np.ndarray, y: np.ndarray, *inputs: np.ndarray, **attrs: object) -> tuple[np.ndarray, ...]:
        _, pullback = numpy.linearize(op, attrs, list(inputs), range(len(inputs)))
        return tuple(d + np.float32(0.5) for d in pullback([g]))

    if what == "value":
        off(op, 1.2, "a-wrong")
    elif what == "nan":
        mo.derive("numpy", name="a-wrong", forward={op: spoiled})
    elif what == "gradient":
        mo.derive("numpy", name="a-wrong", gradient={op: gradient})
    else:
        raising(op, ValueError("no"), "a-wrong")
    with session() as sess:
        report = sess.run(nodes["loss"], frameworks=[{None: "numpy", nodes[node]: "a-wrong"}, "numpy"])
        assert report.suspects[0].node == node
        verdict = sess.verify(report.suspects[0])
    assert verdict.confirmed, str(verdict)
    assert verdict.blame == "a-wrong"


def test_both_are_blamed_where_both_are_off() -> None:
    """By the same amount, in opposite directions."""
    with session() as sess:
        sess.run(chain()["loss"], frameworks=[off("tanh", 1.1, "above"), off("tanh", 0.9, "below")])
        verdict = sess.verify("bend")
    assert verdict.confirmed
    assert verdict.blame == "above and below"


def test_verify_is_about_the_last_run() -> None:
    nodes = chain()
    with session() as sess:
        sess.run(nodes["loss"], frameworks=["numpy", off("tanh")])
        assert sess.verify("bend").confirmed
        sess.run(nodes["loss"], frameworks=["numpy", "numpy"])
        assert not sess.verify("bend").confirmed
        sess.close()
        with pytest.raises(UsageError, match="call run first"):
            sess.verify("bend")


def test_verify_of_what_was_not_run() -> None:
    nodes = chain()
    sess = session()
    with pytest.raises(UsageError, match="call run first"):
        sess.verify("bend")
    sess.run(nodes["loss"], frameworks=["numpy", "numpy"])
    with pytest.raises(UsageError, match="no operator named 'elsewhere'; it has loss, third"):
        sess.verify("elsewhere")
    for other in (mo.tanh(nodes["w"], name="bend"), nodes["w"]):
        with pytest.raises(UsageError, match="no operator of the last run"):
            sess.verify(other)


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_is_called_after_each_step() -> None:
    """First the local check in the order of execution, then the swaps."""
    calls: list[tuple] = []
    report = session(progress=lambda *arguments: calls.append(arguments)).run(
        chain()["loss"], frameworks=["numpy", raising("tanh", ValueError("x"))]
    )
    assert [(done, total) for _, done, total in calls] == [(i + 1, 12) for i in range(12)]
    assert [record.node for record, _, _ in calls[:6]] == SWAP_ORDER[::-1]
    assert [record for record, _, _ in calls[6:]] == report.records


def test_a_run_that_is_ended_early_keeps_what_it_has() -> None:
    report = session(progress=lambda record, done, total: record.node != "second").run(
        chain()["loss"], frameworks=["numpy", off("tanh")]
    )
    assert [r.node for r in report.records] == ["second", "bend", "first"]
    assert any("ended early, after 3 of 6 nodes" in note for note in report.notes)


def test_steps_can_be_driven_and_left() -> None:
    with session() as sess:
        with pytest.raises(UsageError, match="call run first"):
            sess.report  # noqa: B018
        for record in sess.steps(chain()["loss"], frameworks=["numpy", off("tanh")], method="local"):
            if record.suspect:
                break
        assert [r.node for r in sess.report.records] == ["bend", "first"]
        assert sess.verify(sess.report.suspects[0]).blame == "numpy-off"
        for _ in sess.steps(chain()["loss"], frameworks=["numpy", "numpy"]):
            pass
        assert [r.node for r in sess.report.records] == SWAP_ORDER
        assert sess.report.notes == []


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    w = mo.Variable([1.0], name="w")
    loss = mo.reduce_sum(mo.tanh(w, name="[red]hostile[/nonsense]"), name="loss")
    session(progress=True).run(loss, frameworks=["numpy", "numpy"])
    assert capsys.readouterr().out == ""
    # Neither wished nor on a terminal: nothing is written at all.
    session(progress=None).run(loss, frameworks=["numpy", "numpy"])
    session(progress=False).run(loss, frameworks=["numpy", "numpy"])
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


# -- reports for others ------------------------------------------------------------------------------------------------

HOSTILE = "<script>alert('x')</script> & \"quotes\""


def hostile_report() -> mo.debug.DebugReport:
    """Infinite and missing deltas, a failure, and names that mean something to a browser."""
    w = mo.Variable([1.0, 2.0], name="w<b>")
    bad = mo.tanh(w, name=HOSTILE)
    worse = mo.sigmoid(bad, name="</td><img src=x onerror=alert(1)>")
    loss = mo.reduce_sum(worse, name="loss<i>")
    raising("sigmoid", ValueError("<u>so\nit goes</u>"))
    mo.derive("numpy", name="numpy-nan", forward={"tanh": lambda x: x * np.float32(np.nan)})
    return session().run(loss, frameworks=["numpy", {None: "numpy", bad: "numpy-nan", worse: "numpy-raising"}])


def strict(text: str) -> dict:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_is_strict_and_keeps_the_numbers(tmp_path) -> None:
    model = models.mlp(0)
    report = session().run(model.loss, model.feeds, frameworks=["numpy", off("tanh", 1 + 1e-6)])
    path = tmp_path / "report.json"
    text = report.to_json(path)
    data = strict(text)
    assert strict(path.read_text(encoding="utf-8")) == data
    assert data["format"] == "metaop-report"
    assert len(data["records"]) == len(report.records)
    for found, record in zip(data["records"], report.records, strict=True):
        deltas = ("output_delta", "gradient_delta", "local_output_delta", "local_gradient_delta")
        for field in (*deltas, "score", "seconds"):
            assert found[field] == getattr(record, field), field
        assert (found["node"], found["op"], found["status"], found["suspect"], found["bytes"]) == (
            record.node,
            record.op,
            record.status,
            record.suspect,
            record.bytes,
        )
        assert tuple(found["gradient_kind"]) == record.gradient_kind
    assert data["frameworks"] == list(report.frameworks)
    assert data["threshold_output"] == report.threshold_output
    assert any(0 < r.output_delta < 1.5e-4 for r in report.records)


def test_json_of_infinite_and_missing_numbers() -> None:
    data = strict(hostile_report().to_json())
    by_name = {r["node"]: r for r in data["records"]}
    assert by_name[HOSTILE]["output_delta"] == "inf"
    assert by_name[HOSTILE]["score"] == "inf"
    assert by_name["</td><img src=x onerror=alert(1)>"]["status"] == "error"
    missing = strict(session().run(chain()["loss"], frameworks=["numpy", "numpy"], gradients=False).to_json())
    assert all(r["gradient_delta"] is None for r in missing["records"])


def test_html_escapes_hostile_names(tmp_path) -> None:
    """What a browser makes of such names is in test_page.py."""
    report = hostile_report()
    path = tmp_path / "report.html"
    text = report.to_html(path)
    assert path.read_text(encoding="utf-8") == text
    for hostile in (HOSTILE, "<img src=x", "<u>so"):
        assert hostile not in text
        assert hostile not in report._repr_html_()
    assert "alert(" in text
    assert report._repr_html_().startswith("<iframe")


def test_table() -> None:
    nodes = chain()
    failing = raising("sigmoid", ValueError("so\nit goes"))
    sides = {None: "numpy", nodes["first"]: off("matmul", 1.2), nodes["squash"]: failing}
    report = session().run(nodes["loss"], frameworks=["numpy", sides])
    table = report.table()
    assert str(report) == table
    lines = table.splitlines()
    assert "disagree on 'loss': 2 of 6 nodes suspect" in lines[0]
    header = next(i for i, line in enumerate(lines) if "output delta" in line)
    rows = lines[header + 2 : header + 8]
    assert [row.split()[:2] for row in rows[:2]] == [["*", "squash"], ["*", "first"]]
    assert {row.split()[0] for row in rows[2:]} == set(SWAP_ORDER) - {"squash", "first"}
    assert "error" in rows[0]
    assert "inf" in rows[0]
    assert any("ValueError: so it goes" in line for line in lines[header + 8 :])
    short = report.table(limit=2)
    assert "squash" in short
    assert "third" not in short
    assert "... and 4 more" in short
    agreed = session().run(nodes["loss"], frameworks=["numpy", "numpy"])
    assert "agree on 'loss': no node of 6 is suspect" in agreed.table()


def test_labels_of_frameworks() -> None:
    nodes = chain()
    report = session().run(nodes["loss"], frameworks=["np", {None: "numpy", nodes["bend"]: off("tanh")}])
    assert report.frameworks == ("numpy", "numpy with numpy-off at bend")
    assert "numpy with numpy-off at bend" in report.table()


# -- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frameworks",
    ["numpy", ["numpy"], ["numpy"] * 3, [], None, 2, {None: "numpy", 1: "numpy"}],
    ids=str,
)
def test_two_frameworks_are_needed(frameworks: object) -> None:
    with pytest.raises(UsageError, match="frameworks are two backends"):
        session().run(chain()["loss"], frameworks=frameworks)


def test_maps_of_frameworks_that_make_no_sense() -> None:
    """A binding that would be passed over in silence looks like an agreement."""
    nodes = chain()
    with pytest.raises(UsageError, match="key None"):
        session().run(nodes["loss"], frameworks=["numpy", {nodes["bend"]: "numpy"}])
    with pytest.raises(UsageError, match="has nodes, or None, as keys; got 'bend'"):
        session().run(nodes["loss"], frameworks=["numpy", {None: "numpy", "bend": "numpy"}])
    for other in (nodes["w"], mo.tanh(nodes["w"], name="bend")):
        with pytest.raises(UsageError, match="not an operator that the target depends on"):
            session().run(nodes["loss"], frameworks=["numpy", {None: "numpy", other: "numpy"}])


def test_other_bad_usage() -> None:
    nodes = chain()
    with pytest.raises(UnknownBackendError):
        session().run(nodes["loss"], frameworks=["numpy", "nunpy"])
    for wrong in ([], "loss", [nodes["loss"], "loss"], None):
        with pytest.raises(UsageError, match="the target is a node"):
            session().run(wrong, frameworks=["numpy", "numpy"])
    x = mo.Placeholder(name="x")
    with pytest.raises(FeedError, match="'x'"):
        session().run(mo.tanh(x), frameworks=["numpy", "numpy"])
    twice = mo.tanh(mo.tanh(nodes["w"], name="twin"), name="twin")
    with pytest.raises(GraphError, match="two operators are named 'twin'"):
        session().run(twice, frameworks=["numpy", "numpy"])


def test_several_targets() -> None:
    """A fault is found whichever target it reaches, and one target in a list is that target."""
    w = mo.Variable([0.3, -0.7], name="w")
    first, second = mo.tanh(w, name="first"), mo.exp(w, name="second")
    both = mo.multiply(first, second, name="both")
    mo.derive("numpy", name="numpy-targets", forward={"exp": lambda x: np.exp(x) + np.float32(0.01)})
    pair = ["numpy", "numpy-targets"]
    alone = session().run(first, frameworks=pair)
    assert alone.consistent
    for targets in ([first, second], [second, first], [first, both], [both, second]):
        report = session().run(targets, frameworks=pair)
        assert [r.node for r in report.suspects] == ["second"]
        assert {r.node for r in report.records} == {n.name for n in targets} | {"first", "second"}
    (one,), (listed,) = (session().run(t, frameworks=pair).records for t in (second, [second]))
    assert (one.output_delta, one.gradient_delta) == (listed.output_delta, listed.gradient_delta)


def test_a_target_without_operators() -> None:
    report = session().run(mo.Variable([1.0], name="w"), frameworks=["numpy", "numpy"])
    assert report.records == []
    assert report.consistent
    assert "no node of 0 is suspect" in report.table()
    strict(report.to_json())


def test_every_order_of_two_faults_ranks_the_worse_first() -> None:
    nodes = chain()
    for small, large in itertools.permutations(["first", "second", "third"], 2):
        sides = {None: "numpy", nodes[small]: off("matmul", 1.001, "s"), nodes[large]: off("matmul", 1.5, "l")}
        report = session().run(nodes["loss"], frameworks=["numpy", sides])
        assert [r.node for r in report.suspects] == [large, small]
