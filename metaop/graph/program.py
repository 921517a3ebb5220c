"""A graph made concrete: ordered, with the type of every value known from the types of what is fed.

Shapes and dtypes are inferred here once per signature of the feeds, so that nothing of it is left to do at each run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.errors import FeedError, ShapeError, UserError
from metaop.graph.build import resolve_weak
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, RandomData, Stored, Variable
from metaop.graph.order import execution_order, predecessors
from metaop.types import TensorType, as_dtype, is_floating

__all__ = ["Program", "Value", "coerce", "floating_dtype", "value_of"]

#: a value in a graph: the node that computes it, and which of its outputs
Value = tuple[Node, int]


def value_of(node: Node) -> Value:
    """The value that a node stands for."""
    return node.producer, node.index


def coerce(node: Any, value: Any) -> np.ndarray:
    """What is fed for ``node`` as an array of the machine's byte order, checked against the declaration."""
    if not isinstance(node, Placeholder):
        what = f"node {node.name!r} is a {type(node).__name__}" if isinstance(node, Node) else f"{node!r} is not a node"
        raise FeedError(f"feed_dict: {what}; only placeholders are fed")
    declared = node.type
    try:
        if hasattr(value, "dtype"):
            array = np.asarray(value)
            array = array.astype(as_dtype(array.dtype), copy=False)
        else:
            array = np.asarray(value)
            if declared.dtype is not None and array.size and not _converts(array.dtype, declared.dtype):
                raise FeedError(f"placeholder {node.name!r} is declared {declared}; got {value!r}")
            array = np.asarray(value, dtype=declared.dtype)
            as_dtype(array.dtype)
    except FeedError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise FeedError(f"placeholder {node.name!r}: what was fed cannot be made an array ({error})") from None
    given = TensorType(array.dtype, array.shape)
    if not declared.admits(given):
        fix = ""
        if declared.dtype is not None and declared.dtype != array.dtype:
            fix = f"; feed array.astype({declared.dtype.name!r}) or declare another dtype"
        raise FeedError(f"placeholder {node.name!r} is declared {declared}; got {given}{fix}")
    return array


def _converts(given: np.dtype, declared: np.dtype) -> bool:
    """Whether Python numbers may become ``declared``: booleans, integers and floats, upward only."""
    ranks = {"b": 0, "i": 1, "u": 1, "O": 1, "f": 2}  # integers beyond 64 bits come as objects, and overflow
    return ranks.get(given.kind, 3) <= (2 if is_floating(declared) else ranks[declared.kind])


