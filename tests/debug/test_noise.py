"""What the default judge calls a fault, and what not: on single operators, and where a fault hides in a graph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop.backends import Backend, get
from metaop.backends.base import Variant
from metaop.debug.check import Finding, LocalCheck
from metaop.debug.evaluate import Evaluator, Side
from metaop.graph.nodes import Node
from metaop.ops import REGISTRY
from metaop.types import as_dtype, epsilon, is_floating
from tests import checks, models, tolerances

IN_PROCESS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime", "jax") if b in checks.BACKENDS]
needs_torch = pytest.mark.skipif("torch" not in checks.BACKENDS, reason="METAOP_TEST_BACKENDS leaves torch out")


def compare(target: Node | list[Node], feeds: dict | None = None, a: Any = "numpy", b: Any = "torch", **options: Any):
    session = {k: options.pop(k) for k in ("tails", "seed", "judge") if k in options}
    with mo.DebugSession(progress=False, **session) as sess:
        report = sess.run(target, feeds, frameworks=[a, b], **options)
        verdict = sess.verify(report.suspects[0]) if report.suspects else None
    return report, verdict


def variable(values: Any, name: str = "w", dtype: str = "float32") -> Node:
    return mo.Variable(np.asarray(values, as_dtype(dtype)), name=name)


# -- the judge itself, on every operator -------------------------------------------------------------------------------


class Off(Variant):
    """NumPy with one result of every operator off by 1e-3 of itself, at its largest element."""

    def __init__(self, *, output: int | None = None, gradient: int | None = None) -> None:
        super().__init__(get("numpy"), "numpy-off", {}, {})
        self.output, self.gradient, self.moved = output, gradient, False

    def call(self, op: str, attrs: Any, inputs: Any) -> Any:
        return self._each(self.base.call(op, attrs, inputs), self.output)

    def linearize(self, op: str, attrs: Any, inputs: Any, wrt: Any) -> Any:
        outputs, pullback = self.base.linearize(op, attrs, inputs, wrt)
        return self._each(outputs, self.output), lambda grads: self._each(pullback(grads), self.gradient)

    def _each(self, results: Any, wanted: int | None) -> tuple[Any, ...]:
        return tuple(self._spoil(np.array(y)) if i == wanted and y is not None else y for i, y in enumerate(results))

    def _spoil(self, y: np.ndarray) -> np.ndarray:
        if not y.size:
            return y
        size = np.abs(y.astype(np.float64))
        at = np.unravel_index(np.argmax(np.where(np.isfinite(size), size, 0.0)), y.shape)
        before = y[at]
        if is_floating(y.dtype):
            # Narrow numbers are rounded to more than that.
            y[at] = float(before) * (1 + max(1e-3, 256 * epsilon(y.dtype)))
        elif y.dtype == bool:
            y[at] = not before
        else:
            y[at] = before + 1 if before < np.iinfo(y.dtype).max else before - 1
        self.moved |= bool(y[at] != before)
        return y


def graph_of(case: checks.Case) -> Evaluator:
    nodes = [
        None if a is None else (mo.Variable if is_floating(a.dtype) else mo.Constant)(a, name=f"x{i}")
        for i, a in enumerate(case.inputs())
    ]
    y = mo.apply(case.op, nodes, case.attrs, name="node")
    return Evaluator(list(y) if isinstance(y, tuple) else [y], {}, 0, case.op.differentiable)


def look(evaluator: Evaluator, a: Backend, b: Backend) -> Finding:
    sides = Side("numpy"), Side("numpy")
    sides[0].default, sides[1].default = a, b
    (finding,) = LocalCheck(evaluator, sides, seed=0).run()
    return finding


def ordinary_cases(name: str) -> list[checks.Case]:
    op = REGISTRY[name]
    return [c for c in checks.cases(op, [checks.main_dtype(op)], special=False) if checks.ordinary(c)]


#: of each operator so many samples are spoiled
SPOILED = 4
#: operators and results whose spoiled number rounding explains all the same, and why
WITHIN_ROUNDING: dict[tuple[str, str], str] = {
    ("softmax", "output 0"): "half a unit in the last place of a logit of 1000 is 3e-5, and so much the result moves",
    ("softmax", "gradient 0"): "the same",
    ("log_softmax", "gradient 0"): "the same",
    ("reduce_log_sum_exp", "gradient 0"): "the same",
    ("pow", "gradient 0"): "the derivative of 0 ** y jumps at y = 1",
    ("quantize_linear", "output 0"): "a number half-way between two steps falls on either",
    ("dynamic_quantize_linear", "output 0"): "the same",
    ("dynamic_quantize_linear", "output 2"): "the same",
}


@pytest.mark.parametrize("name", REGISTRY)
def test_one_number_that_is_off_is_suspect(name: str) -> None:
    numpy = get("numpy")
    unseen = {what for op, what in WITHIN_ROUNDING if op == name}
    seen: set[str] = set()
    for case in ordinary_cases(name)[: None if unseen else SPOILED]:
        evaluator = graph_of(case)
        (node,) = evaluator.program.operators
        floating = sum(
            n is not None and is_floating(evaluator.program.types[n.producer, n.index].dtype) for n in node.inputs
        )
        wrong = [(f"output {i}", Off(output=i)) for i in range(len(node.types))]
        if case.op.differentiable:
            wrong += [(f"gradient {i}", Off(gradient=i)) for i in range(floating)]
        for what, off in wrong:
            finding = look(evaluator, numpy, off)
            if not off.moved:
                continue
            if finding.kind != "fault":
                assert what in unseen, f"{what} of {case} is {finding.kind}: {finding.parts}"
                seen.add(what)
                continue
            assert finding.score > 1
            # At a tie it is not known which of the two is right, but nobody says that the reference's side is wrong.
            assert finding.wrong in ("b", None), f"{what} of {case}: {finding.wrong} is called wrong"
            number = int(what.split()[1])
            if what.startswith("gradient") or is_floating(evaluator.program.types[node, number].dtype):
                assert finding.wrong == "b", f"{what} of {case}"
    assert seen == unseen, "no longer so: remove from the table"


def explained(other: str, case: checks.Case) -> bool:
    """Whether the table of known differences has a row for this sample."""
    rows = [
        row
        for check in ("forward", "gradient")
        for row in tolerances.expected(check, other, case.op.name, get(other).version())
    ]
    return any(row.kind in ("value", "nan", "infinity", "raised", "shape") and row.when(case) for row in rows)


@pytest.mark.parametrize("name", REGISTRY)
@pytest.mark.parametrize("other", [b for b in ("numpy", "torch") if b in checks.BACKENDS])
def test_correct_operators_are_not_suspect(other: str, name: str) -> None:
    for case in ordinary_cases(name):
        finding = look(graph_of(case), get("numpy"), get(other))
        if finding.status == "unsupported" or explained(other, case):
            continue
        assert (finding.status, finding.kind in ("same", "noise", "convention")) == ("ok", True), f"{case}: {finding}"
        assert finding.score <= 1
        if other == "numpy":
            assert finding.kind != "convention", f"{case}: {finding}"


# -- faults that other operators hide ----------------------------------------------------------------------------------


def hidden_by(name: str) -> tuple[Node, dict, str]:
    """A graph in which one element of the node ``hidden`` makes no difference at the loss: the one with index 0."""
    w = variable([[-2.0, 0.5, 1.0, 0.25]])
    hidden = mo.tanh(w, name="hidden")
    if name == "relu":
        y = mo.relu(hidden, name="hides")
    elif name == "max_pool":
        y = mo.max_pool1d(mo.reshape(hidden, shape=(1, 1, 4)), kernel_shape=(2,), strides=(2,), name="hides")
    elif name == "where":
        y = mo.where(
            mo.Constant([[False, True, True, True]]), hidden, mo.Constant(np.zeros(4, np.float32)), name="hides"
        )
    elif name == "slice":
        y = mo.slice(hidden, starts=(1,), ends=(4,), axes=(1,), name="hides")
    else:
        y = mo.multiply(hidden, mo.Constant(np.float32([[0, 1, 1, 1]])), name="hides")
    return mo.reduce_sum(mo.square(y, name="square"), name="loss"), {}, "hidden"


def spoiled(op: str, at: Any, by: float, base: str = "numpy", name: str = "numpy-spoiled") -> str:
    """A backend that is off at one element of the values of one operator; its gradients are right."""

    def forward(*inputs: Any, **attrs: Any) -> Any:
        y = np.array(REGISTRY[op].reference(*(np.asarray(x) for x in inputs), **attrs))
        y[at] += y.dtype.type(by)
        return y

    numpy = get("numpy")

    def gradient(g: Any, y: Any, *inputs: Any, **attrs: Any) -> Any:
        _, pullback = numpy.linearize(op, attrs, list(inputs), range(len(inputs)))
        return tuple(pullback([g]))

    mo.derive(base, name=name, forward={op: forward}, gradient={op: gradient})
    return name


@pytest.mark.parametrize("method", ["auto", "sweep", "local"])
@pytest.mark.parametrize("hider", ["relu", "max_pool", "where", "slice", "multiply"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_hidden_fault_is_found_and_verified_at_the_node(side: int, hider: str, method: str) -> None:
    loss, feeds, name = hidden_by(hider)
    sides = ["numpy", "numpy"]
    sides[side] = spoiled("tanh", (0, 0), -0.01)
    report, verdict = compare(loss, feeds, *sides, method=method)
    assert [r.node for r in report.suspects] == [name]
    record = report.record(name)
    assert record.kind == "fault"
    assert record.wrong == "numpy-spoiled"
    assert record.output_delta in (None, 0.0)
    assert record.local_output_delta == pytest.approx(0.01 / 4, rel=1e-3)
    assert verdict.confirmed
    assert verdict.scope == "node"
    assert verdict.blame == "numpy-spoiled"
    assert verdict.before.output == 0


@pytest.mark.parametrize("what", ["value", "nan", "gradient"])
def test_the_same_fault_on_both_sides_is_found_by_the_reference(what: str) -> None:
    names = ("left", "right")
    for name in names:
        if what == "gradient":
            mo.derive("numpy", name=name, gradient={"tanh": lambda g, y, x: (g * (1 - y * y) * np.float32(1.01),)})
        else:
            spoiled("tanh", (0, 1), 0.01 if what == "value" else math.nan, name=name)
    loss, feeds, node = hidden_by("relu")
    report, verdict = compare(loss, feeds, *names)
    assert [r.node for r in report.suspects] == [node]
    assert report.record(node).wrong == "left and right"
    assert report.record(node).output_delta == report.record(node).gradient_delta == 0
    assert verdict.blame == "left and right"
    assert verdict.confirmed
    assert verdict.scope == "node"
    # Fixed thresholds see nothing but the NaN.
    assert compare(loss, feeds, *names, judge="paper")[0].consistent == (what != "nan")


def test_a_nan_that_is_swallowed_below() -> None:
    loss, feeds, node = hidden_by("where")
    report, verdict = compare(loss, feeds, "numpy", spoiled("tanh", (0, 0), math.nan))
    assert [r.node for r in report.suspects] == [node]
    assert report.record(node).score == report.record(node).local_output_delta == math.inf
    assert verdict.confirmed
    assert verdict.blame == "numpy-spoiled"


@pytest.mark.parametrize("name", ["mlp", "cnn", "attention"])
def test_one_element_at_every_node(name: str) -> None:
    """Off by a thousandth of the largest number, at one element only; wherever that is, and whatever comes after."""
    model = models.MODELS[name](3)
    for node in model.operators:
        op = node.op.name

        def forward(*inputs: Any, _op: str = op, **attrs: Any) -> Any:
            y = np.array(REGISTRY[_op].reference(*inputs, **attrs))
            at = np.unravel_index(np.argmin(np.abs(y)), y.shape)
            y[at] += np.abs(y).max() * np.float32(1e-3)
            return y

        mo.derive("numpy", name="numpy-element", forward={op: forward})
        report, verdict = compare(model.loss, model.feeds, "numpy", {None: "numpy", node: "numpy-element"})
        assert report.suspects, node.name
        assert report.suspects[0].node == node.name
        assert report.suspects[0].wrong == "numpy-element"
        assert verdict.confirmed, f"{node.name}: {verdict}"
        assert verdict.blame == "numpy-element", f"{node.name}: {verdict}"


@pytest.mark.parametrize("name", ["mlp", "cnn", "attention"])
def test_gradients_only_at_every_node(name: str) -> None:
    model = models.MODELS[name](4)
    numpy = get("numpy")
    unseen = []
    for node in model.operators:
        op = node.op.name

        def gradient(g: Any, y: Any, *inputs: Any, _op: str = op, **attrs: Any) -> Any:
            _, pullback = numpy.linearize(_op, attrs, list(inputs), range(len(inputs)))
            found = [None if d is None else np.array(d) for d in pullback([g])]
            for d in found:
                if d is not None and d.size:
                    at = np.unravel_index(np.argmax(np.abs(d)), d.shape)
                    d[at] *= np.float32(1.001)
            return tuple(found)

        mo.derive("numpy", name="numpy-gradient", gradient={op: gradient})
        report, verdict = compare(model.loss, model.feeds, "numpy", {None: "numpy", node: "numpy-gradient"})
        if not report.suspects:
            unseen.append(node.name)
            continue
        record = report.suspects[0]
        assert record.node == node.name
        assert record.local_output_delta == 0
        assert record.output_score == 0 < 1 < record.gradient_score
        assert verdict.confirmed, f"{node.name}: {verdict}"
        assert verdict.blame == "numpy-gradient"
    # No variable lies above it.
    assert unseen == (["centre"] if name == "mlp" else [])


# -- conventions -------------------------------------------------------------------------------------------------------

ROWS = np.float32([[0.0, 1.0, -2.0, 3.0], [0.5, 0.0, 0.0, -1.0]])
TIES = np.float32([[2.0, 2.0, 1.0, 2.0], [0.0, 0.0, -1.0, 0.0]])


def at_kink(op: str) -> Node:
    """A graph whose node ``kink`` lies at one."""
    if op in ("relu", "abs"):
        return mo.apply(op, [variable(ROWS)], name="kink")
    if op in ("maximum", "minimum"):
        return mo.apply(op, [variable(TIES), variable(np.roll(TIES, 1, 1), "v")], name="kink")
    if op == "max_pool1d":
        images = mo.reshape(variable(TIES), shape=(2, 1, 4))
        return mo.max_pool1d(images, kernel_shape=(2,), strides=(1,), name="kink")
    return mo.apply(op, [variable(TIES)], {"axes": (1,)}, name="kink")


KINKS = ("relu", "abs", "maximum", "minimum", "max_pool1d", "reduce_max", "reduce_min")


@pytest.mark.parametrize("op", KINKS)
@pytest.mark.parametrize("pair", list(itertools.combinations(IN_PROCESS, 2)), ids="-".join)
def test_frameworks_at_kinks(pair: tuple[str, str], op: str) -> None:
    kink = at_kink(op)
    report, _ = compare(mo.reduce_sum(mo.square(kink, name="square"), name="loss"), None, *pair)
    assert report.consistent, str(report)
    assert report.record("kink").kind in ("same", "noise", "convention", "unsupported")


def with_convention(op: str, factor: float) -> str:
    """Another choice at ties than that of the reference's rule, and ``factor`` times the right gradient elsewhere."""
    f = np.float32(factor)

    def relu(g: Any, y: Any, x: Any) -> Any:
        return (np.where(x > 0, f * g, np.where(x == 0, g, np.float32(0))),)

    def absolute(g: Any, y: Any, x: Any) -> Any:
        return (np.where(x == 0, -g, f * g * np.sign(x)),)

    def maximum(g: Any, y: Any, a: Any, b: Any) -> Any:
        share = np.where(a == b, np.float32(0.25), np.where(a > b, f, np.float32(0)))
        return share * g, np.where(a == b, np.float32(0.75), np.where(a > b, np.float32(0), f)) * g

    def reduced(g: Any, y: Any, x: Any, **attrs: Any) -> Any:
        top = x == x.max(axis=1, keepdims=True)
        last = x.shape[1] - 1 - np.argmax(top[:, ::-1], axis=1)
        found = np.zeros_like(x)
        found[np.arange(len(x)), last] = g
        return (found if factor == 1 else found + np.float32(factor - 1),)

    rules = {"relu": relu, "abs": absolute, "maximum": maximum, "reduce_max": reduced}
    mo.derive("numpy", name="numpy-kink", gradient={op: rules[op]})
    return "numpy-kink"


