"""Whole runs under a binding map: the output of the target and the gradients of every parameter."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metaop.backends import Backend, get
from metaop.debug.compare import Distance, gradient_distance, mean_absolute_distance
from metaop.errors import GraphError, UsageError
from metaop.graph.nodes import Node, Operator, Variable
from metaop.graph.plan import NativeCache
from metaop.graph.program import Program, Value, value_of
from metaop.graph.session import deciding, fed_types, signature
from metaop.graph.trace import Trace, active_values, leading_to, single_steps
from metaop.types import is_floating

__all__ = ["Evaluator", "Outcome", "Side", "distance"]


class Side:
    """One of the two frameworks compared: a backend for every node, and possibly others for single nodes.

    A framework is given as a spec, or as a map from nodes to specs whose key ``None`` holds the default.
    """

    def __init__(self, given: Any) -> None:
        if isinstance(given, Mapping):
            if None not in given:
                raise UsageError("a framework given as a map needs the key None for all other nodes")
            strange = [key for key in given if key is not None and not isinstance(key, Node)]
            if strange:
                raise UsageError(f"a framework given as a map has nodes, or None, as keys; got {strange[0]!r}")
            self.default = get(given[None])
            self.special = {node.producer: get(spec) for node, spec in given.items() if node is not None}
        else:
            self.default, self.special = get(given), {}

    def __call__(self, node: Operator) -> Backend:
        return self.special.get(node, self.default)

    @property
    def label(self) -> str:
        """The name in reports: ``torch``, or ``torch with torch-mine at relu_1``."""
        others = [f"{backend.spec} at {node.name}" for node, backend in self.special.items()]
        return self.default.spec + (f" with {', '.join(others)}" if others else "")


@dataclass
class Outcome:
    """The result of one whole run: the value of each target, the gradient of each parameter."""

    outputs: list[np.ndarray]
    gradients: list[np.ndarray]


def distance(a: Outcome, b: Outcome) -> Distance:
    """How far two runs are apart."""
    gradient = gradient_distance(a.gradients, b.gradients) if a.gradients else None
    output = max(mean_absolute_distance(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
    return Distance(output, gradient)


class Evaluator:
    """Runs some targets on one set of feeds, forward and backward, under any map from nodes to backends.

    Gradients are taken with respect to every floating variable that a target depends on differentiably; a target
    that is not a scalar is projected on a random vector drawn from ``seed``, and several targets are added.
    """

    def __init__(
        self, targets: Sequence[Node], feed_dict: Mapping[Any, Any] | None, seed: int, gradients: bool
    ) -> None:
        nodes, arrays, _ = signature(tuple(targets), feed_dict)
        self.targets = [value_of(target) for target in targets]
        self.program = Program(targets, fed_types(nodes, arrays), seed, deciding(nodes, arrays))
        self.feeds = dict(zip(nodes, arrays, strict=True))
        self.natives = NativeCache()
        _unique_names(self.program.order)
        variables: list[Value] = [(n, 0) for n in self.program.order if isinstance(n, Variable)]
        floating = [v for v in variables if is_floating(self.program.types[v].dtype)]
        smooth = {v for v in self.targets if is_floating(self.program.types[v].dtype)}
        reached = leading_to(self.program, smooth) if gradients else set()
        self.parameters = [v for v in floating if v in reached]
        self.active = active_values(self.program, self.parameters)
        self._smooth = [v for v in dict.fromkeys(self.targets) if v in smooth]
        self._seed = seed

    def trace(self, backend_of: Callable[[Operator], Backend]) -> Trace:
        """The forward pass, node by node, each value checked against its operator's rule."""
        trace = Trace(self.program, self.natives)
        trace.feed(self.feeds)
        trace.run(single_steps(self.program, backend_of), self.active if self.parameters else (), check_types=True)
        return trace

    def run(self, backend_of: Callable[[Operator], Backend]) -> Outcome:
        """Output and gradients under a binding map, from scratch."""
        return Outcome(*self.results(self.trace(backend_of)))

    def results(self, trace: Trace) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The targets' values and the parameters' gradients of a forward pass."""
        outputs = [np.array(trace.array(v)) for v in self.targets]
        gradients: list[np.ndarray] = []
        if self.parameters:
            found = trace.backward(self.seeds(trace), set(self.parameters))
            gradients = [np.array(found[v]) if v in found else self._zeros(v) for v in self.parameters]
        return outputs, gradients

    def seeds(self, trace: Trace) -> dict[Value, np.ndarray]:
        """The gradient that arrives at each target: one for a scalar, a random vector otherwise."""
        rng = np.random.default_rng([self._seed, 0x6D65746F])
        found = {}
        for value in self._smooth:
            # Asked of the array, for the shapes of some results are known only then.
            array = trace.array(value)
            drawn = np.ones(()) if array.shape == () else rng.standard_normal(array.shape)
            found[value] = drawn.astype(array.dtype)
        return found

    def _zeros(self, value: Value) -> np.ndarray:
        declared = self.program.types[value]
        return np.zeros(declared.shape, declared.dtype)  # type: ignore[arg-type]


def _unique_names(nodes: Sequence[Node]) -> None:
    seen: dict[str, Node] = {}
    for node in nodes:
        if isinstance(node, Operator) and seen.setdefault(node.name, node) is not node:
            raise GraphError(f"two operators are named {node.name!r}; a report needs different names")


def resident_bytes() -> int:
    """The resident memory of this process."""
    if _STATM is not None:
        return int(os.pread(_STATM, 64, 0).split()[1]) * _PAGE
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _open_statm() -> int | None:
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None


#: kept open, because it is read before and after every operator
_STATM = _open_statm()
_PAGE = os.sysconf("SC_PAGE_SIZE") if _STATM is not None else 0
