"""Evaluation step by step, with every value kept and a pullback per step: what gradients and debugging need.

A step is one operator, or one segment on a backend that differentiates segments as a whole. The backward pass visits
the steps in reverse; the contributions to one tensor are summed in that order, so that the same bindings always give
the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.backends.base import Pullback
from metaop.errors import DomainError, FrameworkError, GradientError, MetaopError, UnsupportedOpError
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, RandomData, Variable
from metaop.graph.plan import NativeCache, check_result, converter
from metaop.graph.program import Program, Value, value_of
from metaop.graph.segments import Segment, cause, explain, failing_node
from metaop.types import TensorType, is_floating

__all__ = ["ABSENT", "Step", "Trace", "active_values", "leading_to", "segment_steps", "single_step", "single_steps"]


@dataclass
class Step:
    """One or more operators that are evaluated, and differentiated, at once."""

    backend: Backend
    operators: list[Operator]
    inputs: list[Value]
    outputs: list[Value]
    function: Callable[..., tuple[Any, ...]] | None = None
    #: those of the operator, where it is just one
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def forward(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs."""
        if self.function is not None:
            return self.function(*tensors)
        node = self.operators[0]
        return self.backend.call(node.op.name, self.attrs, list(tensors))

    def linearize(self, tensors: Sequence[Any], wrt: Sequence[int]) -> tuple[tuple[Any, ...], Pullback]:
        """The outputs, and the pullback to the inputs at ``wrt``.

        The pullback of a segment also takes the gradients that those inputs have so far, and returns the new totals:
        the framework adds one contribution after the other, as node by node, and not a sum of its own to the rest.
        """
        if self.function is not None:
            function = self.function

            def with_inputs(*given: Any) -> tuple[Any, ...]:
                return (*function(*given), *(given[i] for i in wrt))

            outputs, pullback = self.backend.linearize_segment(with_inputs, list(tensors), wrt)
            return outputs[: len(self.outputs)], pullback
        node = self.operators[0]
        return self.backend.linearize(node.op.name, self.attrs, list(tensors), wrt)

    def explain(self, error: Exception) -> MetaopError:
        """What to raise for an exception out of this step."""
        node = self.operators[0]
        if self.function is not None:
            failed = failing_node([self.function], error.__traceback__)
            node = node if failed is None else failed
        return explain(error, node, self.backend.spec)

    def explain_gradient(self, error: Exception) -> MetaopError:
        """What to raise for an exception out of this step's pullback."""
        if isinstance(error, GradientError):
            return error
        node = self.operators[0]
        what = f"node {node.name!r} ({node.op.name})" if self.function is None else f"{len(self.operators)} nodes"
        if isinstance(error, MetaopError) and not isinstance(error, FrameworkError):
            return type(error)(f"gradient of {what} on {self.backend.spec}: {error}")
        if isinstance(error, NotImplementedError):
            # The framework's own refusal, as in the forward pass.
            return UnsupportedOpError(f"gradient of {what} on {self.backend.spec}: {error}")
        place = f"the gradient of {what} failed on {self.backend.spec}"
        if isinstance(error, FrameworkError):
            # Kept as it is: that a worker died or hung is not the same as that it raised.
            return error.locate(place, node.name, node.op.name, self.backend.spec)
        return FrameworkError(
            f"{place}: {getattr(error, 'kind', type(error).__name__)}: {error}",
            node=node.name,
            op=node.op.name,
            backend=self.backend.spec,
        )


#: stands for an optional tensor that was left out
ABSENT: Value = (None, 0)  # type: ignore[assignment]


def single_step(program: Program, node: Operator, backend: Backend) -> Step:
    """The step that computes just this operator."""
    inputs = [ABSENT if n is None else value_of(n) for n in node.inputs]
    return Step(backend, [node], inputs, [(node, i) for i in range(len(node.types))], attrs=program.attrs(node))


def single_steps(program: Program, backend_of: Callable[[Operator], Backend]) -> list[Step]:
    """One step per operator."""
    return [single_step(program, node, backend_of(node)) for node in program.operators]


