"""A whole run that is kept, so that the run after a swap repeats only what can have changed.

Forward, the swapped nodes and what lies below them are computed again, until values come out with the very same bits.
Backward, the pullbacks whose inputs or incoming gradients changed are. The order of all sums is that of a run from
scratch, and so are the results, bit for bit. A change that raises leaves the state as it was.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.backends.base import Pullback
from metaop.debug.compare import same_bits
from metaop.debug.evaluate import Evaluator, Outcome
from metaop.debug.local import Held, zeros
from metaop.graph.nodes import Operator
from metaop.graph.program import Value, value_of
from metaop.graph.segments import cause
from metaop.graph.trace import Step, Trace, single_step

__all__ = ["Change", "State"]

#: what a pullback gives: per input that it is asked for, a gradient or none
Contributions = list[tuple[Value, Held | None]]


class State:
    """Values, pullbacks and gradients of a run under ``backends``.

    >>> import metaop as mo
    >>> from metaop.backends import get
    >>> w = mo.Variable([1.0, 2.0])
    >>> square = mo.square(w)
    >>> state = State(Evaluator([mo.reduce_sum(square)], {}, 0, True), lambda node: get("numpy"))
    >>> change = state.change({square: get("numpy")})
    >>> change.outcome.outputs, len(change.values)  # same bits: nothing below was computed again
    ([array(5., dtype=float32)], 0)
    """

    def __init__(self, evaluator: Evaluator, backend_of: Callable[[Operator], Backend]) -> None:
        self.evaluator = evaluator
        program = evaluator.program
        self.backends = {node: backend_of(node) for node in program.operators}
        self.values: dict[Value, Held] = {}
        self.pullbacks: dict[Operator, tuple[Step, list[int], Pullback]] = {}
        self.contributions: dict[Operator, Contributions] = {}
        self.gradients: dict[Value, Held | None] = {}
        #: who adds to the gradient of a value, in the order of the backward pass
        self.consumers: dict[Value, list[Operator]] = {}
        for node in reversed(program.operators):
            for value in dict.fromkeys(value_of(n) for n in node.inputs if n is not None):
                self.consumers.setdefault(value, []).append(node)
        trace = Trace(program, evaluator.natives, self.values)
        trace.feed(evaluator.feeds)
        self.seeds: dict[Value, np.ndarray] = {}
        self.outcome = Outcome([], [])
        Change(self, self.backends).commit()

    def change(self, backends: Mapping[Operator, Backend]) -> Change:
        """The same run with some nodes on other backends; nothing here changes before ``commit``."""
        return Change(self, backends)


class Change:
    """What differs from a :class:`State` after some nodes were bound to other backends."""

    def __init__(self, state: State, backends: Mapping[Operator, Backend]) -> None:
        self.state = state
        self.backends = dict(backends)
        self.values: dict[Value, Held] = {}
        self.pullbacks: dict[Operator, tuple[Step, list[int], Pullback]] = {}
        self.contributions: dict[Operator, Contributions] = {}
        self.gradients: dict[Value, Held | None] = {}
        self._trace = Trace(
            state.evaluator.program,
            state.evaluator.natives,
            ChainMap(self.values, state.values),  # type: ignore[arg-type]
        )
        self._forward()
        self.seeds = state.evaluator.seeds(self._trace) if state.evaluator.parameters else {}
        if state.evaluator.parameters:
            self._backward()
        self.outcome = self._outcome()

    def commit(self) -> None:
        """Make this the state."""
        state = self.state
        state.backends.update(self.backends)
        state.values.update(self.values)
        state.pullbacks.update(self.pullbacks)
        state.contributions.update(self.contributions)
        state.gradients.update(self.gradients)
        state.seeds, state.outcome = self.seeds, self.outcome

    # -- forward ------------------------------------------------------------------------------------------------------

    def _forward(self) -> None:
        state, trace = self.state, self._trace
        active = state.evaluator.active if state.evaluator.parameters else ()
        for node in state.evaluator.program.operators:
            backend = self.backends.get(node)
            if backend is None:
                if not any(n is not None and value_of(n) in self.values for n in node.inputs):
                    continue
                backend = state.backends[node]
            trace.run([single_step(state.evaluator.program, node, backend)], active, check_types=True)
            if trace.pullbacks:
                self.pullbacks[node] = trace.pullbacks.pop()
            for index in range(len(node.types)):
                value = (node, index)
                held = self.values[value]
                if not backend.in_process:
                    # So that it outlives the worker that computed it.
                    held = self.values[value] = (backend.to_numpy(held[0]), None)
                if value in state.values and _alike(_array(held), _array(state.values[value])):
                    del self.values[value]

    # -- backward -----------------------------------------------------------------------------------------------------

    def _backward(self) -> None:
        state = self.state
        stale = {v for v, g in self.seeds.items() if v not in state.seeds or state.seeds[v].shape != g.shape}
        for node in reversed(state.evaluator.program.operators):
            held = self.pullbacks.get(node) or state.pullbacks.get(node)
            if held is None:
                continue
            outputs: list[Value] = [(node, i) for i in range(len(node.types))]
            moved = node in self.pullbacks
            for value in outputs:
                if value in stale or value not in state.gradients:
                    moved |= self._sum(value)
            if not moved:
                continue
            new = self._pull(held, [self._gradient(v) for v in outputs])
            old = state.contributions.get(node)
            if old is None:
                stale.update(value for value, _ in new)
            else:
                for position, ((value, now), (_, before)) in enumerate(zip(new, old, strict=True)):
                    if _same(now, before):
                        new[position] = (value, before)
                    else:
                        stale.add(value)
            self.contributions[node] = new
        for parameter in state.evaluator.parameters:
            if parameter in stale or parameter not in state.gradients:
                self._sum(parameter)

    def _gradient(self, value: Value) -> Held | None:
        return self.gradients[value] if value in self.gradients else self.state.gradients.get(value)

    def _sum(self, value: Value) -> bool:
        """Add up the gradient of a value, in the order of a run from scratch; whether it has changed."""
        seed = self.seeds.get(value)
        total: Held | None = None if seed is None else (seed, None)
        for node in self.state.consumers.get(value, ()):
            for target, held in self.contributions.get(node) or self.state.contributions.get(node, []):
                if target != value or held is None:
                    continue
                gradient, backend = held
                if total is None:
                    total = held
                else:
                    home = self.backends.get(node) or self.state.backends[node]
                    total = (home.accumulate(_tensor(total, home), _tensor((gradient, backend), home)), home)
                    if not home.in_process:
                        total = (home.to_numpy(total[0]), None)
        known = value in self.state.gradients
        if known and _same(total, self.state.gradients[value]):
            return False
        self.gradients[value] = total
        return True

    def _pull(self, held: tuple[Step, list[int], Pullback], incoming: list[Held | None]) -> Contributions:
        step, positions, pullback = held
        if all(g is None for g in incoming):
            return [(step.inputs[position], None) for position in positions]
        found: Contributions = []
        try:
            given = [None if g is None else _tensor(g, step.backend) for g in incoming]
            for position, gradient in zip(positions, pullback(given), strict=True):
                value = step.inputs[position]
                if gradient is None:
                    found.append((value, None))
                    continue
                self._trace.check_gradient(step, value, gradient)
                if step.backend.in_process:
                    found.append((value, (gradient, step.backend)))
                else:
                    found.append((value, (step.backend.to_numpy(gradient), None)))
        except Exception as error:
            explained = step.explain_gradient(error)
            raise explained from cause(explained, error)
        return found

    # -- results ------------------------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        evaluator, before = self.state.evaluator, self.state.outcome
        outputs = [
            before.outputs[i] if before.outputs and v not in self.values else np.asarray(self._trace.array(v))
            for i, v in enumerate(evaluator.targets)
        ]
        gradients = []
        for i, value in enumerate(evaluator.parameters):
            if before.gradients and value not in self.gradients:
                gradients.append(before.gradients[i])
                continue
            held = self._gradient(value)
            if held is None:
                gradients.append(zeros(evaluator.program, value, self._trace.array(value)))
            else:
                gradients.append(np.asarray(_array(held)))
        return Outcome(outputs, gradients)


def _array(held: Held) -> np.ndarray:
    tensor, home = held
    return tensor if home is None else home.to_numpy(tensor)


def _tensor(held: Held, backend: Backend) -> Any:
    tensor, home = held
    if home is not None and home.tensor_kind == backend.tensor_kind:
        return tensor
    return backend.from_numpy(_array(held))


def _same(a: Held | None, b: Held | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or _alike(_array(a), _array(b))


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """The same bits in the same order in memory: kernels may sum a transposed array in another order."""
    return same_bits(a, b) and _layout(a) == _layout(b)


def _layout(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1)
