"""One node by itself: computed on a backend from given inputs, and pulled back from given gradients."""

from __future__ import annotations

import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.debug.evaluate import resident_bytes
from metaop.graph.nodes import Operator
from metaop.graph.plan import NativeCache
from metaop.graph.program import Program, Value, value_of
from metaop.graph.trace import Trace, single_step
from metaop.types import is_floating

__all__ = ["Call", "Held", "Local", "call_of", "incoming_gradients", "run_local"]

#: a tensor and the backend that it belongs to (``None``: an array)
Held = tuple[Any, Backend | None]


@dataclass(frozen=True)
class Call:
    """What one node is given: tensors, and which of them it is differentiated by."""

    program: Program
    node: Operator
    #: the distinct values that go in, in the order of the arguments
    inputs: tuple[Value, ...]
    #: those of them through which gradients flow to the parameters
    wrt: tuple[Value, ...]
    held: Mapping[Value, Held]

    def array(self, value: Value) -> np.ndarray:
        """An input as an array."""
        tensor, home = self.held[value]
        return tensor if home is None else home.to_numpy(tensor)

    @property
    def names(self) -> list[str]:
        """What the results of the call are called: outputs first, then gradients."""
        count = len(self.node.types)
        outputs = ["output"] if count == 1 else [f"output {i}" for i in range(count)]
        return outputs + [f"gradient of {name_of(value)}" for value in self.wrt]


@dataclass(frozen=True)
class Local:
    """What one backend made of a call: arrays, in the order of :attr:`Call.names`, and the outputs as its tensors."""

    arrays: list[np.ndarray]
    tensors: list[Held]
    seconds: float
    bytes: int


def name_of(value: Value) -> str:
    """The name of the node that a value is known by in the graph."""
    node, index = value
    results = getattr(node, "results", ())
    return results[index].name if len(results) > 1 else node.name


def call_of(program: Program, node: Operator, active: Collection[Value], held: Mapping[Value, Held]) -> Call:
    """The call of a node whose inputs are in ``held``; it is differentiated by its ``active`` inputs."""
    inputs = tuple(dict.fromkeys(value_of(n) for n in node.inputs if n is not None))
    smooth = any((node, i) in active for i in range(len(node.types)))
    wrt = tuple(v for v in inputs if v in active) if smooth else ()
    return Call(program, node, inputs, wrt, {v: held[v] for v in inputs})


def incoming_gradients(call: Call, outputs: Sequence[np.ndarray], seed: int) -> dict[Value, np.ndarray]:
    """A random gradient for each floating output: wrong gradients can hide behind one that is all ones."""
    if not call.wrt:
        return {}
    rng = np.random.default_rng([seed, zlib.crc32(call.node.name.encode())])
    # Drawn in float32, which is twice as fast.
    return {
        (call.node, i): np.asarray(rng.standard_normal(y.shape, dtype=np.float32)).astype(y.dtype)
        for i, y in enumerate(outputs)
        if is_floating(y.dtype)
    }


def run_local(call: Call, backend: Backend, incoming: Mapping[Value, np.ndarray] | int) -> tuple[Local, dict]:
    """Compute one node on ``backend``, forward and backward, and check the types of all that it returns.

    ``incoming`` are the gradients that arrive at its outputs, or the seed from which they are drawn; they are returned.
    """
    program, node = call.program, call.node
    trace = Trace(program, NativeCache(), dict(call.held))
    held = resident_bytes()
    start = time.perf_counter()
    values: list[Value] = [(node, i) for i in range(len(node.types))]
    trace.run([single_step(program, node, backend)], {*call.wrt, *values} if call.wrt else (), check_types=True)
    arrays = [trace.array(v) for v in values]
    given = incoming_gradients(call, arrays, incoming) if isinstance(incoming, int) else dict(incoming)
    if call.wrt:
        found = trace.backward(given, set(call.wrt))
        arrays += [found[v] if v in found else zeros(program, v, call.array(v)) for v in call.wrt]
    seconds = time.perf_counter() - start
    size = max(0, resident_bytes() - held)
    return Local(arrays, [trace.values[v] for v in values], seconds, size), given


def zeros(program: Program, value: Value, like: np.ndarray) -> np.ndarray:
    """The gradient of what nothing depends on."""
    return np.zeros(like.shape, program.types[value].dtype)