@pytest.mark.parametrize("op", ["relu", "abs", "maximum", "reduce_max"])
def test_conventions_are_told_from_faults(op: str) -> None:
    loss = mo.reduce_sum(mo.square(at_kink(op), name="square"), name="loss")
    report, _ = compare(loss, None, "numpy", with_convention(op, 1.0))
    record = report.record("kink")
    assert report.consistent
    assert record.kind == "convention"
    assert record.score <= 1
    assert record.local_gradient_delta > 0
    # The same choice at the ties, and wrong beside them.
    report, verdict = compare(loss, None, "numpy", with_convention(op, 1.01))
    assert [r.node for r in report.suspects] == ["kink"]
    assert report.record("kink").kind == "fault"
    assert verdict.blame == "numpy-kink"


def test_a_gradient_beyond_the_choices_at_a_kink_is_a_fault() -> None:
    mo.derive(
        "numpy", name="numpy-beyond", gradient={"relu": lambda g, y, x: (np.where(x >= 0, g * (1 + (x == 0)), 0),)}
    )
    report, _ = compare(mo.reduce_sum(at_kink("relu"), name="loss"), None, "numpy", "numpy-beyond")
    assert [r.node for r in report.suspects] == ["kink"]


def test_a_value_at_a_kink_is_no_convention() -> None:
    """Values are exact by definition: relu(0) is not 1e-3, and a maximum of equals is not another number."""
    for op, at in (("relu", (0, 0)), ("maximum", (0, 0))):
        loss = mo.reduce_sum(at_kink(op), name="loss")
        report, _ = compare(loss, None, "numpy", spoiled(op, at, 1e-3), gradients=False)
        assert [r.node for r in report.suspects] == ["kink"]