class Program:
    """The nodes that some targets need, in order, with every type known.

    ``types`` maps each value to its type; ``stored`` maps each leaf that is neither fed nor a variable to its array;
    ``feeds`` gives, for each placeholder, the dtype in which it enters.
    """

    def __init__(
        self,
        targets: Sequence[Node],
        fed: Mapping[Placeholder, TensorType],
        seed: int,
        data: Mapping[Placeholder, np.ndarray] | None = None,
    ) -> None:
        self.targets = tuple(targets)
        self.order = execution_order(targets)
        self._controls = [n.controls for n in self.order]
        #: attributes of operators that have open ones
        self._attrs: dict[Operator, dict[str, Any]] = {}
        self._data = data or {}
        self._constants: dict[Node, tuple[Any, ...]] = {}
        self._variables: dict[Variable, np.ndarray] = {}
        needed = _computed(targets) if any(isinstance(n, Operator) and n.open for n in self.order) else None
        self.operators = [n for n in self.order if isinstance(n, Operator) and (needed is None or n in needed)]
        self.types: dict[Value, TensorType] = {}
        self.stored: dict[Value, np.ndarray] = {}
        self.feeds: dict[Placeholder, np.dtype] = {}
        self.seed = seed
        adopted = floating_dtype(self.order)
        for node in self.order:
            if isinstance(node, Placeholder):
                self._feed(node, fed, adopted)
            elif isinstance(node, Operator):
                self._infer(node)
            elif isinstance(node, Stored) and node.type.dtype is not None:
                self.types[node, 0] = node.type
                if isinstance(node, Constant):
                    self.stored[node, 0] = node.value

    def is_current(self) -> bool:
        """Whether neither control edges nor variables that attributes are computed from changed since."""
        return self._controls == [n.controls for n in self.order] and all(
            variable._value is array for variable, array in self._variables.items()
        )

    def attrs(self, node: Operator) -> dict[str, Any]:
        """A node's attributes, all of them known."""
        return self._attrs[node] if node.open else node.attrs

    def _close(self, node: Operator) -> None:
        """Compute the open attributes of a node."""
        found = {name: _attribute(self._value(source)) for name, source in node.open.items()}
        self._attrs[node] = node.op.complete({**node.attrs, **found})

    def _value(self, node: Node) -> np.ndarray:
        """The value of a node that an attribute depends on, by the references."""
        producer, index = value_of(node)
        if isinstance(producer, Placeholder):
            return self._data[producer].astype(self.feeds[producer], copy=False)
        if isinstance(producer, Variable):
            return self._variables.setdefault(producer, producer._value)
        if not isinstance(producer, Operator):
            if (producer, 0) not in self.stored:
                raise UserError(f"an attribute cannot depend on {producer.name!r}, which is random")
            return self.stored[producer, 0]
        # Not by recursion: shape arithmetic of large models is deep.
        stack = [producer]
        while stack:
            here = stack[-1]
            wanted = () if here.op.types_only else [n.producer for n in here.inputs if n is not None]
            missing = [n for n in wanted if isinstance(n, Operator) and n not in self._constants]
            if missing:
                stack += missing
                continue
            stack.pop()
            if here not in self._constants:
                inputs = [None if n is None else self._argument(here, n) for n in here.inputs]
                result = here.op.reference(*inputs, **self.attrs(here))
                self._constants[here] = result if isinstance(result, tuple | list) else (result,)  # type: ignore[assignment]
        return np.asarray(self._constants[producer][index])

    def _argument(self, consumer: Operator, node: Node) -> np.ndarray:
        if consumer.op.types_only:
            known = self.types[value_of(node)]
            if known.shape is None or None in known.shape:
                raise ShapeError(f"the shape of {node.name!r} depends on data, so no attribute can be computed from it")
            return np.broadcast_to(np.zeros((), known.dtype), known.shape)  # type: ignore[arg-type]
        return self._value(node)

    def _feed(self, node: Placeholder, fed: Mapping[Placeholder, TensorType], adopted: np.dtype | None) -> None:
        if node not in fed:
            known = ", ".join(repr(p.name) for p in fed) or "nothing"
            raise FeedError(f"placeholder {node.name!r} ({node.type}) is not fed; feed_dict has {known}")
        given = fed[node]
        dtype = given.dtype
        assert dtype is not None
        if node.type.dtype is None and is_floating(dtype) and adopted is not None:
            dtype = adopted
        self.feeds[node] = dtype
        self.types[node, 0] = given.with_dtype(dtype)

    def _infer(self, node: Operator) -> None:
        op = node.op
        types: list[TensorType | None] = []
        for source in node.inputs:
            types.append(None if source is None else self.types.get(value_of(source)))
        main = next(
            (t.dtype for i, t in enumerate(types) if t is not None and op.param_at(i).name not in op.also), None
        )
        try:
            if node.open:
                self._close(node)
            for index, source in enumerate(node.inputs):
                if isinstance(source, Constant) and source.weak:
                    array = resolve_weak(op, source, main or source._value.dtype)
                elif isinstance(source, RandomData):
                    rng = np.random.default_rng([self.seed, zlib.crc32(source.name.encode())])
                    array = op.random[source.param](rng, *types, **self.attrs(node))
                else:
                    continue
                self.stored[source, 0] = array
                types[index] = self.types[source, 0] = TensorType(array.dtype, array.shape)
            outputs = op.infer(types, self.attrs(node))
        except UserError as error:
            given = ", ".join("-" if n is None else f"{n.name}: {t}" for n, t in zip(node.inputs, types, strict=True))
            raise type(error)(f"node {node.name!r} ({op.name}): {error} (inputs: {given})") from None
        for index, found in enumerate(outputs):
            self.types[node, index] = found

    def input_types(self, node: Operator) -> list[TensorType | None] | None:
        """The types of a node's inputs where all are fully known; ``None`` otherwise."""
        types = [None if n is None else self.types[value_of(n)] for n in node.inputs]
        return types if all(t is None or t.known for t in types) else None


def _computed(targets: Iterable[Node]) -> set[Node]:
    """What the targets are computed from by data and control edges: not what serves attributes only."""
    stack, seen = [t.producer for t in targets], set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += predecessors(node)
    return seen


def _attribute(value: np.ndarray) -> Any:
    """An array as the value of an attribute."""
    if value.ndim > 1:
        raise UserError(f"an attribute is a number or a vector; got an array of shape {value.shape}")
    return value.tolist()


def floating_dtype(nodes: Iterable[Node]) -> np.dtype | None:
    """The floating dtype that variables, constants and declared placeholders share; ``None`` if none or several."""
    found = {n.type.dtype for n in nodes if isinstance(n, Stored | Placeholder) and is_floating(n.type.dtype)}
    return found.pop() if len(found) == 1 else None
