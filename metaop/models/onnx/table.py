"""The table of mappings, and what a mapping is given.

A mapping is one short function ``fn(call) -> node or tuple of nodes``. It is right or it refuses: an attribute, input
or output that it does not look at makes the converter refuse the node, so that nothing is ignored by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto

from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node
from metaop.models.onnx.marks import marks
from metaop.ops import REGISTRY

if TYPE_CHECKING:
    from metaop.models.onnx.convert import Converter

__all__ = ["TABLE", "Call", "Refused", "direct", "onnx_op"]

Mapping = Callable[["Call"], Any]
NEWEST = 1000
REQUIRED: Any = object()
#: larger values are not computed while a model is read
FOLD_BYTES = 1 << 26


class Refused(Exception):
    """Why a node cannot be expressed."""


@dataclass(frozen=True)
class Entry:
    """A mapping and the opsets it serves."""

    since: int
    until: int
    function: Mapping


TABLE: dict[str, list[Entry]] = {}


def onnx_op(*names: str, since: int = 1, until: int = NEWEST) -> Callable[[Mapping], Mapping]:
    """Register a mapping for ONNX operators, for opsets ``since`` to ``until``.

    Those of another domain than ONNX's main one have it before their names: ``ai.onnx.preview.training.Adam``.
    """

    def register(function: Mapping) -> Mapping:
        for name in names:
            TABLE.setdefault(name, []).append(Entry(since, until, function))
        return function

    return register


def direct(onnx_name: str, op: str, *, since: int = 1, until: int = NEWEST, **attributes: Any) -> None:
    """Register an operator that ONNX has under another name only; ``attributes`` are ONNX's with their defaults."""

    def mapping(call: Call) -> Any:
        return call.make(op, *call.all(), **{name: call.attr(name, default) for name, default in attributes.items()})

    mapping.__name__ = f"{op}_directly"
    onnx_op(onnx_name, since=since, until=until)(mapping)


