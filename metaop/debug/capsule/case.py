"""What a capsule holds: some operators, their data, two backends, and what these make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.backends.base import Variant
from metaop.debug.capsule.recorder import Recorder
from metaop.errors import FrameworkError, UnsupportedOpError, UsageError
from metaop.graph.nodes import Node, Operator
from metaop.graph.program import Value, value_of
from metaop.ops import MetaOp
from metaop.types import TensorType, is_floating

__all__ = ["Case", "Got", "Step", "evaluate"]


@dataclass(frozen=True)
class Step:
    """One operator of a case: where its inputs come from, and which of them have a gradient that is asked for."""

    op: MetaOp
    attrs: Mapping[str, Any]
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    wrt: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """A difference between two backends: the operators around it, and everything that goes into them.

    ``inputs`` are the values that the nodes read and do not compute; ``outputs`` are compared, and so are the gradients
    of the inputs in ``wrt``, for the gradients that arrive at the outputs according to ``incoming``. In ``expected``,
    as in every file of a capsule, ``"output 0"`` is the value of ``outputs[0]``, ``"gradient 0"`` the gradient of
    ``wrt[0]``, ``"input 0"`` the first of ``inputs`` and ``"incoming 0"`` what arrives at ``outputs[0]``.
    """

    nodes: tuple[Operator, ...]
    attrs: Mapping[Operator, Mapping[str, Any]]
    inputs: Mapping[Value, np.ndarray]
    outputs: tuple[Value, ...]
    incoming: Mapping[Value, np.ndarray]
    wrt: tuple[Value, ...]
    backends: tuple[Backend, Backend]
    expected: Mapping[str, np.ndarray]
    blame: str | None
    title: str
    evidence: Sequence[str]

    def __post_init__(self) -> None:
        if not self.nodes or len(self.backends) != 2:
            raise UsageError("a capsule is of one operator or more, on two backends")
        known = set(self.inputs)
        for node in self.nodes:
            for source in node.inputs:
                if source is not None and value_of(source) not in known:
                    raise UsageError(
                        f"a capsule needs the data of all that its operators read: {node.name!r} reads "
                        f"{source.name!r}, which is neither an input nor computed before it"
                    )
            known.update((node, i) for i in range(len(node.types)))
        for what, values, among in (("output", self.outputs, known), ("wrt", self.wrt, set(self.inputs))):
            for value in values:
                if value not in among:
                    raise UsageError(f"a capsule cannot compare {what} {value[0].name!r}: it is no part of it")
        if set(self.incoming) - set(self.outputs):
            raise UsageError("a capsule's incoming gradients are those of its outputs")
        if self.wrt and not self.incoming:
            raise UsageError("a capsule compares gradients for given incoming ones: there are none")
        for value, array in self.incoming.items():
            declared, given = self.types[value], TensorType(np.asarray(array).dtype, np.asarray(array).shape)
            if not declared.admits(given):
                raise UsageError(f"the gradient that arrives at {value[0].name!r} is {given}; the value is {declared}")

    @cached_property
    def types(self) -> dict[Value, TensorType]:
        """The type of every value, as the operators' rules have it."""
        found = {value: TensorType(a.dtype, a.shape) for value, a in self.inputs.items()}
        for node in self.nodes:
            given = [None if n is None else found[value_of(n)] for n in node.inputs]
            for index, known in enumerate(node.op.infer(given, self.attrs[node])):
                found[node, index] = known
        return found

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The operators in order, with the inputs through which a gradient goes."""
        active = {v for v in self.wrt if is_floating(self.types[v].dtype)}
        found = []
        for node in self.nodes:
            inputs = tuple(None if n is None else value_of(n) for n in node.inputs)
            outputs = tuple((node, i) for i in range(len(node.types)))
            wrt = tuple(i for i, v in enumerate(inputs) if v in active) if node.op.differentiable else ()
            smooth = {v for v in outputs if is_floating(self.types[v].dtype)}
            if not smooth:
                wrt = ()
            if wrt:
                active |= smooth
            found.append(Step(node.op, dict(self.attrs[node]), inputs, outputs, wrt))
        return tuple(found)

    @cached_property
    def data(self) -> dict[str, np.ndarray]:
        """What goes in, by the names that it has in the files."""
        found = {f"input {i}": np.asarray(a) for i, a in enumerate(self.inputs.values())}
        for i, value in enumerate(self.outputs):
            if value in self.incoming:
                found[f"incoming {i}"] = np.asarray(self.incoming[value])
        return found


@dataclass
class Got:
    """What a backend makes of a case: arrays by name, or why there are none."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    failure: str | None = None
    #: the same as nodes of a graph, where the gradients are derived
    graph: dict[str, Node] | None = None


