"""The third opinion: one call in float64 by the operator's reference, and how far rounding may move its results.

The reference and its gradient rule are computed in float64 from the very same inputs. How much rounding matters for
these data is measured rather than assumed: the inputs and the incoming gradients move by half a unit in the last place
of the working precision, and the results move with them (:attr:`Reference.spread`). Where they jump, the inputs lie at
a kink or a step, and what is right there is a convention (:attr:`Reference.hull`). Where they depend on what a NaN
among the inputs stands for, nothing is right (:attr:`Reference.undefined`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from metaop.backends import get
from metaop.backends.numpy import NumpyBackend
from metaop.debug.local import Call
from metaop.graph.nodes import Operator
from metaop.graph.program import Value, value_of
from metaop.types import epsilon, is_floating

__all__ = ["Reference", "wide"]

#: how often the inputs are moved to see how far the results go
DRAWS = 4
#: the same for kinks, at which each draw shows one side
KINK_DRAWS = 12
#: how far inputs are moved to get off a kink, in units in the last place
_STEP = 4.0
#: operators that look at the bits of a number, of which float64 has others
_OF_BITS = frozenset(["bit_cast"])


def wide(array: np.ndarray) -> np.ndarray:
    """The same numbers in float64, where they are floating."""
    return array.astype(np.float64) if is_floating(array.dtype) else array


class Reference:
    """What the reference says of one call; computed when asked for, and once."""

    def __init__(self, call: Call, incoming: Mapping[Value, np.ndarray], seed: int = 0) -> None:
        self._call = call
        self._seed = seed
        node = call.node
        self._node = node
        inputs = [call.array(v) for v in call.inputs]
        dtypes = [t.dtype for t in (call.program.types[node, i] for i in range(len(node.types))) if t.dtype is not None]
        floating = [d for d in dtypes if is_floating(d)] or [a.dtype for a in inputs if is_floating(a.dtype)]
        #: the distance from 1 to the next number in the precision that the operator works in; 0 for integers
        self.epsilon = max(map(epsilon, floating), default=0.0)
        keep = node.op.name in _OF_BITS
        self._inputs = inputs if keep else [wide(a) for a in inputs]
        self._incoming = {v: wide(g) for v, g in incoming.items()}
        #: how many numbers one element of a result is made of, roughly, is told by these sizes
        self.sizes = sorted([a.size for a in inputs] + [g.size for g in incoming.values()], reverse=True)

    @cached_property
    def exact(self) -> list[np.ndarray]:
        """The results, in the order of :attr:`metaop.debug.local.Call.names`."""
        return self._run(self._inputs, self._incoming)

    @cached_property
    def problem(self) -> str | None:
        """Why there is no reference for this call, where it fails on these data in float64."""
        try:
            self.exact  # noqa: B018  its failure is what is asked for
        except Exception as error:
            return f"the reference has no opinion: {type(error).__name__}: {error}"
        return None

    @cached_property
    def spread(self) -> list[np.ndarray]:
        """The rms change of every element when all that goes in moves by half a unit in the last place."""
        rng = np.random.default_rng([self._seed, 1])
        half = self.epsilon / 2

        def moved(array: np.ndarray) -> np.ndarray:
            return array * (1 + half * rng.choice((-1.0, 1.0), array.shape))

        total = [np.zeros(y.shape) for y in self.exact]
        for near in self._near(moved, DRAWS, within=_cancels(self._node)):
            for t, y, exact in zip(total, near, self.exact, strict=True):
                if y.shape == exact.shape:
                    with np.errstate(all="ignore"):
                        change = np.where(np.isfinite(y) & np.isfinite(exact), wide(y) - wide(exact), 0.0)
                    t += change**2
        return [np.sqrt(t / DRAWS) for t in total]

    @cached_property
    def hull(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The least and the largest value of every element in the neighbourhood of the inputs.

        Zeros move too, and everything moves far enough to leave a tie.
        """
        rng = np.random.default_rng([self._seed, 2])

        def moved(array: np.ndarray) -> np.ndarray:
            size = np.abs(array)
            # The neighbourhood of zero is that of its fellows.
            least = size[size > 0].min() if (size > 0).any() else 1.0
            return array + _STEP * self.epsilon * np.where(size > 0, size, least) * rng.uniform(-1, 1, array.shape)

        low, high = [wide(y).copy() for y in self.exact], [wide(y).copy() for y in self.exact]
        for near in self._near(moved, KINK_DRAWS, gradients=False):
            for i, y in enumerate(near):
                if y.shape == low[i].shape:
                    np.fmin(low[i], wide(y), out=low[i])
                    np.fmax(high[i], wide(y), out=high[i])
        return list(zip(low, high, strict=True))

    @cached_property
    def undefined(self) -> list[np.ndarray] | None:
        """The elements that depend on what the NaNs among the inputs stand for; ``None`` where there are none."""
        if not any(a.dtype == np.float64 and np.isnan(a).any() for a in self._inputs):
            return None
        rng = np.random.default_rng([self._seed, 4])

        def moved(array: np.ndarray) -> np.ndarray:
            unknown = np.isnan(array)
            finite = np.abs(array[np.isfinite(array)])
            # Any number, small or large beside the others.
            size = (1 + finite.max(initial=0.0)) * 10 ** rng.uniform(-3, 1, array.shape)
            return np.where(unknown, size * rng.choice((-1.0, 1.0), array.shape), array)

        found = [np.isnan(y) if is_floating(y.dtype) else np.zeros(y.shape, bool) for y in self.exact]
        for near in self._near(moved, KINK_DRAWS, gradients=False):
            for depends, y, exact in zip(found, near, self.exact, strict=True):
                if y.shape == exact.shape:
                    depends |= y != exact
        return found

    def terms(self, part: int) -> float:
        """About how many numbers are added up for one element of a result."""
        size = max(self.exact[part].size, 1)
        first, second = (*self.sizes, 0, 0)[:2]
        return max(1.0, first / size, (first * second / size) ** 0.5)

    # -- running it ---------------------------------------------------------------------------------------------------

    def _near(
        self,
        moved: Callable[[np.ndarray], np.ndarray],
        draws: int,
        *,
        gradients: bool = True,
        within: bool = False,
    ) -> list[list[np.ndarray]]:
        """The results nearby; incoming gradients move too unless ``gradients`` is false.

        With ``within`` every number that a gradient rule computes on its way moves as well.
        """
        found = []
        for _ in range(draws):
            inputs = [moved(a) if a.dtype == np.float64 else a for a in self._inputs]
            incoming = {v: moved(g) if gradients else g for v, g in self._incoming.items()}
            found.append(self._run(inputs, incoming, moved if within else None))
        return found

    def _run(
        self,
        inputs: Sequence[np.ndarray],
        incoming: Mapping[Value, np.ndarray],
        moved: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        call, node = self._call, self._node
        by_value = dict(zip(call.inputs, inputs, strict=True))
        arguments = [None if n is None else by_value[value_of(n)] for n in node.inputs]
        wrt = [i for i, n in enumerate(node.inputs) if n is not None and value_of(n) in call.wrt]
        numpy = get("numpy") if moved is None else _Moved(moved)
        with np.errstate(all="ignore"):
            outputs, pullback = numpy.linearize(node.op.name, call.program.attrs(node), arguments, wrt)
            found: dict[Value, np.ndarray] = {}
            if wrt and incoming:
                grads = pullback([incoming.get((node, i)) for i in range(len(outputs))])
                for i, g in zip(wrt, grads, strict=True):
                    value = value_of(node.inputs[i])  # type: ignore[arg-type]
                    if g is not None:
                        found[value] = found[value] + g if value in found else np.asarray(g)
        gradients = [found[v] if v in found else np.zeros(by_value[v].shape) for v in call.wrt]
        return [np.asarray(y) for y in (*outputs, *gradients)]


class _Moved(NumpyBackend):
    """NumPy with every result moved: what rounding on the way does to what comes out."""

    def __init__(self, moved: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__()
        self._moved = moved

    def call(self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._moved(y) if y.dtype == np.float64 else y for y in super().call(op, attrs, inputs))


def _cancels(node: Operator) -> bool:
    """Whether terms of the gradient cancel that are far larger than it, so that rounding on the way counts.

    Not where a rule compares numbers that it computed: these must not move.
    """
    return node.op.family == "normalization" or node.op.name == "cosine_similarity"