class Call:
    """One ONNX node while it is being converted."""

    def __init__(self, converter: Converter, proto: Any, name: str, inputs: list[Node | None], opset: int) -> None:
        self.converter = converter
        self.name = name
        self.op_type: str = proto.op_type
        self.opset = opset
        #: how many outputs the node names
        self.outputs = len(proto.output)
        self._used_outputs = [bool(o) for o in proto.output]
        self._inputs = inputs
        self._seen: set[int] = set()
        self._attributes = {a.name: a for a in proto.attribute}
        self._read: set[str] = set()
        #: what metaop's own exporter noted
        self.marks = marks(proto)

    # -- inputs -------------------------------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self._inputs) and self._inputs[index] is not None

    def optional(self, index: int) -> Node | None:
        """The input, or ``None`` where it is left out."""
        self._seen.add(index)
        return self._inputs[index] if index < len(self._inputs) else None

    def input(self, index: int) -> Node:
        """The input, which must be given."""
        found = self.optional(index)
        if found is None:
            raise Refused(f"input {index} is missing")
        return found

    def all(self) -> list[Node]:
        """Every input."""
        if not self._inputs:
            raise Refused("it has no inputs")
        return [self.input(i) for i in range(len(self._inputs))]

    def everything(self) -> list[Node | None]:
        """Every input, ``None`` where one is left out."""
        return [self.optional(i) for i in range(len(self._inputs))]

    def shape(self, node: Node) -> tuple[int, ...]:
        """The sizes of a node, all of which must be known."""
        if node.shape is None or None in node.shape:
            raise Refused(f"the shape of {node.name!r} ({node.type}) must be known")
        return tuple(s for s in node.shape if s is not None)

    def sizes(self, node: Node) -> Any:
        """The sizes of a node as an attribute takes them: numbers, or the node that finds them out."""
        if node.shape is None or None in node.shape:
            return self.part("sizes", "shape_of", node)
        return self.shape(node)

    def rank(self, node: Node) -> int:
        """The number of axes of a node, which must be known."""
        if node.shape is None:
            raise Refused(f"the rank of {node.name!r} must be known")
        return len(node.shape)

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= value < rank:
            raise Refused(f"axis {value} is out of range for rank {rank}")
        return value % rank

    def constant(self, index: int) -> np.ndarray:
        """The value of an input that does not depend on the model's inputs."""
        node = self.input(index)
        value = self.converter.value(node)
        if value is None:
            raise Refused(f"input {index} ({node.name!r}) must be a constant; it depends on data")
        return value

    def static(self, index: int | None, attribute: str | None = None, default: Any = REQUIRED) -> Any:
        """Integers that an operator takes as an attribute: an attribute in old opsets, an input in new ones.

        A tuple where they are known, which they are if they follow from initializers and known sizes; the node that
        computes them otherwise, which can be an attribute too.
        """
        if attribute is not None and attribute in self._attributes:
            return self.attr(attribute, ())
        if index is not None and self.has(index):
            node = self.input(index)
            if (node.dtype is not None and node.dtype.kind not in "iu") or len(node.shape or ()) > 1:
                raise Refused(f"input {index} must be a list of integers")
            value = self.converter.value(node)
            if value is None:
                return node if node.shape != () else self.part(f"input_{index}", "reshape", node, shape=(1,))
            return tuple(int(v) for v in value.reshape(-1))
        if default is REQUIRED:
            raise Refused(f"{attribute or f'input {index}'} is missing")
        return default

    def scalar(self, index: int, default: Any = REQUIRED) -> Any:
        """One number that an operator takes as an attribute: a Python number, or the node that computes it."""
        if not self.has(index) and default is not REQUIRED:
            self.optional(index)
            return default
        node = self.input(index)
        value = self.converter.value(node)
        if value is not None:
            if value.size != 1:
                raise Refused(f"input {index} must be one number; got {node.type}")
            return value.reshape(()).item()
        if node.shape == ():
            return node
        if node.shape is not None and any(s not in (1, None) for s in node.shape):
            raise Refused(f"input {index} must be one number; got {node.type}")
        return self.part(f"input_{index}", "reshape", node, shape=())

    def length(self, numbers: Any, what: str) -> int:
        """How many numbers there are in what ``static`` gave; that must be known."""
        if isinstance(numbers, tuple):
            return len(numbers)
        if numbers.shape is None or numbers.shape[0] is None:
            raise Refused(f"how many {what} there are must be known; {numbers.name!r} is {numbers.type}")
        return int(numbers.shape[0])

    # -- attributes ---------------------------------------------------------------------------------------------------

    def given(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self._attributes

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute, of the type that its default has."""
        self._read.add(name)
        proto = self._attributes.get(name)
        if proto is None:
            if default is REQUIRED:
                raise Refused(f"attribute {name!r} is missing")
            return default
        if proto.ref_attr_name:
            raise Refused(f"attribute {name!r} refers to a function's attribute outside of one")
        value: Any
        if proto.type == AttributeProto.INT:
            value = int(proto.i)
        elif proto.type == AttributeProto.FLOAT:
            value = float(proto.f)
        elif proto.type == AttributeProto.STRING:
            value = proto.s.decode("utf-8", "replace")
        elif proto.type == AttributeProto.INTS:
            value = tuple(int(i) for i in proto.ints)
        elif proto.type == AttributeProto.FLOATS:
            value = tuple(float(f) for f in proto.floats)
        elif proto.type == AttributeProto.STRINGS:
            value = tuple(s.decode("utf-8", "replace") for s in proto.strings)
        elif proto.type == AttributeProto.TENSOR:
            value = self.converter.tensor(proto.t, f"attribute {name!r} of node {self.name!r}")
        else:
            kind = AttributeProto.AttributeType.Name(proto.type)
            raise Refused(f"attribute {name!r} is of kind {kind}, which is not supported")
        if default is not REQUIRED and default is not None and not isinstance(value, type(default)):
            raise Refused(f"attribute {name!r} must be a {type(default).__name__}; got {value!r}")
        return value

    def graph(self, name: str) -> Any:
        """An attribute that is a graph."""
        self._read.add(name)
        proto = self._attributes.get(name)
        if proto is None or not proto.HasField("g"):
            raise Refused(f"attribute {name!r}, a graph, is missing")
        return proto.g

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that is 0 or 1."""
        value = self.attr(name, int(default))
        if value not in (0, 1):
            raise Refused(f"attribute {name!r} is 0 or 1; got {value}")
        return bool(value)

    def only(self, name: str, accepted: Any, default: Any = REQUIRED) -> None:
        """Refuse any other value of an attribute."""
        value = self.attr(name, accepted if default is REQUIRED else default)
        if value != accepted:
            raise Refused(f"{name}={value!r} is not supported, only {accepted!r}")

    def wants(self, index: int) -> bool:
        """Whether anything may use that output."""
        return index < len(self._used_outputs) and self._used_outputs[index]

    # -- results ------------------------------------------------------------------------------------------------------

    def make(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """The node that carries the ONNX name."""
        return self._apply(op, inputs, attrs, self.name)

    def part(self, part: str, op: str, *inputs: Any, **attrs: Any) -> Any:
        """A node on the way to it, named ``<name>/<part>``."""
        return self._apply(op, inputs, attrs, self.converter.unique(f"{self.name}/{part}"))

    def _apply(self, op: str, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str) -> Any:
        if op not in REGISTRY:
            raise Refused(f"it needs the meta operator {op!r}, which this version of metaop does not have")
        return apply(op, inputs, attrs, name=name)

    def value(self, array: Any, part: str | None = None) -> Constant:
        """A constant; without ``part`` it carries the ONNX name."""
        return Constant(
            np.asarray(array), name=self.name if part is None else self.converter.unique(f"{self.name}/{part}")
        )

    def places(self, count: int, dtype: Any, shape: Sequence[int], part: str) -> Constant:
        """The numbers from 0 to ``count - 1``; a file may claim that there are very many."""
        if count * 8 > FOLD_BYTES:
            raise Refused(f"{count} {part} are too many")
        return self.value(np.arange(count).astype(dtype).reshape(shape), part)

    def number(self, number: float, like: Node, part: str) -> Constant:
        """A scalar of the dtype of ``like``."""
        if like.dtype is not None and like.dtype.kind != "f" and not float(number).is_integer():
            raise Refused(f"{part} {number} cannot stand beside {like.type}")
        return self.value(np.asarray(number, like.dtype), part)

    def leftovers(self, results: int) -> str | None:
        """What the mapping did not look at."""
        for name in self._attributes:
            if name not in self._read:
                return f"attribute {name!r} is not supported"
        for index, node in enumerate(self._inputs):
            if node is not None and index not in self._seen:
                return f"input {index} is not supported"
        for index, used in enumerate(self._used_outputs):
            if used and index >= results:
                return f"output {index} is not supported"
        return None
