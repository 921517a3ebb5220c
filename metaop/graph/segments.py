"""Segments: maximal runs of operators on one backend, and the straight-line Python that computes them.

A segment becomes one generated function with a line per operator. Each local name is reused or deleted as soon as its
tensor is dead, so that memory is freed at once; the number of the failing line tells which node failed, at no cost
while nothing fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from metaop.backends import Backend
from metaop.errors import FrameworkError, InternalError, MetaopError, UnsupportedOpError, UserError
from metaop.graph.nodes import Node, Operator
from metaop.graph.order import predecessors
from metaop.graph.program import Program, Value, value_of

__all__ = ["Segment", "Source", "cause", "explain", "failing_node", "partition"]


@dataclass
class Segment:
    """Operators that one backend runs as a whole, what they need from outside, and what others need of them."""

    backend: Backend
    program: Program
    operators: list[Operator] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)

    def straight_line(self, backend: Backend) -> Callable[..., tuple[Any, ...]]:
        """The generated function over the backend's bindings: input tensors in, a tuple of output tensors out."""
        source = Source(f"{len(self.operators)} nodes on {backend.spec}")
        names = {value: source.local() for value in self.inputs}
        source.open("segment", list(names.values()))
        self.emit(source, backend, names, keep=set(self.outputs))
        source.line("return (" + "".join(f"{names[v]}, " for v in self.outputs) + ")")
        return source.build("segment")

    def emit(self, source: Source, backend: Backend, names: dict[Value, str], keep: Collection[Value]) -> None:
        """Write the operators' lines; ``names`` maps live values to local names and is updated."""
        last = {value_of(n): op for op in self.operators for n in op.inputs if n is not None}
        for node in self.operators:
            try:
                function, keywords = backend.prepare(
                    node.op.name, self.program.attrs(node), self.program.input_types(node)
                )
            except Exception as error:
                explained = explain(error, node, backend.spec)
                raise explained from cause(explained, error)
            used = [None if n is None else value_of(n) for n in node.inputs]
            arguments = ["None" if v is None else names[v] for v in used]
            arguments += [f"{k}={source.literal(v)}" for k, v in keywords.items()]
            call = f"{source.constant(function, 'f')}({', '.join(arguments)})"
            dead = [v for v in dict.fromkeys(used) if v is not None and last[v] is node and v not in keep]
            source.release(names.pop(v) for v in dead)
            results = [(node, i) for i in range(len(node.types))]
            for value in results:
                names[value] = source.local()
            if node.results == (node,):
                source.line(f"{names[results[0]]} = {call}", node)
            else:
                source.line(f"{''.join(names[v] + ', ' for v in results)}= {call}", node)
            unused = [v for v in results if v not in last and v not in keep]
            source.release(names.pop(v) for v in unused)
            source.delete_released()
            source.pause(backend.lines_per_function)


def partition(
    program: Program, backend_of: Callable[[Operator], Backend], cut_after: Collection[Value] = ()
) -> list[Segment]:
    """The program's operators as segments, in an order that keeps one backend as long as predecessors allow.

    No segment goes on past a value of ``cut_after``, so that such a value always crosses a border.
    """
    waiting: dict[Operator, int] = {}
    consumers: dict[Any, list[Operator]] = {}
    for node in program.operators:
        operators = _operators_before(node)
        waiting[node] = len(operators)
        for producer in operators:
            consumers.setdefault(producer, []).append(node)
    position = {node: i for i, node in enumerate(program.operators)}
    ready = [node for node in program.operators if waiting[node] == 0]
    segments: list[Segment] = []
    cut = {producer for producer, _ in cut_after}
    closed: set[Operator] = set()
    while ready:
        current = segments[-1] if segments else None
        choice = next(
            (n for n in ready if current is not None and backend_of(n) is current.backend and not _past_cut(n, closed)),
            None,
        )
        if choice is None:
            choice = ready[0]
            current = Segment(backend_of(choice), program)
            segments.append(current)
            closed.clear()
        assert current is not None
        ready.remove(choice)
        current.operators.append(choice)
        if choice in cut:
            closed.add(choice)
        for consumer in consumers.get(choice, ()):
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
        ready.sort(key=position.__getitem__)
    _connect(program, segments)
    return segments


def _operators_before(node: Operator) -> set[Operator]:
    """The operators that must have run, also those that a leaf among the inputs waits for."""
    found: set[Operator] = set()
    stack = predecessors(node)
    seen: set[Node] = set()
    while stack:
        needed = stack.pop()
        if isinstance(needed, Operator):
            found.add(needed)
        elif needed not in seen:
            seen.add(needed)
            stack += needed.controls
    return found


def _past_cut(node: Operator, closed: set[Operator]) -> bool:
    return bool(closed) and any(n is not None and n.producer in closed for n in node.inputs)


def _connect(program: Program, segments: Iterable[Segment]) -> None:
    """Fill in what crosses each segment's borders."""
    home = {node: segment for segment in segments for node in segment.operators}
    wanted: dict[Value, None] = {value_of(t): None for t in program.targets}
    for node in program.operators:
        for source in node.inputs:
            if source is None:
                continue
            value = value_of(source)
            here = home[node]
            if home.get(value[0]) is not here:  # type: ignore[call-overload]
                if value not in here.inputs:
                    here.inputs.append(value)
                wanted[value] = None
    for value in wanted:
        if isinstance(value[0], Operator):
            home[value[0]].outputs.append(value)


_serial = itertools.count(1)