def segment_steps(segments: Iterable[Segment]) -> list[Step]:
    """One step per segment where the backend differentiates segments, one per operator elsewhere."""
    steps: list[Step] = []
    for segment in segments:
        backend = segment.backend
        if backend.differentiates_segments:
            steps.append(
                Step(backend, segment.operators, segment.inputs, segment.outputs, segment.straight_line(backend))
            )
        else:
            steps += [single_step(segment.program, node, backend) for node in segment.operators]
    return steps


def active_values(program: Program, wrt: Collection[Value]) -> set[Value]:
    """The values through which a gradient can flow to ``wrt``: floating, along differentiable operators only."""
    active = set(wrt)
    for node in program.operators:
        if not node.op.differentiable or not any(n is not None and value_of(n) in active for n in node.inputs):
            continue
        for index in range(len(node.types)):
            dtype = program.types[node, index].dtype
            if is_floating(dtype):
                active.add((node, index))
    return active


def leading_to(program: Program, targets: Collection[Value]) -> set[Value]:
    """The values from which a gradient of ``targets`` arrives: :func:`active_values` the other way round."""
    reached = {v for v in targets if is_floating(program.types[v].dtype)}
    for node in reversed(program.operators):
        outputs = [(node, i) for i in range(len(node.types))]
        if node.op.differentiable and any(v in reached and is_floating(program.types[v].dtype) for v in outputs):
            reached.update(value_of(n) for n in node.inputs if n is not None)
    return reached


