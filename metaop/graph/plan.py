"""Plans: a program under given bindings, compiled to one generated function from fed arrays to fetched arrays.

A plan holds for one set of targets, one signature of feeds and one binding of every node. What can be done once is done
when the plan is made: order, types, segments, conversion of constants and variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy import may_share_memory

from metaop.backends import Backend
from metaop.errors import FrameworkError, MetaopError
from metaop.graph.nodes import Epoch, Operator, Placeholder, Variable
from metaop.graph.program import Program, Value
from metaop.graph.segments import Segment, Source, cause, explain, failing_node, partition
from metaop.types import TensorType

__all__ = ["NativeCache", "Plan", "check_result", "converter"]


class NativeCache:
    """Variables and constants as native tensors, converted once per backend and per value."""

    def __init__(self) -> None:
        self._tensors: dict[tuple[Value, str], tuple[np.ndarray, Any]] = {}

    def tensor(self, value: Value, array: np.ndarray, backend: Backend) -> Any:
        """``array``, which is the present content of ``value``, as a tensor of ``backend``."""
        key = (value, backend.tensor_kind)
        held = self._tensors.get(key)
        if held is None or held[0] is not array:
            held = self._tensors[key] = (array, backend.from_numpy(array))
        return held[1]


def converter(source: Backend, destination: Backend) -> Callable[[Any], Any] | None:
    """How a tensor crosses from one backend to another, every bit kept; ``None`` where it can be passed as it is."""
    if source.tensor_kind == destination.tensor_kind:
        return None
    to_numpy, from_numpy = source.to_numpy, destination.from_numpy

    def cross(tensor: Any) -> Any:
        return from_numpy(to_numpy(tensor))

    return cross


class Plan:
    """A compiled run; see the module's docstring."""

    def __init__(
        self,
        program: Program,
        backend_of: Callable[[Operator], Backend],
        natives: NativeCache,
        fetches: Sequence[Value],
    ) -> None:
        self.program = program
        self.bindings = {node: backend_of(node) for node in program.operators}
        self.epoch = Epoch.now
        self.placeholders = [p for p in program.order if isinstance(p, Placeholder)]
        self._casts = [(i, program.feeds[p]) for i, p in enumerate(self.placeholders) if p.type.dtype is None]
        self._natives = natives
        self._variables: list[tuple[str, Variable, Backend]] = []
        self._stored: list[np.ndarray] = []
        self._fetched = [program.types[v] for v in fetches]
        self._fetch_nodes = [v[0] for v in fetches]
        self._segments = partition(program, self.bindings.__getitem__)
        self._functions: list[Callable[..., Any]] = []
        self._function = self._compile(list(fetches))
        self.refresh()

    # -- compiling ----------------------------------------------------------------------------------------------------

    def _compile(self, fetches: list[Value]) -> Callable[..., tuple[np.ndarray, ...]]:
        source = Source(f"{len(self.program.operators)} nodes")
        self._globals = source.globals
        # (value, tensor kind) -> name, and the backend that made the tensor
        have: dict[tuple[Value, str], str] = {}
        maker: dict[tuple[Value, str], Backend] = {}
        arrays: dict[Value, str] = {(p, 0): source.local() for p in self.placeholders}
        source.open("plan", list(arrays.values()))
        for number, segment in enumerate(self._segments):
            later = {v for s in self._segments[number + 1 :] for v in s.inputs} | set(fetches)
            names = self._enter(source, segment, have, maker, arrays)
            self._emit(source, segment, names, keep=later | self._unowned(names))
            kind = segment.backend.tensor_kind
            for value in segment.outputs:
                have[value, kind], maker[value, kind] = names[value], segment.backend
            self._drop(source, have, names, kind, later)
        results = [self._leave(source, v, have, maker, arrays) for v in fetches]
        source.line("return (" + "".join(f"{name}, " for name in results) + ")")
        function = source.build("plan")
        self._functions.append(function)
        return function

    def _unowned(self, names: dict[Value, str]) -> set[Value]:
        """Values whose names are globals, or arrays of the caller: never to be deleted by a segment."""
        return {v for v in names if not isinstance(v[0], Operator)}

    def _enter(
        self,
        source: Source,
        segment: Segment,
        have: dict[tuple[Value, str], str],
        maker: dict[tuple[Value, str], Backend],
        arrays: dict[Value, str],
    ) -> dict[Value, str]:
        """Names, in the segment's kind of tensors, of all that it needs; conversions are written where they are due."""
        backend, kind, names = segment.backend, segment.backend.tensor_kind, {}
        for value in segment.inputs:
            if (value, kind) not in have:
                node = value[0]
                if isinstance(node, Operator):
                    key = next(k for k in have if k[0] == value)
                    cross = converter(maker[key], backend)
                    have[value, kind] = source.local()
                    source.line(f"{have[value, kind]} = {source.constant(cross, 'cross')}({have[key]})", node)
                elif isinstance(node, Placeholder):
                    have[value, kind] = source.local()
                    entry = source.constant(backend.from_numpy, "enter")
                    source.line(f"{have[value, kind]} = {entry}({arrays[value]})")
                else:
                    have[value, kind] = self._stored_name(source, value, backend)
                maker[value, kind] = backend
            names[value] = have[value, kind]
        return names

    def _stored_name(self, source: Source, value: Value, backend: Backend) -> str:
        """A global that holds a variable or a constant; variables are filled in by :meth:`refresh`."""
        name = f"stored{len(source.globals)}"
        if isinstance(value[0], Variable):
            self._variables.append((name, value[0], backend))
            source.globals[name] = None
        else:
            array = self.program.stored[value]
            self._stored.append(array)
            source.globals[name] = self._natives.tensor(value, array, backend)
        return name

    def _emit(self, source: Source, segment: Segment, names: dict[Value, str], keep: set[Value]) -> None:
        if type(segment.backend).compile is Backend.compile:
            segment.emit(source, segment.backend, names, keep)
            return
        function = segment.backend.compile(segment)
        self._functions.append(function)
        arguments = ", ".join(names[v] for v in segment.inputs)
        for value in segment.outputs:
            names[value] = source.local()
        results = "".join(names[v] + ", " for v in segment.outputs) or "_"
        source.line(f"{results} = {source.constant(function, 'segment')}({arguments})", segment.operators[-1])

    def _drop(
        self, source: Source, have: dict[tuple[Value, str], str], names: dict[Value, str], kind: str, later: set[Value]
    ) -> None:
        """Forget tensors that nothing needs any more; those that the segment did not delete itself are deleted here."""
        gone = []
        for value, held in list(have):
            if value in later or not isinstance(value[0], Operator):
                continue
            name = have.pop((value, held))
            if held != kind or value in names:
                gone.append(name)
        source.release(gone)
        source.delete_released()

    def _leave(
        self,
        source: Source,
        value: Value,
        have: dict[tuple[Value, str], str],
        maker: dict[tuple[Value, str], Backend],
        arrays: dict[Value, str],
    ) -> str:
        node = value[0]
        if isinstance(node, Operator):
            key = next(k for k in have if k[0] == value)
            name = source.local()
            source.line(f"{name} = {source.constant(maker[key].to_numpy, 'leave')}({have[key]})", node)
            return name
        if isinstance(node, Placeholder):
            return arrays[value]
        if isinstance(node, Variable):
            name = f"stored{len(source.globals)}"
            source.globals[name] = None
            self._variables.append((name, node, _NUMPY))
            return name
        return source.constant(self.program.stored[value], "constant")

    # -- running ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take over the present values of all variables."""
        arrays = {variable: variable._value for _, variable, _ in self._variables}
        for name, variable, backend in self._variables:
            array = arrays[variable]
            self._globals[name] = array if backend is _NUMPY else self._natives.tensor((variable, 0), array, backend)
        self._owned = self._stored + list(arrays.values())
        self._owned_ids = {id(array) for array in self._owned}

    def arranged(self, nodes: list[Placeholder], arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The arrays fed for ``nodes``, in the order of ``placeholders`` and in the dtypes that they enter with."""
        if nodes != self.placeholders:
            fed = dict(zip(nodes, arrays, strict=True))
            arrays = [fed[p] for p in self.placeholders]
        for index, dtype in self._casts:
            if arrays[index].dtype != dtype:
                arrays[index] = arrays[index].astype(dtype)
        return arrays

    # Short up to where the backend is called, as is Session.run: see segments.py on what a long function costs.
    def run(self, feeds: list[np.ndarray]) -> list[np.ndarray]:
        """The fetched values for these feeds, which are arranged."""
        try:
            found = self._function(*feeds)
        except Exception as error:
            explained = self.explain(error)
            raise explained from cause(explained, error)
        return self._results(found, feeds)

    def _results(self, found: tuple[np.ndarray, ...], feeds: list[np.ndarray]) -> list[np.ndarray]:
        """What was found, checked, and shared with nobody."""
        results: list[np.ndarray] = []
        for array, declared, node in zip(found, self._fetched, self._fetch_nodes, strict=True):
            if array.dtype != declared.dtype or array.shape != declared.shape:
                check_result(node, self.bindings, array.dtype, array.shape, declared)
            if self._is_shared(array, feeds, results):
                array = array.copy()
            results.append(array)
        return results

    def _is_shared(self, array: np.ndarray, feeds: list[np.ndarray], results: list[np.ndarray]) -> bool:
        """Whether a result aliases what was fed, what a node holds or another result, or repeats its own memory."""
        flags = array.flags
        if not flags.carray:
            return True
        if flags.owndata:
            # What else has this memory is either this very array or a view of it.
            shared = id(array) in self._owned_ids or id(array) in map(id, feeds)
        else:
            shared = _shares(array, feeds) or _shares(array, self._owned)
        return shared or _shares(array, results)

    def explain(self, error: Exception) -> MetaopError:
        """What to raise for an exception that came out of the generated code."""
        node = failing_node(self._functions, error.__traceback__)
        return explain(error, node, None if node is None else self.bindings[node].spec)


class _Numpy:
    """Marks a variable that is fetched as it is."""


_NUMPY: Any = _Numpy()


def _shares(array: np.ndarray, others: Iterable[np.ndarray]) -> bool:
    # Not any(): at each run, a generator would take longer than what it looks for.
    for other in others:  # noqa: SIM110
        if may_share_memory(array, other):
            return True
    return False


def check_result(
    node: Any, bindings: dict[Operator, Backend], dtype: np.dtype, shape: tuple[int, ...], declared: TensorType
) -> None:
    """Refuse a value whose dtype or shape is not what the operator's rule says."""
    if declared.admits(TensorType(dtype, tuple(shape))):
        return
    backend = bindings[node].spec
    raise FrameworkError(
        f"node {node.name!r} ({node.op.name} on {backend}) returned {TensorType(dtype, tuple(shape))}; "
        f"the operator's rule says {declared}",
        node=node.name,
        op=node.op.name,
        backend=backend,
    )