class _Shown:
    """How tracebacks find the generated lines, when and only when they ask; what they remember is theirs to drop."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, name: str) -> str:
        return self._text


class Source:
    """Writes one Python function line by line; a long one in parts, which hand over what is alive."""

    def __init__(self, title: str) -> None:
        self.filename = f"metaop generated {next(_serial)}: {title}"
        self.lines: list[str] = []
        self.nodes: list[Operator | None] = []
        self.globals: dict[str, Any] = {"nan": math.nan, "inf": math.inf}
        self._functions: dict[int, str] = {}
        self._free: list[str] = []
        self._released: list[str] = []
        self._alive: dict[str, None] = {}
        self._parts: list[str] = []
        self._start = 0
        self._count = itertools.count()

    def local(self) -> str:
        """A local name: one whose tensor just died, one freed earlier, or a new one."""
        if self._released:
            return self._released.pop(0)
        name = self._free.pop() if self._free else f"t{next(self._count)}"
        self._alive[name] = None
        return name

    def release(self, names: Iterable[str]) -> None:
        """The tensors under these names are dead after the next line."""
        self._released += names

    def delete_released(self) -> None:
        """Delete dead names that no result took over."""
        if self._released:
            self.line("del " + ", ".join(self._released))
            self._free += self._released
            for name in self._released:
                del self._alive[name]
            self._released = []

    def pause(self, lines: int | None) -> None:
        """Between two lines, when every name in use has its tensor: go on in another part after so many lines."""
        if lines is None or len(self.lines) - self._start <= lines:
            return
        alive = ", ".join(self._alive)
        self.line(f"return [{alive}]")
        self._start = len(self.lines)
        self._parts.append(f"part{len(self._parts)}")
        self.open(self._parts[-1], ["alive"])
        self.line(f"[{alive}] = alive")
        # The caller has the list too, and must not keep the tensors.
        self.line("alive.clear()")

    def constant(self, value: Any, hint: str) -> str:
        """A global name for an object; the same object gets the same name."""
        name = self._functions.get(id(value))
        if name is None:
            name = f"{hint}{len(self._functions)}"
            self._functions[id(value)] = name
            self.globals[name] = value
        return name

    def literal(self, value: Any) -> str:
        """Python source for an attribute value."""
        if value is None or isinstance(value, bool | int | float | str):
            return repr(value)
        if isinstance(value, tuple):
            return "(" + "".join(self.literal(item) + ", " for item in value) + ")"
        return self.constant(value, "k")

    def open(self, name: str, parameters: Sequence[str]) -> None:
        """Write the head of the function."""
        self.lines.append(f"def {name}({', '.join(parameters)}):")
        self.nodes.append(None)

    def line(self, text: str, node: Operator | None = None) -> None:
        """Write a line of the body, which computes ``node``."""
        self.lines.append("    " + text)
        self.nodes.append(node)

    def build(self, name: str) -> Callable[..., Any]:
        """Compile; tracebacks show the generated lines."""
        text = "\n".join(self.lines) + "\n"
        self.globals.update(__name__=self.filename, __loader__=_Shown(text))
        try:
            exec(compile(text, self.filename, "exec"), self.globals)
        except SyntaxError as error:
            raise InternalError(f"generated code does not compile: {error}\n{text}") from error
        function = self.globals[name]
        if self._parts:
            function = _in_turn(function, [self.globals[part] for part in self._parts])
        function.metaop_nodes = self.nodes
        function.metaop_filename = self.filename
        return function


def _in_turn(first: Callable[..., Any], rest: list[Callable[..., Any]]) -> Callable[..., Any]:
    """The function whose parts these are."""

    def run(*tensors: Any) -> Any:
        alive = first(*tensors)
        for part in rest:
            alive = part(alive)
        return alive

    return run


def failing_node(functions: Iterable[Callable[..., Any]], traceback: TracebackType | None) -> Operator | None:
    """Which node an exception comes from, told by the generated line that was running."""
    by_file: Mapping[str, list[Operator | None]] = {
        f.metaop_filename: f.metaop_nodes  # type: ignore[attr-defined]
        for f in functions
        if hasattr(f, "metaop_filename")
    }
    while traceback is not None:
        nodes = by_file.get(traceback.tb_frame.f_code.co_filename)
        if nodes is not None and nodes[traceback.tb_lineno - 1] is not None:
            return nodes[traceback.tb_lineno - 1]
        traceback = traceback.tb_next
    return None


def explain(error: Exception, node: Operator | None, backend: str | None) -> MetaopError:
    """The exception to raise for one that came out of a backend while ``node`` was computed."""
    # A worker that ran a whole segment says itself which operator failed.
    node = getattr(error, "operator", node)
    if node is None:
        if isinstance(error, MetaopError):
            return error
        return InternalError(f"unexpected {type(error).__name__} outside of any node: {error}")
    place = f"node {node.name!r} ({node.op.name} on {backend})"
    if isinstance(error, FrameworkError):
        if error.node is not None:
            return error
        return error.locate(place, node.name, node.op.name, backend)
    if isinstance(error, UserError):
        return type(error)(f"{place}: {error}")
    if isinstance(error, NotImplementedError):
        # The framework's own refusal: PyTorch's for a dtype that it has no kernel for.
        return UnsupportedOpError(f"{place}: {error}")
    detail = str(error).strip() or "no message"
    return FrameworkError(
        f"{place} failed: {getattr(error, 'kind', type(error).__name__)}: {detail}",
        node=node.name,
        op=node.op.name,
        backend=backend,
    )


def cause(explained: MetaopError, error: Exception) -> BaseException | None:
    """What to raise ``explained`` from: never from itself, which would make the chain of causes endless."""
    return error.__cause__ if explained is error else error