# -- tails -------------------------------------------------------------------------------------------------------------


@needs_torch
def test_tails_only_where_they_are_asked_for() -> None:
    """PyTorch's gelu(-6) is 0, which is next to nothing beside its fellows, and wrong by all of itself."""
    loss = mo.reduce_sum(mo.gelu(variable(np.linspace(-6, 6, 25)), name="gelu"), name="loss")
    assert compare(loss)[0].consistent
    report, verdict = compare(loss, tails=True)
    record = report.record("gelu")
    assert [r.node for r in report.suspects] == ["gelu"]
    assert record.kind == "tail"
    assert record.tail_score > 1 >= record.output_score
    assert verdict.blame == "torch"
    assert verdict.confirmed


@needs_torch
def test_healthy_graphs_have_healthy_tails() -> None:
    for name in ("mlp", "cnn"):
        model = models.MODELS[name](6)
        report, _ = compare(model.loss, model.feeds, tails=True)
        assert report.consistent, str(report)


# -- dtypes, sizes, several outputs ------------------------------------------------------------------------------------


def mixed(dtype: str) -> Node:
    """Convolution, normalization, matrices, elementwise functions and reductions in one dtype."""
    rng = np.random.default_rng(8)

    def weight(name: str, *shape: int) -> Node:
        return variable(rng.standard_normal(shape) / max(1, math.prod(shape[1:])) ** 0.5, name, dtype)

    h = mo.relu(
        mo.conv2d(weight("x", 2, 3, 6, 6), weight("k", 4, 3, 3, 3), pads=(1, 1, 1, 1), name="conv"), name="relu"
    )
    h = mo.flatten(mo.max_pool2d(h, kernel_shape=(2, 2), strides=(2, 2), name="pool"), axis=1, name="flatten")
    h = mo.tanh(mo.matmul(h, weight("w", 36, 8), name="dense"), name="tanh")
    # The epsilon is one that float32 holds: ONNX Runtime takes it from there, in float64 too.
    h = mo.layer_norm(h, weight("g", 8), weight("s", 8), axis=-1, epsilon=2.0**-16, name="norm")
    h = mo.softmax(mo.multiply(h, h, name="squared"), axis=-1, name="softmax")
    h = mo.log(mo.add(h, mo.Constant(np.asarray(1.0, as_dtype(dtype))), name="more"), name="log")
    return mo.reduce_mean(mo.exp(h, name="exp"), name="loss")


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "pair", [(a, b) for a, b in itertools.combinations(IN_PROCESS, 2) if "torch" in (a, b)], ids="-".join
)
def test_other_dtypes_are_clean(pair: tuple[str, str], dtype: str) -> None:
    loss = mixed(dtype)
    try:
        report, _ = compare(loss, None, *pair)
    except mo.errors.UnsupportedOpError as error:
        assert dtype == "bfloat16"
        pytest.skip(str(error))
    assert report.consistent, str(report)
    assert {r.status for r in report.records} <= {"ok", "unsupported"}


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_faults_in_other_dtypes(dtype: str) -> None:
    def scaled(x: np.ndarray) -> np.ndarray:
        return (np.tanh(x.astype(np.float64)) * (1.01 if dtype == "float64" else 2.0)).astype(x.dtype)

    mo.derive("numpy", name="numpy-scaled", forward={"tanh": scaled})
    report, verdict = compare(mixed(dtype), None, "numpy", "numpy-scaled")
    assert report.suspects[0].node == "tanh"
    assert verdict.confirmed
    assert verdict.blame == "numpy-scaled"


