"""A backend whose framework lives in a worker process.

Its tensors are handles: the data stay in the worker until somebody needs them here. A segment is sent once and then
run by number, so that a chain of operators costs one round trip.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.backends.base import Backend, Pullback
from metaop.backends.bind import Binding, Bindings
from metaop.backends.isolation.process import Launch, RemoteError, Worker, WorkerDied, WorkerTimeout
from metaop.backends.isolation.protocol import encode_attrs, find_dtype
from metaop.errors import FrameworkError, UnsupportedOpError

__all__ = ["IsolatedBackend", "RemoteTensor"]

#: results of at most this many bytes come along with the answer
_SMALL = 4096


class RemoteTensor:
    """A tensor in a worker, or on its way there."""

    __slots__ = ("array", "dtype", "generation", "number", "shape", "unused")

    def __init__(
        self, number: int, dtype: np.dtype, shape: tuple[int, ...], array: np.ndarray | None, unused: list[int]
    ) -> None:
        self.number = number
        #: where the number goes when nobody refers to the tensor any more
        self.unused = unused
        self.dtype = dtype
        self.shape = shape
        #: the data, where this process has them
        self.array = array
        #: which incarnation of the worker holds it; 0 where none does yet
        self.generation = 0

    def __del__(self) -> None:
        self.unused.append(self.number)


class IsolatedBackend(Backend):
    """One framework in a worker; sessions share the worker, and requests wait for each other."""

    in_process = False

    def __init__(self, name: str, launch: Launch) -> None:
        self.name = name
        self.worker = Worker(launch)
        self._numbers = itertools.count(1)
        self._free: list[int] = []
        self._forget: list[int] = []
        self._drop: list[int] = []
        self.device = launch.device
        about = self.worker.start()
        self.gradients = about["gradients"]
        self._version = about["version"]
        self._bfloat16 = about["bfloat16"]
        self.bindings = Bindings(name)
        for op, reason in about["reasons"].items():
            self.bindings.table[op] = Binding(op, None if reason else _remote, reason=reason)

    # -- what every backend has ---------------------------------------------------------------------------------------

    @property
    def spec(self) -> str:
        return self.name

    @property
    def tensor_kind(self) -> str:
        return f"{self.name} #{id(self)}"

    def version(self) -> str:
        return self._version

    def check_device(self) -> None:
        """The worker checks it when it starts."""

    def from_numpy(self, array: np.ndarray) -> RemoteTensor:
        if array.dtype.kind == "V" and not self._bfloat16:
            raise UnsupportedOpError(f"{self.name}: bfloat16 needs the package ml_dtypes in its environment")
        return RemoteTensor(next(self._numbers) * _MOST_OUTPUTS, array.dtype, array.shape, array, self._free)

    def to_numpy(self, tensor: RemoteTensor) -> np.ndarray:
        if tensor.array is None:
            try:
                _, (tensor.array,) = self._request({"do": "fetch"}, [tensor])
            except RemoteError as error:
                # Asked for outside of any operator, where nobody else would make it an error of the framework.
                raise FrameworkError(f"{self.name}: a result cannot be fetched: {error.kind}: {error}") from error
        return tensor.array

    def type_of(self, tensor: RemoteTensor) -> tuple[np.dtype, tuple[int, ...]]:
        return tensor.dtype, tensor.shape

    def accumulate(self, a: RemoteTensor, b: RemoteTensor) -> RemoteTensor:
        # Addition rounds alike everywhere; here it needs no binding of the framework under test.
        return self.from_numpy(np.add(self.to_numpy(a), self.to_numpy(b)))

    def close(self) -> None:
        """End the worker; the next request starts a new one."""
        self.worker.stop()

    # -- operators ----------------------------------------------------------------------------------------------------

    def prepare(
        self, op: str, attrs: Mapping[str, Any], types: Sequence[Any] | None
    ) -> tuple[Callable[..., Any], dict[str, Any]]:
        self.bindings.find(op)
        encoded = encode_attrs(dict(attrs))

        def call(*inputs: Any) -> Any:
            outputs = self._compute({"do": "call", "op": op, "attrs": encoded, "small": _SMALL}, inputs)
            return outputs[0] if len(outputs) == 1 else outputs

        return call, {}

    def call(self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        self.bindings.find(op)
        return self._compute({"do": "call", "op": op, "attrs": encode_attrs(dict(attrs)), "small": _SMALL}, inputs)

    def linearize(
        self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> tuple[tuple[Any, ...], Pullback]:
        if self.gradients != "native":
            return super().linearize(op, attrs, inputs, wrt)
        self.bindings.find(op)
        number = next(self._numbers)
        request = {
            "do": "linearize",
            "op": op,
            "attrs": encode_attrs(dict(attrs)),
            "wrt": list(wrt),
            "pullback": number,
        }
        outputs = self._compute(dict(request, small=_SMALL), inputs)
        generation = self.worker.generation

        def pullback(grads: Sequence[Any]) -> list[Any]:
            if self.worker.generation != generation:
                raise WorkerDied(f"{self.name}: the worker died and took the recorded forward pass with it")
            return list(self._compute({"do": "pull", "pullback": number, "small": _SMALL}, grads))

        weakref.finalize(pullback, self._forget.append, number)
        return outputs, pullback

    def compile(self, segment: Any) -> Callable[..., tuple[Any, ...]]:
        return Program(self, segment)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _request(self, header: dict[str, Any], inputs: Sequence[Any]) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Send a request, with the data of all inputs that the worker does not hold yet."""
        with self.worker.lock:
            self.worker.start()
            generation = self.worker.generation
            put: list[RemoteTensor] = []
            for tensor in inputs:
                if tensor is not None and tensor.generation != generation and tensor not in put:
                    if tensor.array is None:
                        raise WorkerDied(f"{self.name}: the worker died and took a tensor of this computation with it")
                    put.append(tensor)
            request = header
            request["inputs"] = [None if t is None else t.number for t in inputs]
            if put:
                request["put"] = [t.number for t in put]
            for key, pending in (("free", self._free), ("forget", self._forget), ("drop", self._drop)):
                if pending:
                    request[key], pending[:] = pending[:], []
            answer, arrays = self.worker.request(request, [t.array for t in put])  # type: ignore[misc]
            for tensor in put:
                tensor.generation = generation
            return answer, arrays

    def _compute(self, header: dict[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """A request whose outputs stay in the worker, under numbers that follow each other."""
        first = next(self._numbers) * _MOST_OUTPUTS
        header["outputs"] = first
        answer, arrays = self._request(header, inputs)
        data = dict(zip(answer["sent"], arrays, strict=True))
        generation = self.worker.generation
        outputs: list[Any] = []
        for index, (dtype, shape) in enumerate(answer["types"]):
            tensor = RemoteTensor(first + index, find_dtype(dtype), tuple(shape), data.get(index), self._free)
            tensor.generation = generation
            outputs.append(tensor)
        for position in answer.get("absent", ()):
            outputs.insert(position, None)
        return tuple(outputs)


#: more outputs than this no segment has; the numbers of one request's outputs follow each other
_MOST_OUTPUTS = 1 << 20


def _remote(*tensors: Any, **attrs: Any) -> Any:
    raise NotImplementedError("computed in the worker")


class Program:
    """A segment that a worker knows by number."""

    def __init__(self, backend: IsolatedBackend, segment: Any) -> None:
        self.backend = backend
        self.operators = list(segment.operators)
        self.number = next(backend._numbers)
        self._generation = 0
        slots = {value: i for i, value in enumerate(segment.inputs)}
        self._arguments = list(range(len(slots)))
        last: dict[Any, int] = {}
        for position, node in enumerate(self.operators):
            for source in node.inputs:
                if source is not None:
                    last[source.producer, source.index] = position
        keep = set(segment.outputs)
        self._steps = []
        for position, node in enumerate(self.operators):
            used = [None if n is None else (n.producer, n.index) for n in node.inputs]
            inputs = [None if v is None else slots[v] for v in used]
            results = [(node, i) for i in range(len(node.types))]
            for value in results:
                slots[value] = len(slots)
            dead = {v for v in used if v is not None and last[v] == position and v not in keep}
            dead |= {v for v in results if v not in last and v not in keep}
            backend.bindings.find(node.op.name)
            self._steps.append(
                [
                    node.op.name,
                    encode_attrs(segment.program.attrs(node)),
                    inputs,
                    [slots[v] for v in results],
                    [slots[v] for v in dead],
                ]
            )
        self._results = [slots[v] for v in segment.outputs]

        weakref.finalize(self, backend._drop.append, self.number)

    def ensure(self) -> None:
        """Send the program unless this incarnation of the worker has it."""
        with self.backend.worker.lock:
            self.backend.worker.start()
            if self._generation != self.backend.worker.generation:
                header = {
                    "do": "program",
                    "id": self.number,
                    "steps": self._steps,
                    "arguments": self._arguments,
                    "results": self._results,
                }
                try:
                    self.backend._request(header, [])
                except (RemoteError, UnsupportedOpError) as error:
                    self._locate(error, getattr(error, "step", None))
                    raise
                self._generation = self.backend.worker.generation

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        """The outputs, whose data come along: they are what others need."""
        with self.backend.worker.lock:
            self.ensure()
            try:
                return self.backend._compute({"do": "run", "id": self.number, "fetch": True}, tensors)
            except (RemoteError, UnsupportedOpError) as error:
                self._locate(error, getattr(error, "step", None))
                raise
            except (WorkerDied, WorkerTimeout) as error:
                self._locate(error, self.backend.worker.last_step)
                raise

    def _locate(self, error: Exception, step: int | None) -> None:
        """Say which node failed."""
        if step is not None and 0 <= step < len(self.operators):
            error.operator = self.operators[step]  # type: ignore[attr-defined]
