"""The table of mappings, and what a mapping is given.

A mapping is one short function ``fn(call) -> node, First(node) or a tuple of these``, for operators of TensorFlow's
GraphDef. It is right or it refuses: an attribute or input that it does not look at, or an output that it does not give
although it is used, makes the converter refuse the operator, so that nothing is ignored by accident.

**Layout.** Images are channels-last in TensorFlow and channels-first in meta operators. A convolution's result is kept
as it comes, channels first, and called :class:`First`; operators that do not mind the order of axes keep it that way.
Whoever asks for the tensor as TensorFlow has it (``call.input``) gets a transposed one. So transposes stand where the
layout matters, not around every convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from metaop.errors import DtypeError
from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node
from metaop.ops import REGISTRY
from metaop.types import Shape, as_dtype

if TYPE_CHECKING:
    from metaop.models.tensorflow.convert import Converter

__all__ = ["TABLE", "Call", "First", "Refused", "Value", "direct", "numpy_dtype", "tf_op"]

Mapping = Callable[["Call"], Any]

TABLE: dict[str, Mapping] = {}

#: attributes that say no more than the inputs do, or how fast to compute; so do all that are dtypes
SILENT = {"N", "use_cudnn_on_gpu"}


class Refused(Exception):
    """Why an operator cannot be expressed."""


@dataclass(frozen=True)
class First:
    """A result with channels first where TensorFlow has channels last."""

    node: Node


class Value:
    """A tensor of the TensorFlow graph: a node with TensorFlow's order of axes, one with channels first, or both."""

    def __init__(self, name: str, node: Node | None = None, first: Node | None = None) -> None:
        self.name = name
        self.node = node
        self.first = first
        #: whether it was computed channels first
        self.is_first = first is not None
        #: what else was made of it, to be shared by all who need the same
        self.made: dict[Any, Node] = {}


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation from channels last to channels first."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from channels first to channels last."""
    return (0, *range(2, rank), 1)


def tf_op(*names: str) -> Callable[[Mapping], Mapping]:
    """Register a mapping for operators of TensorFlow."""

    def register(function: Mapping) -> Mapping:
        for name in names:
            if name in TABLE:
                raise AssertionError(f"{name} has two mappings")
            TABLE[name] = function
        return function

    return register


def direct(**names: str) -> None:
    """Register operators that TensorFlow has under another name only, and that work element by element."""

    def mapping_to(op: str) -> Mapping:
        def mapping(call: Call) -> Any:
            return call.elementwise(op, *range(call.count))

        mapping.__name__ = f"{op}_directly"
        return mapping

    for name, op in names.items():
        tf_op(name)(mapping_to(op))


def numpy_dtype(dtype: tf.DType) -> np.dtype:
    """The dtype in NumPy, or a refusal."""
    try:
        return as_dtype(dtype.as_numpy_dtype)
    except (DtypeError, TypeError, KeyError):
        raise Refused(f"tensors of {dtype.name} are not supported") from None