def test_rounding_near_the_largest_number_may_overflow() -> None:
    w = variable([60000.0, 65504.0, 100.0], dtype="float16")

    def larger(x: np.ndarray, c: Any) -> np.ndarray:
        with np.errstate(over="ignore"):
            return x * np.nextafter(np.float16(1), np.float16(2))

    mo.derive("numpy", name="numpy-over", forward={"multiply": larger})
    target = mo.multiply(w, mo.Constant(np.float16(1)), name="y")
    report, _ = compare(target, None, "numpy", "numpy-over", gradients=False)
    assert report.record("y").local_output_delta == math.inf
    assert report.consistent, str(report)


def test_an_overflow_far_from_the_largest_number_is_a_fault() -> None:
    w = variable([100.0, 2.0], dtype="float16")
    mo.derive("numpy", name="numpy-inf", forward={"square": lambda x: np.float16([np.inf, 4])})
    report, verdict = compare(mo.square(w, name="y"), None, "numpy", "numpy-inf", gradients=False)
    assert [r.node for r in report.suspects] == ["y"]
    assert verdict.blame == "numpy-inf"


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_what_is_not_floating_compares_exactly(dtype: str) -> None:
    """Also where the numbers are so large that float64 does not tell them apart."""
    top = {"int64": 2**62, "int32": 2**30, "uint8": 200, "bool": 1}[dtype]
    c = mo.Constant(np.array([top, 1, 0], dtype))
    y = mo.where(mo.Constant([True, True, False]), c, mo.Constant(np.zeros(3, dtype)), name="y")

    def off(condition: Any, a: Any, b: Any) -> np.ndarray:
        found = np.where(condition, a, b)
        found[0] = not found[0] if dtype == "bool" else found[0] + 1
        return found

    mo.derive("numpy", name="numpy-by-one", forward={"where": off})
    assert compare(y, None, "numpy", "numpy")[0].consistent
    report, verdict = compare(y, None, "numpy", "numpy-by-one")
    assert [r.node for r in report.suspects] == ["y"]
    assert report.record("y").score == math.inf
    assert report.record("y").local_output_delta == pytest.approx(1 / 3)
    assert verdict.blame == "numpy-by-one"


