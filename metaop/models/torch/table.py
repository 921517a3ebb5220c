"""The table of mappings, and what a mapping is given.

A mapping is one short function whose parameters after ``call`` are arguments of the ATen operator, by their names:

    @aten_op("layer_norm")
    def layer_norm(call, input, normalized_shape, weight, bias, eps):
        return call.make("layer_norm", input, weight, bias, axis=-len(normalized_shape), epsilon=eps)

Tensors come as nodes, defaults are filled in. An argument that is not among the parameters must have its default value,
else the converter refuses: nothing is ignored by accident. Exempt are arguments that ``told`` lists: they say what the
dtype or the shape of the result says too, which mappings read from ``call``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from metaop.errors import DtypeError, InternalError
from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node
from metaop.ops import REGISTRY
from metaop.types import as_dtype

if TYPE_CHECKING:
    from metaop.models.torch.convert import Converter

__all__ = ["TABLE", "Call", "Mapping", "Refused", "aten_op", "label", "numpy_array", "numpy_dtype", "renamed"]

Mapping = Callable[..., Any]

#: from the operator's name with its overload, as ``add.Tensor``; ``default`` is left out
TABLE: dict[str, Entry] = {}


@dataclass(frozen=True)
class Entry:
    """A mapping, the arguments that it looks at, and those that the result tells."""

    function: Mapping
    looked_at: frozenset[str]
    told: frozenset[str]


class Refused(Exception):
    """Why an operator cannot be expressed."""


def aten_op(*names: str, told: Iterable[str] = ()) -> Callable[[Mapping], Mapping]:
    """Register a mapping for ATen operators; ``told`` are arguments that say no more than the result's type."""

    def register(function: Mapping) -> Mapping:
        looked_at = frozenset(list(inspect.signature(function).parameters)[1:])
        entry = Entry(function, looked_at, frozenset({"dtype", *told}))
        for name in names:
            if name in TABLE:
                raise InternalError(f"the ATen operator {name} has two mappings")
            TABLE[name] = entry
        return function

    return register


def renamed(**names: str) -> None:
    """Register operators of one tensor ``self`` (or ``input``) that differ in name only."""

    def mapping_to(op: str) -> Mapping:
        def mapping(call: Call, self: Node) -> Any:
            return call.make(op, self)

        return mapping

    for aten, op in names.items():
        aten_op(aten)(mapping_to(op))


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """The dtype in NumPy, or a refusal."""
    try:
        return as_dtype(str(dtype).removeprefix("torch."))
    except DtypeError:
        raise Refused(f"tensors of {dtype} are not supported") from None


def numpy_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values; NumPy has bfloat16 from a package of its own."""
    tensor, dtype = tensor.detach().cpu(), numpy_dtype(tensor.dtype)
    return tensor.view(torch.int16).numpy().view(dtype) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def label(target: Any) -> str:
    """``add.Tensor`` for the ATen operator, with its library before it where that is another."""
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target))
    name = target._schema.name.removeprefix("aten::")
    overload = target._overloadname
    return name if overload == "default" else f"{name}.{overload}"


class Call:
    """One ATen operator while it is being converted."""

    def __init__(self, converter: Converter, name: str, values: dict[Node, Any], result: Any) -> None:
        self.converter = converter
        self.name = name
        #: PyTorch's own account of the result: a tensor without data, or several; sizes may be symbolic
        self.result = result
        self._values = values

    # -- what is known ------------------------------------------------------------------------------------------------

    def sizes(self, node: Node) -> tuple[Any, ...]:
        """The sizes of a tensor argument; those that depend on the batch are symbolic."""
        return tuple(self._values[node].shape)

    def rank(self, node: Node) -> int:
        """The number of axes of a tensor argument."""
        return len(self._values[node].shape)

    def static(self, node: Node) -> tuple[int, ...]:
        """The sizes of a tensor argument, none of which may be symbolic."""
        sizes = self.sizes(node)
        if not all(isinstance(s, int) for s in sizes):
            raise Refused(f"the shape {list(sizes)} of {node.name!r} must not depend on the batch")
        return sizes

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the front; PyTorch lets a scalar have an axis 0."""
        return value % max(rank, 1)

    def dtype_of(self, node: Node) -> np.dtype:
        """The dtype of a tensor argument."""
        return numpy_dtype(self._values[node].dtype)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the (first) result."""
        return numpy_dtype((self.result if isinstance(self.result, torch.Tensor) else self.result[0]).dtype)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the result; those that depend on the batch are symbolic."""
        return tuple(self.result.shape)

    def common(self, *values: Any) -> torch.dtype:
        """The dtype in which PyTorch computes with these tensors and numbers together."""
        given = [self._values[v] if isinstance(v, Node) else v for v in values]
        found = given[0]
        if len(given) == 1:
            return found.dtype
        return torch.result_type(*(_plain(v) for v in given))

    # -- results ------------------------------------------------------------------------------------------------------

    def make(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """The node that carries the name of the ATen node."""
        return self._apply(op, inputs, attrs, self.converter.unique(self.name))

    def part(self, part: str, op: str, *inputs: Any, **attrs: Any) -> Any:
        """A node on the way to it, named ``<name>/<part>``."""
        return self._apply(op, inputs, attrs, self.converter.unique(f"{self.name}/{part}"))

    def _apply(self, op: str, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str) -> Any:
        if op not in REGISTRY:
            raise Refused(f"it needs the meta operator {op!r}, which this version of metaop does not have")
        given = list(inputs)
        while given and given[-1] is None:
            given.pop()
        return apply(op, given, attrs, name=name)

    def value(self, array: Any, part: str | None = None) -> Constant:
        """A constant; without ``part`` it carries the name of the ATen node."""
        name = self.name if part is None else f"{self.name}/{part}"
        return Constant(np.asarray(array), name=self.converter.unique(name))

    def cast(self, value: Any, dtype: np.dtype, part: str = "cast") -> Node:
        """A tensor argument or a number as a tensor of that dtype."""
        if isinstance(value, Node):
            return value if value.dtype == dtype else self.part(part, "cast", value, to=dtype)
        if isinstance(value, torch.SymInt):
            number = self.part(part, "reshape", self.converter.size(value), shape=())
            return self.cast(number, dtype, f"{part}_number")
        if not isinstance(value, bool | int | float):
            raise Refused(f"{value!r} is not a number that metaop knows")
        return self.value(np.asarray(value, dtype), part)

    def shape_attribute(self, sizes: Sequence[Any]) -> Any:
        """Sizes as an attribute: numbers, or a node that computes them from the sizes of what is fed."""
        return self.converter.sizes(sizes)


def _plain(value: Any) -> Any:
    """A tensor of that dtype and rank, without symbolic sizes; a number as it is."""
    if isinstance(value, torch.Tensor):
        return torch.empty((1,) * value.dim(), dtype=value.dtype, device="meta")
    return 1 if isinstance(value, torch.SymInt) else value
