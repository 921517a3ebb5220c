"""The sweep's numbers are those of runs from scratch, bit for bit, and most of the work of those is not done.

The other side of each comparison is written out here: Algorithm 1 as a loop over whole runs, each with a fresh
evaluator's forward and backward pass under one binding map.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metaop as mo
from benchmarks import debugged
from metaop.backends import get
from metaop.backends.base import Variant
from metaop.debug.check import status_of
from metaop.debug.compare import same_bits
from metaop.debug.evaluate import Evaluator, Outcome, Side, distance
from metaop.debug.state import State
from metaop.debug.sweep import Runs
from metaop.errors import FrameworkError, UnsupportedOpError
from metaop.graph.nodes import Node, Operator
from tests import checks
from tests.debug import test_faithful

PAIRS = [
    pair
    for pair in (
        ("numpy", "torch"),
        ("torch", "onnxruntime"),
        ("tensorflow", "torch"),
        ("onnxruntime", "numpy"),
        ("torch", "jax"),
    )
    if set(pair) <= set(checks.BACKENDS)
]
needs_torch = pytest.mark.skipif("torch" not in checks.BACKENDS, reason="METAOP_TEST_BACKENDS leaves torch out")

#: name, distances, status
Row = tuple[str, float, float | None, str]


def brute_force(target: Node, feeds: dict, sides: tuple[Any, Any], seed: int = 0) -> list[Row]:
    """Algorithm 1, a whole run for each swap; what a side cannot compute stays on the other."""
    evaluator = Evaluator([target], feeds, seed, True)
    first, second = Side(sides[0]), Side(sides[1])
    order = evaluator.program.operators[::-1]
    stuck: dict[Operator, tuple[Side, str]] = {}
    swapped: set[Operator] = set()

    def run() -> Outcome:
        def backend_of(node: Operator) -> Any:
            return (stuck[node][0] if node in stuck else second if node in swapped else first)(node)

        return evaluator.run(backend_of)

    def named(error: Exception) -> Operator:
        return next(n for n in order if f"'{n.name}' " in str(error))

    while True:
        try:
            before = run()
            break
        except (FrameworkError, UnsupportedOpError) as error:
            stuck[named(error)] = (second, status_of(error))
    rows: list[Row] = []
    for node in order:
        status = stuck[node][1] if node in stuck else "ok"
        if status == "ok":
            swapped.add(node)
            try:
                after = run()
            except (FrameworkError, UnsupportedOpError) as error:
                status = status_of(error)
                stuck[node] = (first, status)
        if status == "ok":
            moved = distance(before, after)
            rows.append((node.name, moved.output, moved.gradient, status))
            before = after
        else:
            delta = None if status == "unsupported" else math.inf
            rows.append((node.name, delta, delta if evaluator.parameters else None, status))
    return rows


def incremental(target: Node, feeds: dict, sides: tuple[Any, Any], seed: int = 0) -> list[Row]:
    runs = Runs(Evaluator([target], feeds, seed, True), (Side(sides[0]), Side(sides[1])))
    return [(s.node.name, s.moved.output, s.moved.gradient, s.status) for s in runs.sweep()]


def assert_same_bits(target: Node, feeds: dict, pair: tuple[str, str], seed: int = 0) -> None:
    """After each swap every output and every gradient is that of a run from scratch, and not only their distances."""
    kept, fresh = (Evaluator([target], feeds, seed, True) for _ in range(2))
    a, b = map(get, pair)
    state = State(kept, lambda node: a)
    names = {n.name: n for n in fresh.program.operators}
    swapped: set[Operator] = set()
    for node in kept.program.operators[::-1]:
        state.change({node: b}).commit()
        swapped.add(names[node.name])
        expected = fresh.run(lambda n: b if n in swapped else a)
        found = state.outcome
        for what in ("outputs", "gradients"):
            arrays = list(zip(getattr(found, what), getattr(expected, what), strict=True))
            assert all(same_bits(x, y) for x, y in arrays), f"{what} after the swap of {node.name}"


# -- generated graphs --------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(recipe=test_faithful.graphs(), pair=st.sampled_from(PAIRS))
def test_generated_graphs(recipe: tuple[list, bool, int], pair: tuple[str, str]) -> None:
    target, feeds = test_faithful.build(recipe)
    assert_same_bits(target, feeds, pair)
    assert incremental(target, feeds, pair) == brute_force(target, feeds, pair)


#: on batches of square images, so that any value can go into any of them; most leave a tensor that is not contiguous
VIEWS: dict[str, Callable[[Node, str], Node]] = {
    "turned": lambda x, name: mo.transpose(x, perm=(0, 1, 3, 2), name=name),
    "channels_last": lambda x, name: mo.transpose(x, perm=(0, 2, 3, 1), name=name),
    "channels_first": lambda x, name: mo.transpose(x, perm=(0, 3, 1, 2), name=name),
    "backwards": lambda x, name: mo.transpose(x, perm=(3, 2, 1, 0), name=name),
    "reversed": lambda x, name: mo.slice(x, starts=(-1,), ends=(-99,), axes=(3,), steps=(-1,), name=name),
    "spread": lambda x, name: mo.expand(mo.reduce_mean(x, axes=(1,), keepdims=True), shape=(4, 4, 4, 4), name=name),
    "half": lambda x, name: mo.concat(
        mo.slice(x, starts=(0,), ends=(4,), axes=(2,), steps=(2,)),
        mo.split(x, axis=2, num_outputs=2)[1],
        axis=2,
        name=name,
    ),
    "regrouped": lambda x, name: mo.reshape(mo.transpose(x, perm=(2, 0, 3, 1)), shape=(4, 4, 4, 4), name=name),
    "tanh": lambda x, name: mo.tanh(x, name=name),
    "softmax": lambda x, name: mo.softmax(x, axis=1, name=name),
    "average": lambda x, name: mo.average_pool2d(x, kernel_shape=(3, 3), pads=(1, 1, 1, 1), name=name),
    "maximum": lambda x, name: mo.max_pool2d(x, kernel_shape=(3, 3), pads=(1, 1, 1, 1), name=name),
    "relu": lambda x, name: mo.relu(x, name=name),
}
JOINED: dict[str, Callable[[Node, Node, str], Node]] = {
    "conv": lambda x, y, name: mo.conv2d(x, y, pads=(2, 2, 2, 2), name=name)[:, :, :4, 1:],
    "matmul": lambda x, y, name: mo.matmul(x, y, name=name),
    "einsum": lambda x, y, name: mo.einsum(x, y, equation="abij,abkj->baik", name=name),
    "add": lambda x, y, name: mo.add(x, y, name=name),
    "multiply": lambda x, y, name: mo.multiply(x, y, name=name),
}


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list, int]:
    steps: list[tuple[str, tuple[int, ...]]] = []
    for i in range(draw(st.integers(2, 7))):
        # Mostly what was computed last: chains let layouts travel.
        places = st.one_of(st.just(2 + i), st.integers(0, 2 + i))
        if draw(st.integers(0, 2)):
            steps.append((draw(st.sampled_from(sorted(VIEWS))), (draw(places),)))
        else:
            steps.append((draw(st.sampled_from(sorted(JOINED))), (draw(places), draw(places))))
    return steps, draw(st.integers(0, 2**16))


def build(recipe: tuple[list, int]) -> tuple[Node, dict]:
    steps, seed = recipe
    rng = np.random.default_rng(seed)

    def array() -> np.ndarray:
        return rng.standard_normal((4, 4, 4, 4)).astype(np.float32)

    x = mo.Placeholder(shape=(4, 4, 4, 4), dtype="float32", name="x")
    values: list[Node] = [mo.Variable(array(), name="w0"), mo.Variable(array(), name="w1"), x]
    for i, (op, places) in enumerate(steps):
        values.append((VIEWS | JOINED)[op](*(values[p] for p in places), f"{op}{i}"))
    consumed = {p for _, places in steps for p in places}
    loose = [v for p, v in enumerate(values) if p not in consumed and p > 2]
    target = loose[0]
    for i, other in enumerate(loose[1:]):
        target = mo.add(target, other, name=f"total{i}")
    return mo.reduce_mean(mo.square(target, name="square"), name="mean"), {x: array()}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(recipe=layouts(), pair=st.sampled_from([p for p in PAIRS if "jax" not in p]))
def test_layouts(recipe: tuple[list, int], pair: tuple[str, str]) -> None:
    target, feeds = build(recipe)
    assert_same_bits(target, feeds, pair)
    assert incremental(target, feeds, pair) == brute_force(target, feeds, pair)


SMALL = {
    "mlp": {"layers": 3, "width": 8, "batch": 4},
    "cnn": {"blocks": 2, "channels": 4, "size": 6},
    "resnet18": {"width": 4, "size": 16, "batch": 1},
    "lstm": {"steps": 3, "width": 5, "batch": 2},
    "transformer": {"layers": 1, "width": 8, "heads": 2, "tokens": 4},
}


@pytest.mark.parametrize("name", [n for n in SMALL if n != "resnet18" or "torch" in checks.BACKENDS])
def test_networks(name: str) -> None:
    for pair in PAIRS[: 1 if name == "resnet18" else 3]:
        network = debugged.NETWORKS[name](**SMALL[name], seed=1)
        assert incremental(network.loss, network.feeds, pair) == brute_force(network.loss, network.feeds, pair)
        if name != "resnet18":
            assert_same_bits(network.loss, network.feeds, pair)


# -- sides that fail ---------------------------------------------------------------------------------------------------


def failing(op: str, what: str, error: Exception, name: str) -> str:
    def fail(*inputs: object, **attrs: object) -> object:
        raise error

    mo.derive("numpy", name=name, **{what: {op: fail}})
    return name


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("what", ["forward", "gradient"])
@pytest.mark.parametrize("error", [ZeroDivisionError("no"), UnsupportedOpError("has none")], ids=["error", "lacking"])
@pytest.mark.parametrize("place", ["layer0.softmax", "layer0.norm0", "loss", "layer0.up"])
def test_a_side_that_fails_at_a_node(side: int, what: str, error: Exception, place: str) -> None:
    """Also where that is the last node, the first one, or in the middle; other nodes differ all the while."""
    network = debugged.transformer(**SMALL["transformer"])
    node = network.node(place)
    mo.derive("numpy", name="numpy-gelu", forward={"gelu": lambda x, **attrs: np.tanh(x)})
    sides: list[Any] = [{None: "numpy"}, {None: "numpy-gelu"}]
    sides[side][node] = failing(node.op.name, what, error, "numpy-failing")
    found = incremental(network.loss, network.feeds, tuple(sides))
    assert found == brute_force(network.loss, network.feeds, tuple(sides))
    assert [name for name, *_, status in found if status != "ok"] == [place]
    assert {row[0]: row[1] for row in found}["layer0.gelu"] > 0


def test_a_node_that_fails_only_on_what_the_others_give() -> None:
    """On A's values it works; what B sends up, and only that, makes it raise: in the backward pass of a sweep."""

    def picky(g: np.ndarray, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
        if np.isnan(g).any():
            raise FloatingPointError("NaN")
        return (g * (1 - y * y),)

    w = mo.Variable(np.linspace(-1, 1, 6, dtype=np.float32), name="w")
    loss = mo.reduce_sum(mo.sigmoid(mo.tanh(w, name="bend"), name="squash"), name="loss")
    nan = {"sigmoid": lambda g, y, x: (g * np.float32(np.nan),)}
    mo.derive("numpy", name="numpy-picky", gradient={"tanh": picky, **nan})
    pair = ("numpy", "numpy-picky")
    found = incremental(loss, {}, pair)
    assert found == brute_force(loss, {}, pair)
    assert [(name, status) for name, *_, status in found] == [("loss", "ok"), ("squash", "ok"), ("bend", "error")]


def test_a_change_that_raises_leaves_the_state_as_it_was() -> None:
    network = debugged.mlp(**SMALL["mlp"])
    evaluator = Evaluator([network.loss], network.feeds, 0, True)
    numpy = get("numpy")
    state = State(evaluator, lambda node: numpy)
    before = evaluator.run(lambda node: numpy)
    for what in ("forward", "gradient"):
        bad = get(failing("relu", what, ZeroDivisionError("no"), "numpy-failing"))
        with pytest.raises(FrameworkError, match="ZeroDivisionError"):
            state.change({network.node("relu0"): bad})
        state.change({network.node("dense0"): numpy}).commit()
        assert distance(state.outcome, before).output == distance(state.outcome, before).gradient == 0


# -- what is not done --------------------------------------------------------------------------------------------------


class Counted(Variant):
    """A backend that counts what it computes."""

    def __init__(self, base: str) -> None:
        super().__init__(get(base), get(base).spec, {}, {})
        self.forward = self.backward = 0

    def call(self, op: str, attrs: Any, inputs: Any) -> Any:
        self.forward += 1
        return self.base.call(op, attrs, inputs)

    def linearize(self, op: str, attrs: Any, inputs: Any, wrt: Any) -> Any:
        self.forward += 1
        outputs, pullback = self.base.linearize(op, attrs, inputs, wrt)

        def counted(grads: Any) -> Any:
            self.backward += 1
            return pullback(grads)

        return outputs, counted


def counts(network: debugged.Network, wrong: str | None = None) -> tuple[int, int]:
    """Forward and backward calls of a sweep, on both sides together; values differ at one node, or nowhere."""
    a, b = Counted("numpy"), Counted("numpy")
    runs = Runs(Evaluator([network.loss], network.feeds, 0, True), (Side("numpy"), Side("numpy")))
    for side, backend in zip(runs.sides, (a, b), strict=True):
        side.default = backend
    if wrong is not None:
        node = network.node(wrong)
        reference = node.op.reference
        off = {node.op.name: lambda *inputs, **attrs: reference(*inputs, **attrs) * np.float32(1.1)}
        mo.derive("numpy", name="numpy-off", forward=off)
        runs.sides[1].special[node] = get("numpy-off")
    moved = [s.node.name for s in runs.sweep() if s.moved.output]
    assert moved == ([] if wrong is None else [wrong])
    return a.forward + b.forward, a.backward + b.backward


def test_a_swap_with_the_same_bits_costs_one_call() -> None:
    """Of N nodes 2 N forward calls and 2 N backward calls, where runs from scratch take N * (N + 1) of each."""
    network = debugged.cnn(blocks=8, channels=2, size=4)
    count = len(network.operators)
    assert count > 50
    forward, backward = counts(network)
    assert forward == 2 * count
    assert backward <= 2 * count


def test_a_difference_costs_what_lies_below_it() -> None:
    network = debugged.cnn(blocks=8, channels=2, size=4)
    names = [n.name for n in network.operators]
    for place in ("block7.relu1", "block4.relu0"):
        below = len(names) - names.index(place) - 1
        forward, backward = counts(network, place)
        assert forward == 2 * len(names) - 1 + below
        # Gradients above the node change too.
        assert backward <= 3 * len(names)