def evaluate(case: Case, backend: Backend) -> Got:
    """Run a case on a backend, operator by operator; a failure of the framework is a result too."""
    traced = _traced(case, backend)
    try:
        with np.errstate(all="ignore"):
            found = _run(case, traced)
    except (FrameworkError, UnsupportedOpError) as error:
        return Got(failure=_one_line(error))
    except Exception as error:  # whatever class a framework's own errors have
        if isinstance(error, AssertionError):
            raise
        return Got(failure=_one_line(error))
    if isinstance(traced, Recorder):
        return Got(
            {k: traced.to_numpy(v).copy() for k, v in found.items()}, graph={k: v.node for k, v in found.items()}
        )
    return Got({k: np.array(backend.to_numpy(v)) for k, v in found.items()})


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _traced(case: Case, backend: Backend) -> Backend:
    """The backend, or one that also notes down how its gradients are derived."""
    base = backend.base if isinstance(backend, Variant) else backend
    custom = backend.custom if isinstance(backend, Variant) else {}
    if base.gradients == "native" or any(s.op.name in custom for s in case.steps):
        return backend
    return Recorder(backend)


def _run(case: Case, backend: Backend) -> dict[str, Any]:
    names = {v: f"input_{i}" for i, v in enumerate(case.inputs)}
    held: dict[Value, Any] = {}
    for value, array in case.inputs.items():
        held[value] = _enter(backend, array, names[value])
    pullbacks = []
    for step in case.steps:
        given = [None if v is None else held[v] for v in step.inputs]
        if step.wrt:
            outputs, pullback = backend.linearize(step.op.name, step.attrs, given, step.wrt)
            pullbacks.append((step, pullback))
        else:
            outputs = backend.call(step.op.name, step.attrs, given)
        if len(outputs) != len(step.outputs):
            raise FrameworkError(f"{step.op.name} returned {len(outputs)} outputs; it has {len(step.outputs)}")
        held.update(zip(step.outputs, outputs, strict=True))
    found = {f"output {i}": held[v] for i, v in enumerate(case.outputs)}
    grads: dict[Value, Any] = {}
    for i, value in enumerate(case.outputs):
        if value in case.incoming and is_floating(case.types[value].dtype):
            grads[value] = _enter(backend, case.incoming[value], f"incoming_{i}")
    for step, pullback in reversed(pullbacks):
        incoming = [grads.get(v) for v in step.outputs]
        if all(g is None for g in incoming):
            continue
        for position, gradient in zip(step.wrt, pullback(incoming), strict=True):
            source = step.inputs[position]
            if gradient is not None and source is not None:
                grads[source] = backend.accumulate(grads[source], gradient) if source in grads else gradient
    for i, value in enumerate(case.wrt):
        zeros = None if value in grads else np.zeros_like(np.asarray(case.inputs[value]))
        found[f"gradient {i}"] = grads[value] if zeros is None else backend.from_numpy(zeros)
    return found


def _enter(backend: Backend, array: np.ndarray, name: str) -> Any:
    return backend.enter(array, name) if isinstance(backend, Recorder) else backend.from_numpy(np.asarray(array))
