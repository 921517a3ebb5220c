"""What is known of a value before any data is.

Shape arithmetic takes sizes apart and joins them again: of ``concat(shape_of(x)[0:1], [12, -1])`` two elements are
known although the first is not. That gives a reshape by it a rank and a size, which operators behind it need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from metaop.errors import MetaopError
from metaop.graph.nodes import Constant, Node, Operator, Variable

__all__ = ["Known"]

#: operators that only move elements: what is known moves with them
_MOVES = frozenset(
    ["concat", "expand", "flatten", "gather", "identity", "reshape", "slice", "split", "squeeze", "stack", "tile"]
    + ["transpose", "unsqueeze"]
)
#: of these, tensors that say where elements go and are not moved themselves
_STEERING = {"gather": {"indices"}}
#: operators that compute each element of the result from one element of each tensor
_EACH = frozenset(
    ["add", "cast", "div", "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_not"]
    + ["logical_or", "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "subtract", "trunc_div"]
)
#: values that are only partly known are followed up to this many elements
_PARTLY = 4096

#: an array, and of each element whether it is known
Part = tuple[np.ndarray, np.ndarray]


class Known:
    """What is known of nodes; remembers what it found.

    ``variables`` says whether the present values of variables count. ``most`` is how many bytes a value may have.
    ``shapes`` are assumed of some nodes, whatever is known of these otherwise.

    >>> import metaop as mo
    >>> x = mo.Placeholder(shape=(None, 3), dtype="float32")
    >>> Known().sizes(mo.concat(mo.shape_of(x), mo.shape_of(x)))
    (None, 3, None, 3)
    """

    def __init__(
        self, variables: bool = False, most: int = 1 << 20, shapes: Mapping[Node, Sequence[int]] | None = None
    ) -> None:
        self.variables = variables
        self.most = most
        self.shapes = dict(shapes or {})
        self._parts: WeakKeyDictionary[Node, tuple[Part | None, ...]] = WeakKeyDictionary()

    def part(self, node: Node) -> Part | None:
        """The elements that are known; ``None`` where there is nothing to be said."""
        # Not by recursion: shape arithmetic of large models is deep.
        stack = [node.producer]
        while stack:
            here = stack[-1]
            if here in self._parts:
                stack.pop()
                continue
            wanted: list[Node] = []
            if isinstance(here, Operator) and not here.op.types_only and not here.open:
                wanted = [n.producer for n in here.inputs if n is not None and n.producer not in self._parts]
            if wanted:
                stack += wanted
                continue
            stack.pop()
            self._parts[here] = self._find(here)
        return self._parts[node.producer][node.index]

    def value(self, node: Node) -> np.ndarray | None:
        """The value of a node, where all of it is known."""
        found = self.part(node)
        return found[0] if found is not None and found[1].all() else None

    def sizes(self, node: Node) -> tuple[int | None, ...] | None:
        """The elements of an integer vector or number, ``None`` for each unknown one; ``None`` for an unknown length.

        >>> import metaop as mo
        >>> Known().sizes(mo.Placeholder(shape=(2,), dtype="int64"))
        (None, None)
        """
        found = self.part(node)
        if found is None or found[0].dtype.kind not in "iu":
            if node.shape is None or len(node.shape) > 1 or None in node.shape or math.prod(node.shape) > _PARTLY:  # type: ignore[arg-type]
                return None
            return (None,) * math.prod(node.shape)  # type: ignore[arg-type]
        return tuple(int(v) if k else None for v, k in zip(found[0].reshape(-1), found[1].reshape(-1), strict=True))

    def _find(self, node: Node) -> tuple[Part | None, ...]:
        if (isinstance(node, Constant) and not node.weak) or (isinstance(node, Variable) and self.variables):
            return (_whole(node._value),)
        if not isinstance(node, Operator):
            return (_nothing(node.type),)
        if any(t.shape is not None and None not in t.shape and self._too_large(t) for t in node.types):
            return (None,) * len(node.types)
        try:
            found = self._compute(node)
        except (MetaopError, ArithmeticError, TypeError, ValueError, IndexError):
            found = None  # what is wrong with it is said where it is run
        return tuple(_nothing(t) for t in node.types) if found is None else found

    def _too_large(self, kind: Any) -> bool:
        return math.prod(kind.shape) * (kind.dtype.itemsize if kind.dtype is not None else 8) > self.most

    def _compute(self, node: Operator) -> tuple[Part | None, ...] | None:
        if node.open:
            return None
        if node.op.types_only:
            return _from_types(node, self.shapes)
        parts = [None if n is None else self._parts[n.producer][n.index] for n in node.inputs]
        if any(n is not None and p is None for n, p in zip(node.inputs, parts, strict=True)):
            return None
        if any(isinstance(n, Constant) and n.weak for n in node.inputs):
            return None
        with np.errstate(all="ignore"):
            if all(p is None or p[1].all() for p in parts):
                return tuple(map(_whole, _call(node, [None if p is None else p[0] for p in parts])))
            small = all(t.known and math.prod(t.shape) <= _PARTLY for t in node.types)  # type: ignore[arg-type]
            return _partly(node, [p for p in parts if p is not None]) if small and None not in parts else None


def _call(node: Operator, tensors: Sequence[Any]) -> tuple[np.ndarray, ...]:
    result = node.op.reference(*tensors, **node.attrs)
    return tuple(np.asarray(r) for r in (result if isinstance(result, tuple | list) else (result,)))


def _from_types(node: Operator, shapes: Mapping[Node, Sequence[int]]) -> tuple[Part, ...] | None:
    given = [n for n in node.inputs if n is not None]
    types = [n.type.with_shape(tuple(shapes[n])) if n in shapes else n.type for n in given]
    if node.op.name == "shape_of" and types[0].shape is not None:
        sizes = types[0].shape[node.attrs["start"] : node.attrs["end"]]
        return ((np.array([s or 0 for s in sizes], np.int64), np.array([s is not None for s in sizes], bool)),)
    if not all(t.known for t in types):
        return None
    sizes_of: list[Any] = [t.shape for t in types]
    stand_ins = [np.broadcast_to(np.zeros((), t.dtype), s) for t, s in zip(types, sizes_of, strict=True)]
    return tuple(map(_whole, _call(node, stand_ins)))


def _partly(node: Operator, parts: Sequence[Part]) -> tuple[Part, ...] | None:
    """From tensors that are all there and known in part."""
    op, values, masks = node.op, [p[0] for p in parts], [p[1] for p in parts]
    if op.name in _MOVES:
        for i, (value, mask) in enumerate(parts):
            if op.param_at(i).name in _STEERING.get(op.name, ()):
                if not mask.all():
                    return None
                masks[i] = value
        return tuple(zip(_call(node, values), _call(node, masks), strict=True))
    if op.name == "where":
        return ((_call(node, values)[0], masks[0] & np.where(values[0], masks[1], masks[2])),)
    if op.name in _EACH:
        # What is unknown is any number, but for 0, by which some divide.
        filled = [np.where(mask, value, np.ones((), value.dtype)) for value, mask in parts]
        return ((_call(node, filled)[0], np.logical_and.reduce(np.broadcast_arrays(*masks))),)
    return None


def _whole(array: np.ndarray) -> Part:
    return array, np.broadcast_to(np.True_, array.shape)


def _nothing(kind: Any) -> Part | None:
    """An array of which nothing is known but its type."""
    if not kind.known or math.prod(kind.shape) > _PARTLY:
        return None
    return np.zeros(kind.shape, kind.dtype), np.zeros(kind.shape, bool)
