"""The session's deltas are those of the paper's Algorithm 1, number for number.

The algorithm is written out here a second time, on nothing but public sessions: for every state of the sweep a session
that binds each node anew, a run, gradients, and differences taken by hand. Equality is exact: a debug session that is
merely close to the algorithm has summed something in another order, and its deltas contain noise that no operator made.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import metaop as mo
from metaop.errors import GradientError
from metaop.graph.nodes import Node, Operator, Variable
from metaop.graph.order import execution_order
from tests import checks, models

PAIRS = [
    pair
    for pair in (("numpy", "torch"), ("torch", "numpy"), ("tensorflow", "torch"), ("onnxruntime", "torch"))
    if set(pair) <= set(checks.BACKENDS)
]


needs_torch = pytest.mark.skipif("torch" not in checks.BACKENDS, reason="METAOP_TEST_BACKENDS leaves torch out")


# -- Algorithm 1, the slow way -----------------------------------------------------------------------------------------


def algorithm1(target: Node, feeds: dict, a: str, b: str, seed: int = 0) -> list[tuple[str, float, float | None]]:
    """Name, output delta and gradient delta of every swap."""
    order = execution_order([target])
    operators = [n for n in order if isinstance(n, Operator)]
    parameters = [n for n in order if isinstance(n, Variable) and has_gradient(target, n, feeds)]

    def state(on_b: list[Operator]) -> tuple[np.ndarray, list[np.ndarray]]:
        bindings = {node: b if node in on_b else a for node in operators}
        with mo.Session(bindings=bindings, seed=seed) as sess:
            output = sess.run(target, feeds)
            if not parameters:
                return output, []
            return output, sess.gradients(target, parameters, feeds, grad_output=projection(output, seed))

    output_values, grad_tables = [], []
    for count in range(len(operators) + 1):
        output, gradients = state(operators[::-1][:count])
        output_values.append(output)
        grad_tables.append(gradients)
    found = []
    for i, node in enumerate(operators[::-1]):
        gradient = [apart(x, y) for x, y in zip(grad_tables[i], grad_tables[i + 1], strict=True)]
        found.append(
            (
                node.name,
                apart(output_values[i], output_values[i + 1]),
                sum(gradient) / len(gradient) if gradient else None,
            )
        )
    return found


def has_gradient(target: Node, parameter: Variable, feeds: dict) -> bool:
    with mo.Session("numpy") as sess:
        output = sess.run(target, feeds)
        try:
            sess.gradients(target, parameter, feeds, grad_output=np.ones_like(output))
        except GradientError:
            return False
    return True


def projection(output: np.ndarray, seed: int) -> np.ndarray | None:
    """The vector on which a target that is no scalar is projected; its draw is part of what a seed means."""
    if output.shape == ():
        return None
    return np.random.default_rng([seed, 0x6D65746F]).standard_normal(output.shape).astype(output.dtype)


def apart(x: np.ndarray, y: np.ndarray) -> float:
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    if x.size == 0:
        return 0.0
    x, y = x.astype(np.float64), y.astype(np.float64)
    total = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        if (np.isnan(x[i]) and np.isnan(y[i])) or x[i] == y[i]:
            continue
        if not (np.isfinite(x[i]) and np.isfinite(y[i])):
            return float("inf")
        total[i] = abs(x[i] - y[i])
    return float(np.mean(total))


def assert_faithful(target: Node, feeds: dict, pair: tuple[str, str], seed: int = 0) -> None:
    with mo.DebugSession(seed=seed, progress=False) as sess:
        report = sess.run(target, feeds, frameworks=list(pair), method="sweep")
    assert {r.status for r in report.records} == {"ok"}
    found = [(r.node, r.output_delta, r.gradient_delta) for r in report.records]
    assert found == algorithm1(target, feeds, *pair, seed=seed)


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("target", ["loss", "prediction"])
@pytest.mark.parametrize("name", models.MODELS)
def test_models(name: str, target: str, pair: tuple[str, str]) -> None:
    model = models.MODELS[name](1)
    assert_faithful(getattr(model, target), model.feeds, pair, seed=5)


@needs_torch
def test_batch_norm_while_training() -> None:
    model = models.cnn(2, training=True)
    assert_faithful(model.loss, model.feeds, ("numpy", "torch"))


@needs_torch
def test_a_target_without_parameters() -> None:
    x = mo.Placeholder(name="x")
    target = mo.softmax(mo.exp(x, name="exp"), name="softmax")
    assert_faithful(target, {x: np.linspace(-1, 1, 7, dtype=np.float32)}, ("numpy", "torch"))


@needs_torch
def test_an_integer_target() -> None:
    w = mo.Variable(np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32), name="w")
    assert_faithful(mo.argmax(mo.tanh(w, name="tanh"), axis=1, name="best"), {}, ("numpy", "torch"))


@needs_torch
def test_dropout_draws_the_same_mask_from_the_same_seed() -> None:
    w = mo.Variable(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32), name="w")
    loss = mo.reduce_sum(mo.dropout(mo.exp(w, name="exp"), ratio=0.4, name="dropout"), name="loss")
    assert_faithful(loss, {}, ("numpy", "torch"), seed=3)


# -- generated graphs --------------------------------------------------------------------------------------------------

#: shape-preserving on 3x3, so that any value can go into any of them
UNARY = {
    "tanh": {},
    "sigmoid": {},
    "softplus": {},
    "square": {},
    "softmax": {"axis": 0},
    "log_softmax": {"axis": -1},
    "transpose": {"perm": (1, 0)},
    "negative": {},
}
BINARY = ("add", "subtract", "multiply", "matmul")
SIZE = 3


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list, bool, int]:
    """A recipe: (operator, places of its arguments among all values so far)...; whether to reduce; a seed for the data.

    Places 0 to 2 are variables, 3 a placeholder; what nothing consumes is added up, so that all is part of the run.
    """
    steps: list[tuple[str, tuple[int, ...]]] = []
    for i in range(draw(st.integers(2, 9))):
        places = st.integers(0, 3 + i)
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(sorted(UNARY))), (draw(places),)))
        else:
            steps.append((draw(st.sampled_from(BINARY)), (draw(places), draw(places))))
    return steps, draw(st.booleans()), draw(st.integers(0, 2**16))


def build(recipe: tuple[list, bool, int]) -> tuple[Node, dict]:
    steps, reduced, seed = recipe
    rng = np.random.default_rng(seed)

    def array() -> np.ndarray:
        return rng.standard_normal((SIZE, SIZE)).astype(np.float32)

    x = mo.Placeholder(shape=(SIZE, SIZE), dtype="float32", name="x")
    values: list[Node] = [*(mo.Variable(array(), name=f"w{i}") for i in range(3)), x]
    for i, (op, places) in enumerate(steps):
        values.append(mo.apply(op, [values[p] for p in places], UNARY.get(op, {}), name=f"{op}{i}"))
    consumed = {p for _, places in steps for p in places}
    loose = [v for p, v in enumerate(values) if p not in consumed and p > 3]
    target = loose[0]
    for i, other in enumerate(loose[1:]):
        target = mo.add(target, other, name=f"total{i}")
    if reduced:
        target = mo.reduce_sum(target, name="sum")
    return target, {x: array()}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(recipe=graphs())
# A variable with uses on both sides of the border, two of them on the first: sums in three orders are three numbers.
@example(recipe=([("log_softmax", (0,)), ("add", (0, 0))], False, 0))
@example(recipe=([("matmul", (0, 3)), ("multiply", (0, 4)), ("matmul", (5, 0)), ("add", (0, 6))], True, 1))
def test_generated_graphs(pair: tuple[str, str], recipe: tuple[list, bool, int]) -> None:
    target, feeds = build(recipe)
    assert_faithful(target, feeds, pair)
