"""How far rounding alone moves the results of a whole graph.

The graph is run on A a few times, and at every node each result, forward and backward, moves by some units in the last
place at random. What comes out at the end differs by what any two correct frameworks may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.backends.base import Pullback, Variant
from metaop.debug.compare import mean_absolute_distance
from metaop.debug.evaluate import Evaluator, Outcome
from metaop.graph.nodes import Operator
from metaop.types import epsilon, is_floating

__all__ = ["Tremor"]

#: how often the graph is run
RUNS = 3
#: units in the last place that a result moves by
_UNITS = 2.0
#: how many times further than that correct frameworks may be apart
_MARGIN = 16.0


class Trembling(Variant):
    """A backend whose results are moved."""

    def __init__(self, base: Backend, rng: np.random.Generator) -> None:
        super().__init__(base, base.spec, {}, {})
        self._rng = rng

    def _moved(self, tensor: Any) -> Any:
        if tensor is None:
            return None
        array = self.base.to_numpy(tensor)
        if not is_floating(array.dtype):
            return tensor
        factor = 1 + _UNITS * epsilon(array.dtype) * self._rng.uniform(-1, 1, array.shape)
        with np.errstate(all="ignore"):
            # An array also where there are no axes, of which NumPy makes numbers.
            return self.base.from_numpy(np.asarray(array.astype(np.float64) * factor).astype(array.dtype))

    def call(self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._moved(y) for y in self.base.call(op, attrs, inputs))

    def linearize(
        self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> tuple[tuple[Any, ...], Pullback]:
        outputs, pullback = self.base.linearize(op, attrs, inputs, wrt)
        return tuple(self._moved(y) for y in outputs), lambda grads: [self._moved(g) for g in pullback(grads)]


class Tremor:
    """The noise at the end of a graph, measured once under ``backend_of``.

    >>> import metaop as mo
    >>> from metaop.backends import get
    >>> w = mo.Variable([1.0, 2.0])
    >>> evaluator = Evaluator([mo.reduce_sum(w * w)], {}, 0, True)
    >>> tremor = Tremor(evaluator, lambda node: get("numpy"), evaluator.run(lambda node: get("numpy")), seed=0)
    >>> tremor.allows(0, 1e-6), tremor.allows(0, 1e-3)
    (True, False)
    """

    def __init__(
        self, evaluator: Evaluator, backend_of: Callable[[Operator], Backend], calm: Outcome, *, seed: int
    ) -> None:
        self._floors = [_least(y) for y in (*calm.outputs, *calm.gradients)]
        for run in range(RUNS):
            rng = np.random.default_rng([seed, 3, run])
            moved = evaluator.run(lambda node, rng=rng: Trembling(backend_of(node), rng))  # type: ignore[misc]
            pairs = zip((*calm.outputs, *calm.gradients), (*moved.outputs, *moved.gradients), strict=True)
            for i, (a, b) in enumerate(pairs):
                distance = mean_absolute_distance(a, b)
                if np.isfinite(distance):
                    self._floors[i] = max(self._floors[i], distance)
        self._outputs = len(calm.outputs)

    def allows(self, index: int, distance: float) -> bool:
        """Whether rounding explains a mean absolute distance of a result: outputs first, then gradients."""
        return distance <= _MARGIN * self._floors[index]

    def score(self, a: Outcome, b: Outcome) -> float:
        """The distance of two runs, in units of what rounding explains; the worst output or gradient counts."""
        pairs = zip((*a.outputs, *a.gradients), (*b.outputs, *b.gradients), self._floors, strict=True)
        scores = [_ratio(mean_absolute_distance(x, y), _MARGIN * floor) for x, y, floor in pairs]
        return max(scores, default=0.0)


def _least(array: np.ndarray) -> float:
    """Rounding the result itself."""
    if not is_floating(array.dtype) or not array.size:
        return 0.0
    finite = np.abs(array.astype(np.float64))
    finite = finite[np.isfinite(finite)]
    return epsilon(array.dtype) / 2 * (float(finite.mean()) if finite.size else 0.0) + 1e-300


def _ratio(distance: float, floor: float) -> float:
    return 0.0 if distance == 0 else distance / floor if floor else float("inf")