@needs_torch
def test_empty_tensors_and_tensors_without_axes() -> None:
    empty = variable(np.zeros((0, 3)))
    total = mo.reduce_sum(mo.tanh(empty, name="none"), name="sum_of_none")
    scalar = mo.exp(variable(0.5, "v"), name="scalar")
    report, _ = compare(mo.add(total, scalar, name="loss"))
    assert report.consistent
    assert report.record("none").local_output_delta == 0
    mo.derive("numpy", name="numpy-scalar", forward={"exp": lambda x: np.exp(x) * np.float32(1.001)})
    report, verdict = compare(mo.add(total, scalar, name="loss"), None, "torch", "numpy-scalar")
    assert [r.node for r in report.suspects] == ["scalar"]
    assert report.record("scalar").parts[0].worst.index == ()
    assert verdict.blame == "numpy-scalar"


@needs_torch
@pytest.mark.parametrize("which", [0, 1])
def test_several_outputs(which: int) -> None:
    """A fault in one of them is told by its number, also where nothing uses that output."""
    values, places = mo.topk(variable([[3.0, 1.0, 2.0], [0.5, 0.25, 0.75]]), k=2, axis=-1, name="top")
    loss = mo.reduce_sum(values, name="loss")
    report, _ = compare([loss, mo.cast(places, to="float32", name="where")] if which else loss)
    assert report.consistent
    right = REGISTRY["topk"].reference

    def off(*inputs: Any, **attrs: Any) -> Any:
        found = [np.array(y) for y in right(*inputs, **attrs)]
        found[which].flat[1] += 1
        return tuple(found)

    mo.derive("numpy", name="numpy-top", forward={"topk": off})
    report, verdict = compare(loss, None, "numpy", "numpy-top", gradients=False)
    record = report.record("top")
    assert [r.node for r in report.suspects] == ["top"]
    assert [p.kind == "fault" for p in record.parts] == [i == which for i in range(2)]
    assert verdict.confirmed
    assert verdict.scope == ("node" if which else "target")
    assert verdict.blame == "numpy-top"


