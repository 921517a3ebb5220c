"""A backend that also notes down what it computes, as a graph: that is how a derived gradient becomes a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.graph.nodes import Constant, Node, Operator, Placeholder
from metaop.ops import REGISTRY
from metaop.types import TensorType

__all__ = ["Recorder", "Traced"]


@dataclass(eq=False)
class Traced:
    """A tensor, and the node that stands for it."""

    tensor: Any
    node: Node


class Recorder(Backend):
    """Computes on another backend; its tensors know the nodes that they come from.

    >>> from metaop.backends import get
    >>> recorder = Recorder(get("numpy"))
    >>> y = recorder.call("negative", {}, [recorder.enter(np.float32([1, 2]), "x")])[0]
    >>> recorder.to_numpy(y), y.node.op.name
    (array([-1., -2.], dtype=float32), 'negative')
    """

    def __init__(self, base: Backend) -> None:
        self.base = base
        self.name = base.name
        self.bindings = base.bindings
        super().__init__(base.device)

    def check_device(self) -> None:
        """The other backend has checked it."""

    def enter(self, array: np.ndarray, name: str) -> Traced:
        """An array that the graph is given from outside, under this name."""
        array = np.asarray(array)
        return Traced(self.base.from_numpy(array), Placeholder(array.shape, array.dtype, name=name))

    def from_numpy(self, array: np.ndarray) -> Traced:
        return Traced(self.base.from_numpy(array), Constant(array, name="constant"))

    def to_numpy(self, tensor: Traced) -> np.ndarray:
        return self.base.to_numpy(tensor.tensor)

    def type_of(self, tensor: Traced) -> tuple[np.dtype, tuple[int, ...]]:
        return self.base.type_of(tensor.tensor)

    def accumulate(self, a: Traced, b: Traced) -> Traced:
        total = self.base.accumulate(a.tensor, b.tensor)
        return Traced(total, _node("add", {}, [a, b], [self.base.type_of(total)])[0])

    def call(self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        outputs = self.base.call(op, attrs, [None if t is None else t.tensor for t in inputs])
        nodes = _node(op, attrs, inputs, [self.base.type_of(y) for y in outputs])
        return tuple(Traced(y, node) for y, node in zip(outputs, nodes, strict=True))


def _node(op: str, attrs: Mapping[str, Any], inputs: Sequence[Any], types: Sequence[Any]) -> tuple[Node, ...]:
    # Not by ``apply``, which would draw random data where these were left out on purpose.
    found = tuple(TensorType(dtype, tuple(shape)) for dtype, shape in types)
    nodes = tuple(None if t is None else t.node for t in inputs)
    return Operator(REGISTRY[op], nodes, attrs, found, None).results
