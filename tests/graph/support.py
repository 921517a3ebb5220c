"""What the tests of the graph share: backends, bit-exact comparison, and generated graphs with an error bound.

A generated graph is a :class:`Recipe`: plain data that hypothesis can shrink. It keeps every value within [-1, 1], so
that :meth:`Recipe.bound` can say how far a result in one dtype may be from the exact one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import metaop as mo
from metaop.backends import Backend, get
from metaop.graph.nodes import Node, Operator
from metaop.graph.plan import NativeCache
from metaop.graph.program import Program, value_of
from metaop.graph.session import fed_types, signature
from metaop.graph.trace import Trace, active_values, single_steps
from tests import checks

BACKENDS = tuple(b for b in ("numpy", "torch", "tensorflow", "onnxruntime") if b in checks.BACKENDS)
NATIVE = tuple(b for b in ("torch", "tensorflow") if b in BACKENDS)


def generated(examples: int) -> Any:
    """Settings of a generated test: so many examples, and as long as each one takes."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=checks.SEED == 0,
        suppress_health_check=[HealthCheck.too_slow],
        database=None,
    )


def assert_bits(found: Any, expected: Any) -> None:
    """Equal dtype, shape and bits, for one array or a list of them."""
    if isinstance(found, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_bits(a, b)
        return
    assert isinstance(found, np.ndarray)
    assert checks.same_bits(found, np.asarray(expected)), f"{found!r}\n{expected!r}"


def program_of(targets: Sequence[Node], feeds: Mapping[Any, Any] | None = None, seed: int = 0) -> tuple[Program, dict]:
    nodes, arrays, _ = signature(tuple(targets), feeds)
    return Program(targets, fed_types(nodes, arrays), seed), dict(zip(nodes, arrays, strict=True))


def by_node(
    targets: Sequence[Node], feeds: Mapping[Any, Any] | None, backend_of: Callable[[Operator], Backend]
) -> list[np.ndarray]:
    """The values of the targets, evaluated one operator at a time."""
    program, arrays = program_of(targets, feeds)
    trace = Trace(program, NativeCache())
    trace.feed(arrays)
    trace.run(single_steps(program, backend_of), check_types=True)
    return [np.array(trace.array(value_of(t))) for t in targets]


def gradients_by_node(
    target: Node,
    wrt: Sequence[Node],
    feeds: Mapping[Any, Any] | None,
    backend_of: Callable[[Operator], Backend],
    incoming: np.ndarray | None = None,
) -> list[np.ndarray | None]:
    """The gradients, one pullback per operator; ``None`` where nothing arrives."""
    program, arrays = program_of((target, *wrt), feeds)
    values = {value_of(n) for n in wrt}
    trace = Trace(program, NativeCache())
    trace.feed(arrays)
    trace.run(single_steps(program, backend_of), active_values(program, values), check_types=True)
    seed = np.ones((), program.types[value_of(target)].dtype) if incoming is None else incoming
    found = trace.backward({value_of(target): seed}, values)
    return [None if value_of(n) not in found else np.array(found[value_of(n)]) for n in wrt]


def logging_backend(name: str, log: list[str], base: str = "numpy", op: str = "relu") -> str:
    """A backend that writes its own name into ``log`` whenever it computes ``op``."""
    binding = get(base).bindings.find(op).function

    def forward(*tensors: Any, **attrs: Any) -> Any:
        log.append(name)
        return binding(*tensors, **attrs)

    return mo.derive(base, name=name, forward={op: forward}).name


# -- generated graphs --------------------------------------------------------------------------------------------------

SIDE = 3
#: name -> number of operands, graph, how operand errors (in units of eps) make up the error of the result
STEPS: dict[str, tuple[int, Callable[..., Node], Callable[..., float]]] = {
    "add": (2, lambda a, b: (a + b) * 0.5, lambda a, b: 0.5 * (a + b) + 2),
    "subtract": (2, lambda a, b: (a - b) * 0.5, lambda a, b: 0.5 * (a + b) + 2),
    "multiply": (2, lambda a, b: a * b, lambda a, b: a + b + 1),
    "matmul": (2, lambda a, b: (a @ b) * 0.25, lambda a, b: 0.25 * SIDE * (a + b) + 4),
    "tanh": (1, mo.tanh, lambda a: a + 4),
    "sigmoid": (1, mo.sigmoid, lambda a: 0.25 * a + 4),
    "exp": (1, lambda a: mo.exp(a) * 0.25, lambda a: 0.7 * a + 4),
    "sin": (1, mo.sin, lambda a: a + 4),
    "negative": (1, lambda a: -a, lambda a: a),
    "transpose": (1, mo.transpose, lambda a: a),
    "row": (1, lambda a: mo.expand(a[1:2], shape=(SIDE, SIDE)), lambda a: a),
    "maximum": (2, mo.maximum, max),
    "minimum": (2, mo.minimum, max),
    "relu": (1, mo.relu, lambda a: a),
}
SMOOTH = tuple(name for name in STEPS if name not in ("maximum", "minimum", "relu"))
#: shapes of the leaves: two placeholders, two variables, all of which broadcast to [SIDE, SIDE]
LEAVES = ((SIDE, SIDE), (1, SIDE), (SIDE, SIDE), (SIDE,))


@dataclass(frozen=True)
class Recipe:
    """Steps over values: the leaves first, then the result of each step; ``seed`` draws the data."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]
    seed: int

    def arrays(self, dtype: Any = np.float32) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed)
        # Drawn as float32 in any case, so that every dtype gets the very same numbers.
        return [rng.uniform(-1, 1, shape).astype(np.float32).astype(dtype) for shape in LEAVES]

    def build(self, dtype: Any = np.float32) -> Built:
        arrays = self.arrays(dtype)
        leaves: list[Node] = [mo.Placeholder(a.shape, dtype, name=f"x{i}") for i, a in enumerate(arrays[:2])]
        leaves += [mo.Variable(a, name=f"w{i}") for i, a in enumerate(arrays[2:])]
        # A first step makes every value square; it belongs to the graph.
        square = np.zeros((SIDE, SIDE), dtype)
        values = [leaf + square for leaf in leaves]
        for name, operands in self.steps:
            values.append(STEPS[name][1](*(values[i] for i in operands)))
        return Built(leaves, values, dict(zip(leaves[:2], arrays[:2], strict=True)))

    def bound(self, dtype: Any = np.float32) -> float:
        """How far any value may be from the exact one."""
        errors = [1.0] * len(LEAVES)
        for name, operands in self.steps:
            errors.append(STEPS[name][2](*(errors[i] for i in operands)))
        return max(errors) * float(np.finfo(dtype).eps)


@dataclass
class Built:
    """The graph of a recipe."""

    leaves: list[Node]
    values: list[Node]
    feeds: dict[Node, np.ndarray]

    @property
    def target(self) -> Node:
        return self.values[-1]

    @functools.cached_property
    def operators(self) -> list[Operator]:
        return program_of([self.target], self.feeds)[0].operators

    @functools.cached_property
    def loss(self) -> Node:
        return mo.reduce_mean(self.target * self.target)


@st.composite
def recipes(draw: Any, least: int = 1, most: int = 10, steps: Sequence[str] = tuple(STEPS)) -> Recipe:
    """Graphs in which values are shared, forgotten and used twice."""
    chosen: list[tuple[str, tuple[int, ...]]] = []
    for _ in range(draw(st.integers(least, most))):
        name = draw(st.sampled_from(steps))
        known = len(LEAVES) + len(chosen)
        # Mostly recent values, for deep graphs; but any value may come back.
        operand = st.one_of(st.integers(max(0, known - 3), known - 1), st.integers(0, known - 1))
        chosen.append((name, tuple(draw(operand) for _ in range(STEPS[name][0]))))
    return Recipe(tuple(chosen), draw(st.integers(0, 99)))


def bindings_for(operators: Sequence[Operator]) -> Any:
    """A backend for each operator."""
    return st.lists(st.sampled_from(BACKENDS), min_size=len(operators), max_size=len(operators)).map(
        lambda names: dict(zip(operators, names, strict=True))
    )