@pytest.mark.parametrize("other", [b for b in ("torch", "tensorflow", "onnxruntime") if b in checks.BACKENDS])
def test_sizes_from_data(other: str) -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    places = mo.nonzero(mo.relu(x, name="relu"), name="places")
    target = mo.cast(places, to="float32", name="numbers")
    feeds = {x: np.float32([[1, -1, 2], [-3, 4, 5]])}
    assert compare(target, feeds, "numpy", other)[0].consistent
    mo.derive("numpy", name="numpy-fewer", forward={"nonzero": lambda x: np.array(np.nonzero(x > 1), np.int64)})
    report, verdict = compare(target, feeds, other, "numpy-fewer")
    assert [r.node for r in report.suspects] == ["places"]
    assert report.record("places").score == math.inf
    assert verdict.blame == "numpy-fewer"


@needs_torch
@pytest.mark.parametrize("build", [models.mlp, models.attention], ids=["mlp", "attention"])
def test_seeds_change_the_data_and_not_the_verdict(build: Callable[[int], models.Model]) -> None:
    model = build(0)
    scores = set()
    for seed in range(5):
        report, _ = compare(model.loss, model.feeds, seed=seed)
        assert report.consistent, f"seed {seed}\n{report}"
        scores.add(tuple(r.score for r in report.records))
    assert len(scores) == 5