class Call:
    """One operator of TensorFlow while it is being converted."""

    def __init__(self, converter: Converter, op: tf.Operation, name: str, values: Sequence[Value]) -> None:
        self.converter = converter
        self.op = op
        self.name = name
        self.op_type: str = op.type
        #: how many inputs there are
        self.count = len(values)
        self._values = values
        self._seen: set[int] = set()
        self._read: set[str] = set()

    # -- inputs -------------------------------------------------------------------------------------------------------

    def value(self, index: int) -> Value:
        """The input in whichever layout there is."""
        self._seen.add(index)
        return self._values[index]

    def input(self, index: int) -> Node:
        """The input with TensorFlow's order of axes."""
        value = self.value(index)
        if value.node is None:
            assert value.first is not None
            value.node = self.converter.turned(value, value.first, to_last, "channels_last")
        return value.node

    def first(self, index: int) -> Node:
        """The input, which TensorFlow has channels last, with channels first."""
        value = self.value(index)
        if value.first is None:
            assert value.node is not None
            if value.node.shape is None:
                raise Refused(f"the rank of {value.node.name!r} must be known")
            value.first = self.converter.turned(value, value.node, to_first, "channels_first")
        return value.first

    def is_first(self, index: int) -> bool:
        """Whether the input was computed channels first."""
        return self._values[index].is_first

    def all(self) -> list[Node]:
        """Every input, with TensorFlow's order of axes."""
        return [self.input(i) for i in range(self.count)]

    def sizes(self, index: int) -> Shape | None:
        """What TensorFlow knows of the shape of the input, in its own order."""
        return shape_of(self.op.inputs[index])

    def rank(self, index: int) -> int:
        """The number of axes of the input, which must be known."""
        found = self.sizes(index)
        if found is None:
            raise Refused(f"the rank of input {index} ({self.op.inputs[index].name!r}) must be known")
        return len(found)

    def dtype(self, index: int) -> np.dtype:
        """The dtype of the input."""
        return numpy_dtype(self.op.inputs[index].dtype)

    def out(self, index: int = 0) -> Shape | None:
        """What TensorFlow knows of the shape of an output, in its own order."""
        return shape_of(self.op.outputs[index])

    def known(self, index: int) -> np.ndarray | None:
        """The value of the input, or ``None`` where it depends on data or on variables."""
        return self.converter.known(self.input(index))

    def constant(self, index: int) -> np.ndarray:
        """The value of an input that depends neither on data nor on variables."""
        value = self.known(index)
        if value is None:
            raise Refused(f"input {index} ({self.op.inputs[index].name!r}) must be a constant; it depends on data")
        return value

    def ints(self, index: int) -> tuple[int, ...]:
        """A vector of integers, or one, that must be a constant."""
        value = self.constant(index)
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise Refused(f"input {index} must be a list of integers")
        return tuple(int(v) for v in value.reshape(-1))

    def opened(self, index: int) -> Any:
        """A vector of integers for an attribute: as a tuple where it is a constant, else as the node."""
        return self.input(index) if self.known(index) is None else self.ints(index)

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= value < rank:
            raise Refused(f"axis {value} is out of range for rank {rank}")
        return value % rank

    # -- attributes ---------------------------------------------------------------------------------------------------

    def attr(self, name: str) -> Any:
        """An attribute."""
        self._read.add(name)
        try:
            found = self.op.get_attr(name)
        except ValueError:
            raise Refused(f"attribute {name!r} is missing") from None
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def only(self, name: str, accepted: Any) -> None:
        """Refuse any other value of an attribute."""
        value = self.attr(name)
        if value != accepted:
            raise Refused(f"{name}={value!r} is not supported, only {accepted!r}")

    # -- results ------------------------------------------------------------------------------------------------------

    def make(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """The node that carries TensorFlow's name."""
        return self._apply(op, inputs, attrs, self.name)

    def part(self, part: str, op: str, *inputs: Any, **attrs: Any) -> Any:
        """A node on the way to it, named ``<name>/<part>``."""
        return self._apply(op, inputs, attrs, self.converter.unique(f"{self.name}/{part}"))

    def _apply(self, op: str, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str) -> Any:
        if op not in REGISTRY:
            raise Refused(f"it needs the meta operator {op!r}, which this version of metaop does not have")
        return apply(op, inputs, attrs, name=name)

    def data(self, array: Any, part: str | None = None) -> Constant:
        """A constant; without ``part`` it carries TensorFlow's name."""
        return Constant(
            np.asarray(array), name=self.name if part is None else self.converter.unique(f"{self.name}/{part}")
        )

    def number(self, number: float, index: int, part: str) -> Constant:
        """A scalar of the dtype of an input."""
        return self.data(np.asarray(number, self.dtype(index)), part)

    # -- layout -------------------------------------------------------------------------------------------------------

    def elementwise(self, op: str, *indices: int, **attrs: Any) -> Any:
        """An operator whose tensors broadcast, in the layout that they have."""
        return self.broadcast(indices, lambda *nodes: self.make(op, *nodes, **attrs))

    def broadcast(self, indices: Sequence[int], function: Callable[..., Node]) -> Any:
        """What ``function`` makes of tensors that broadcast, in the layout that they have."""
        ranks = [None if s is None else len(s) for s in map(self.sizes, indices)]
        rank = max((r for r in ranks if r is not None), default=0)
        firsts = [i for i, r in zip(indices, ranks, strict=True) if self.is_first(i) and r == rank]
        if not firsts or None in ranks:
            return function(*(self.input(i) for i in indices))
        return First(function(*(self._stretched(i, rank) for i in indices)))

    def _stretched(self, index: int, rank: int) -> Node:
        """An input that broadcasts to ``rank`` axes, so that it does so with channels first."""
        value, own = self.value(index), self.rank(index)
        if own == rank:
            return self.first(index)
        node = self.input(index)
        if own == 0:
            return node
        found = value.made.get(rank)
        if found is None:
            found = self._unsqueezed(value, node, own, rank)
            value.made[rank] = found
        return found

    def _unsqueezed(self, value: Value, node: Node, own: int, rank: int) -> Node:
        # One axis is that of the channels; more are brought to full rank and turned.
        axes = tuple(range(1, rank - 1)) if own == 1 else tuple(range(rank - own))
        name = self.converter.unique(f"{value.name}/channels")
        if isinstance(node, Constant):
            array = np.expand_dims(node.value, axes)
            return Constant(array if own == 1 else np.transpose(array, to_first(rank)), name=name)
        wide = apply("unsqueeze", (node,), {"axes": axes}, name=name)
        if own == 1:
            return wide
        return apply(
            "transpose", (wide,), {"perm": to_first(rank)}, name=self.converter.unique(f"{value.name}/channels_first")
        )

    def leftovers(self) -> str | None:
        """What the mapping did not look at."""
        for attr in self.op.op_def.attr:
            if attr.type not in ("type", "list(type)") and attr.name not in self._read | SILENT:
                return f"attribute {attr.name!r} is not supported"
        for index in range(self.count):
            if index not in self._seen:
                return f"input {index} is not supported"
        return None


def shape_of(tensor: tf.Tensor) -> Shape | None:
    """What TensorFlow knows of a shape."""
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
