"""Faults for tests of the debug session: PyTorch with one operator gone wrong, and rules for when that cannot show.

Each fault of ``FAULTS`` makes a backend for one node. :func:`exempt` answers before anything is run, and from the graph
and the references alone, whether such a fault exists at the node and can have any effect; it always gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import metaop as mo
from metaop.backends import Backend, get
from metaop.errors import UserError
from metaop.graph.nodes import Node, Operator, Variable
from metaop.graph.order import execution_order
from metaop.types import TensorType
from tests.models import Model

NAME = "torch-faulty"


def right(op: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """PyTorch's own result; a tuple where there are several."""
    results = get("torch").call(op, attrs, list(inputs))
    return results[0] if len(results) == 1 else results


def right_gradients(op: str, g: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """PyTorch's own gradients; ``None`` for inputs without one."""
    smooth = [i for i, x in enumerate(inputs) if x is not None and x.is_floating_point()]
    _, pullback = get("torch").linearize(op, attrs, list(inputs), smooth)
    found = dict(zip(smooth, pullback([g]), strict=True))
    return [found.get(i) for i in range(len(inputs))]


def _forward(node: Operator, function: Callable[..., Any]) -> Backend:
    return mo.derive("torch", name=NAME, forward={node.op.name: function})


def _gradient(node: Operator, change: Callable[[Any], Any]) -> Backend:
    op = node.op.name

    def gradient(g: Any, y: Any, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
        return tuple(None if d is None else change(d) for d in right_gradients(op, g, inputs, attrs))

    return mo.derive("torch", name=NAME, gradient={op: gradient})


def scaled(node: Operator) -> Backend:
    return _forward(node, lambda *inputs, **attrs: 1.05 * right(node.op.name, inputs, attrs))


def swapped(node: Operator) -> Backend:
    i, j = _EXCHANGED.get(node.op.name, (0, 1))
    return _forward(node, lambda *inputs, **attrs: right(node.op.name, _exchange(inputs, i, j), attrs))


#: which arguments are exchanged where not the first two: scale and bias
_EXCHANGED = {"batch_norm": (1, 2), "layer_norm": (1, 2), "conv2d": (1, 2)}


def _exchange(inputs: Sequence[Any], i: int, j: int) -> list[Any]:
    found = list(inputs)
    found[i], found[j] = found[j], found[i]
    return found


def off_by_one_axis(node: Operator) -> Backend:
    def function(*inputs: Any, **attrs: Any) -> Any:
        if "axis" in attrs:
            return right(node.op.name, inputs, attrs | {"axis": attrs["axis"] - 1})
        return right(node.op.name, inputs, attrs | {"axes": tuple(a - 1 for a in attrs["axes"])})

    return _forward(node, function)


def nan_at_one_element(node: Operator) -> Backend:
    def function(*inputs: Any, **attrs: Any) -> Any:
        y = right(node.op.name, inputs, attrs)
        first = torch.zeros(y.numel(), dtype=torch.bool)
        first[0] = True
        return torch.where(first.reshape(y.shape), torch.tensor(float("nan"), dtype=y.dtype), y)

    return _forward(node, function)


def wrong_dtype(node: Operator) -> Backend:
    return _forward(node, lambda *inputs, **attrs: right(node.op.name, inputs, attrs).double())


def exception(node: Operator) -> Backend:
    def function(*inputs: Any, **attrs: Any) -> Any:
        raise RuntimeError("injected")

    return _forward(node, function)


def wrong_gradient(node: Operator) -> Backend:
    return _gradient(node, lambda d: 1.5 * d)


def zero_gradient(node: Operator) -> Backend:
    return _gradient(node, torch.zeros_like)


def no_gradient(node: Operator) -> Backend:
    return _gradient(node, lambda d: None)


FAULTS: dict[str, Callable[[Operator], Backend]] = {
    f.__name__: f
    for f in (
        scaled,
        swapped,
        off_by_one_axis,
        nan_at_one_element,
        wrong_dtype,
        exception,
        wrong_gradient,
        zero_gradient,
        no_gradient,
    )
}
GRADIENT_FAULTS = ("wrong_gradient", "zero_gradient", "no_gradient")
#: faults after which the framework gives no result at all
FAILURES = ("wrong_dtype", "exception")


def exempt(model: Model, node: Operator, kind: str) -> str | None:
    """Why this fault does not exist at this node, or provably changes nothing; ``None`` where it must be found."""
    if kind == "swapped":
        return _not_swappable(model, node)
    if kind == "off_by_one_axis" and not {"axis", "axes"} & set(node.attrs):
        return "the operator has no axis"
    if kind in GRADIENT_FAULTS and not _depends_on_a_variable(node):
        return "no variable lies above the node: its gradient goes nowhere"
    return None


def _not_swappable(model: Model, node: Operator) -> str | None:
    i, j = _EXCHANGED.get(node.op.name, (0, 1))
    if len(node.inputs) <= j:
        return "the operator has no two arguments to exchange"
    with mo.Session("numpy") as sess:
        given = sess.run(list(node.inputs), _used(model, node))
    other = _exchange(given, i, j)
    try:
        types = node.op.infer([TensorType(a.dtype, a.shape) for a in other], node.attrs)
    except UserError:
        return "the arguments do not fit the other way round"
    result = node.op.reference(*given, **node.attrs)
    if types[0].shape != result.shape:
        return "the arguments the other way round give another shape"
    if np.array_equal(node.op.reference(*other, **node.attrs), result):
        return "the operator is commutative"
    return None


def _used(model: Model, node: Operator) -> dict[Node, np.ndarray]:
    needed = {n for source in node.inputs for n in execution_order([source])}
    return {p: array for p, array in model.feeds.items() if p in needed}


def _depends_on_a_variable(node: Operator) -> bool:
    return any(isinstance(n, Variable) for n in execution_order([node]))
