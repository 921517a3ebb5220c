"""A graph made concrete: ordered, with the type of every value known from the types of what is fed.

Shapes and dtypes are inferred here once per signature of the feeds, so that nothing of it is left to do at each run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.errors import FeedError, UserError
from metaop.graph.build import resolve_weak
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, RandomData, Stored
from metaop.graph.order import execution_order
from metaop.types import TensorType, as_dtype

__all__ = ["Program", "Value", "coerce", "value_of"]

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
    return ranks.get(given.kind, 3) <= ranks[declared.kind]


class Program:
    """The nodes that some targets need, in order, with every type known.

    ``types`` maps each value to its type; ``stored`` maps each leaf that is neither fed nor a variable to its array;
    ``feeds`` gives, for each placeholder, the dtype in which it enters.
    """

    def __init__(self, targets: Sequence[Node], fed: Mapping[Placeholder, TensorType], seed: int) -> None:
        self.targets = tuple(targets)
        self.order = execution_order(targets)
        self._controls = [n.controls for n in self.order]
        self.operators = [n for n in self.order if isinstance(n, Operator)]
        self.types: dict[Value, TensorType] = {}
        self.stored: dict[Value, np.ndarray] = {}
        self.feeds: dict[Placeholder, np.dtype] = {}
        self.seed = seed
        adopted = _floating_dtype(self.order)
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
        """Whether no control edge was added since; nothing else of a node ever changes its place in the order."""
        return self._controls == [n.controls for n in self.order]

    def _feed(self, node: Placeholder, fed: Mapping[Placeholder, TensorType], adopted: np.dtype | None) -> None:
        if node not in fed:
            known = ", ".join(repr(p.name) for p in fed) or "nothing"
            raise FeedError(f"placeholder {node.name!r} ({node.type}) is not fed; feed_dict has {known}")
        given = fed[node]
        dtype = given.dtype
        assert dtype is not None
        if node.type.dtype is None and dtype.kind == "f" and adopted is not None:
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
            for index, source in enumerate(node.inputs):
                if isinstance(source, Constant) and source.weak:
                    array = resolve_weak(op, source, main or source._value.dtype)
                elif isinstance(source, RandomData):
                    rng = np.random.default_rng([self.seed, zlib.crc32(source.name.encode())])
                    array = op.random[source.param](rng, *types, **node.attrs)
                else:
                    continue
                self.stored[source, 0] = array
                types[index] = self.types[source, 0] = TensorType(array.dtype, array.shape)
            outputs = op.infer(types, node.attrs)
        except UserError as error:
            given = ", ".join("-" if n is None else f"{n.name}: {t}" for n, t in zip(node.inputs, types, strict=True))
            raise type(error)(f"node {node.name!r} ({op.name}): {error} (inputs: {given})") from None
        for index, found in enumerate(outputs):
            self.types[node, index] = found

    def input_types(self, node: Operator) -> list[TensorType | None] | None:
        """The types of a node's inputs where all are fully known; ``None`` otherwise."""
        types = [None if n is None else self.types[value_of(n)] for n in node.inputs]
        return types if all(t is None or t.known for t in types) else None


def _floating_dtype(nodes: Iterable[Node]) -> np.dtype | None:
    """The floating dtype that variables, constants and declared placeholders share; ``None`` if none or several."""
    found = {
        n.type.dtype
        for n in nodes
        if isinstance(n, Stored | Placeholder) and n.type.dtype is not None and n.type.dtype.kind == "f"
    }
    return found.pop() if len(found) == 1 else None