@dataclass
class Trace:
    """A forward pass with all that a backward pass needs.

    ``values`` maps each value to its tensor and the backend that the tensor belongs to (``None``: an array).
    """

    program: Program
    natives: NativeCache
    values: dict[Value, tuple[Any, Backend | None]] = field(default_factory=dict)
    pullbacks: list[tuple[Step, list[int], Pullback]] = field(default_factory=list)

    # -- forward ------------------------------------------------------------------------------------------------------

    def feed(self, arrays: Mapping[Placeholder, np.ndarray]) -> None:
        """Set the leaves."""
        for node in self.program.order:
            if isinstance(node, Placeholder):
                array = arrays[node]
                dtype = self.program.feeds[node]
                self.values[node, 0] = (array if array.dtype == dtype else array.astype(dtype), None)
            elif isinstance(node, Variable):
                self.values[node, 0] = (node._value, None)
            elif isinstance(node, Constant | RandomData):
                self.values[node, 0] = (self.program.stored[node, 0], None)

    def tensor(self, value: Value, backend: Backend) -> Any:
        """A value as a tensor of ``backend``."""
        if value is ABSENT:
            return None
        tensor, home = self.values[value]
        if home is None:
            if isinstance(value[0], Variable | Constant):
                return self.natives.tensor(value, tensor, backend)
            return backend.from_numpy(tensor)
        cross = converter(home, backend)
        return tensor if cross is None else cross(tensor)

    def array(self, value: Value) -> np.ndarray:
        """A value as an array."""
        tensor, home = self.values[value]
        return tensor if home is None else home.to_numpy(tensor)

    def run(
        self,
        steps: Iterable[Step],
        active: Collection[Value] = (),
        *,
        check_types: bool = False,
        check_domains: bool = False,
    ) -> None:
        """Evaluate the steps in order, keeping a pullback for each that an ``active`` value goes through."""
        for step in steps:
            try:
                tensors = [self.tensor(v, step.backend) for v in step.inputs]
                if check_domains:
                    self._check_domains(step)
                wrt = [i for i, v in enumerate(step.inputs) if v in active] if active else []
                if wrt and any(v in active for v in step.outputs):
                    outputs, pullback = step.linearize(tensors, wrt)
                    self.pullbacks.append((step, wrt, pullback))
                else:
                    outputs = step.forward(tensors)
                if len(outputs) != len(step.outputs):
                    raise FrameworkError(f"returned {len(outputs)} outputs; the operator has {len(step.outputs)}")
                if check_types:
                    self._check_types(step, outputs)
            except Exception as error:
                explained = step.explain(error)
                raise explained from cause(explained, error)
            for value, output in zip(step.outputs, outputs, strict=True):
                self.values[value] = (output, step.backend)

    def _check_types(self, step: Step, outputs: Sequence[Any]) -> None:
        for value, output in zip(step.outputs, outputs, strict=True):
            try:
                dtype, shape = step.backend.type_of(output)
            except Exception as error:
                raise TypeError(
                    f"returned {type(output).__name__}, which is not a tensor of {step.backend.spec}"
                ) from error
            declared = self.program.types[value]
            check_result(value[0], {value[0]: step.backend}, dtype, shape, declared)  # type: ignore[dict-item]

    def _check_domains(self, step: Step) -> None:
        for node in step.operators:
            for index, source in enumerate(node.inputs):
                param = node.op.param_at(index)
                if source is None or param.name not in node.op.domain:
                    continue
                wrong = node.op.domain[param.name].excludes(self.array(value_of(source)))
                if wrong:
                    raise DomainError(f"argument {param.name!r} has {wrong}")

    def settle(self) -> None:
        """Keep every value as an array, so that it outlives the worker that computed it, and no pullback."""
        self.values = {value: (self.array(value), None) for value in self.values}
        self.pullbacks = []

    # -- backward -----------------------------------------------------------------------------------------------------

    def backward(self, seeds: Mapping[Value, np.ndarray], wrt: Collection[Value]) -> dict[Value, np.ndarray]:
        """Gradients with respect to ``wrt`` of the values in ``seeds``, whose own gradients are given."""
        grads: dict[Value, tuple[Any, Backend | None]] = {v: (g, None) for v, g in seeds.items()}
        found: dict[Value, np.ndarray] = {}
        for step, positions, pullback in reversed(self.pullbacks):
            incoming = []
            for value in step.outputs:
                if value in wrt and value in grads:
                    found[value] = _as_array(grads[value])
                held = grads.pop(value, None)
                incoming.append(None if held is None else _as_tensor(held, step.backend))
            if all(g is None for g in incoming):
                continue
            if step.function is not None:
                for position in positions:
                    held = grads.pop(step.inputs[position], None)
                    incoming.append(None if held is None else _as_tensor(held, step.backend))
            try:
                contributions = pullback(incoming)
                for position, gradient in zip(positions, contributions, strict=True):
                    if gradient is not None:
                        value = step.inputs[position]
                        self.check_gradient(step, value, gradient)
                        _add(grads, value, gradient, step.backend)
            except Exception as error:
                explained = step.explain_gradient(error)
                raise explained from cause(explained, error)
        for value, held in grads.items():
            if value in wrt:
                found[value] = _as_array(held)
        return found

    def check_gradient(self, step: Step, value: Value, gradient: Any) -> None:
        """Refuse a gradient that has another dtype or shape than the value it belongs to."""
        declared = self.program.types[value]
        dtype, shape = step.backend.type_of(gradient)
        if not declared.admits(TensorType(dtype, tuple(shape))):
            raise FrameworkError(
                f"the gradient of {value[0].name!r} is {TensorType(dtype, tuple(shape))}; its value is {declared}"
            )


def _as_tensor(held: tuple[Any, Backend | None], backend: Backend) -> Any:
    tensor, home = held
    if home is None:
        return backend.from_numpy(tensor)
    cross = converter(home, backend)
    return tensor if cross is None else cross(tensor)


def _as_array(held: tuple[Any, Backend | None]) -> np.ndarray:
    tensor, home = held
    return tensor if home is None else home.to_numpy(tensor)


def _add(grads: dict[Value, tuple[Any, Backend | None]], value: Value, gradient: Any, backend: Backend) -> None:
    held = grads.get(value)
    if held is None:
        grads[value] = (gradient, backend)
    else:
        grads[value] = (backend.accumulate(_as_tensor(held, backend), gradient), backend)


def connected(program: Program, start: Value, target: Node) -> bool:
    """Whether ``target`` depends on ``start`` at all, differentiably or not."""
    reached = {start}
    for node in program.operators:
        if any(n is not None and value_of(n) in reached for n in node.inputs):
            reached.update((node, i) for i in range(len(node.types)))
    return value_of(target) in reached
