"""From a call of a meta operator to a node: arguments made nodes, attributes completed, types inferred, errors in
words.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.backends import canonical
from metaop.errors import UsageError, UserError
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, RandomData, weak_constant
from metaop.ops import REGISTRY, MetaOp
from metaop.types import TensorType

__all__ = ["apply"]


def apply(
    op: str | MetaOp,
    inputs: Sequence[Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    backend: str | None = None,
) -> Any:
    """The node (or, for several outputs, the tuple of nodes) of ``op`` applied to ``inputs``.

    ``mo.<op>(...)`` is this with the operator filled in; importers and generators, which have the name as data, call it
    directly. An attribute may be a node too, such as a shape computed from that of another tensor: its value is
    computed by the references before the run, from the types of what is fed and from the data that it depends on.

    >>> import metaop as mo
    >>> apply("relu", [mo.Placeholder(shape=(2,), dtype="float32")]).shape
    (2,)
    """
    if not isinstance(op, MetaOp):
        if op not in REGISTRY:
            near = difflib.get_close_matches(str(op), list(REGISTRY), n=1)
            raise UsageError(f"apply: no meta operator {op!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        op = REGISTRY[op]
    where = f"node {name!r} ({op.name})" if name else f"a {op.name} node"
    if backend is not None:
        canonical(backend)
    try:
        given_attrs, open = _split_attrs(op, attrs or {})
        full = op.complete(given_attrs, open)
        op.check_count(len(inputs))
        nodes = _as_nodes(op, inputs)
        known = [None if n is None else n.type for n in nodes]
        types = op.open_types(known, full) if open else op.infer(known, full)
    except UserError as error:
        given = ", ".join("-" if not isinstance(n, Node) else f"{n.name}: {n.type}" for n in inputs)
        raise type(error)(f"{where}: {error} (inputs: {given or 'none'})") from None
    node = Operator(op, (), full, types, name, open)
    mark_deciding(open.values())
    node._inputs = _with_random(op, nodes, full, node.name)
    if backend is not None:
        node.backend = backend
    return node if node.results == (node,) else node.results


def _split_attrs(op: MetaOp, attrs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Node]]:
    """Attributes given as data, and those given as nodes, which are computed when the graph is run."""
    given: dict[str, Any] = {}
    open: dict[str, Node] = {}
    for name, value in attrs.items():
        if isinstance(value, Constant) and not value.weak:
            given[name] = value.value.tolist()
        elif isinstance(value, Node) and name in op.attrs:
            if value.type.rank is not None and value.type.rank > 1:
                raise UsageError(
                    f"{op.name}: attribute {name!r} is a number or a vector; got {value.name}: {value.type}"
                )
            open[name] = value
        else:
            given[name] = value
    return given, open


def mark_deciding(sources: Iterable[Node]) -> None:
    """Mark the placeholders whose data, and not only whose types, ``sources`` are computed from."""
    stack, seen = [n.producer for n in sources], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Placeholder):
            node.decides = True
        elif isinstance(node, Operator) and not node.op.types_only:
            stack += [n.producer for n in node.inputs if n is not None]


def _as_nodes(op: MetaOp, inputs: Sequence[Any]) -> tuple[Node | None, ...]:
    """Arrays and numbers become constants; a Python number takes the dtype of the tensors beside it."""
    main = [
        n.dtype
        for i, n in enumerate(inputs)
        if isinstance(n, Node | np.ndarray | np.generic)
        and not isinstance(n, float)  # np.float64 is a Python number too, and what NumPy's functions return
        and op.param_at(i).name not in op.also
    ]
    has_tensors = bool(main)
    dtype = next((d for d in main if d is not None), None)
    nodes: list[Node | None] = []
    for index, value in enumerate(inputs):
        if value is None or isinstance(value, Node):
            nodes.append(value)
        elif isinstance(value, bool | int | float) and op.param_at(index).name not in op.also and has_tensors:
            nodes.append(weak_constant(value) if dtype is None else _number(op, value, dtype))
        else:
            nodes.append(Constant(value))
    return tuple(nodes)


def _number(op: MetaOp, value: bool | int | float, dtype: np.dtype) -> Constant:
    fits = (
        dtype.kind == "f"
        if isinstance(value, float)
        else dtype.kind == "b"
        if isinstance(value, bool)
        else dtype.kind in "fiu"
    )
    if not fits:
        raise UsageError(f"{op.name}: the number {value!r} cannot stand beside a {dtype.name} tensor; use metaop.cast")
    return Constant(value, dtype)


def resolve_weak(op: MetaOp, constant: Constant, dtype: np.dtype) -> np.ndarray:
    """The value of a weak constant, once the dtype beside it is known."""
    return _number(op, constant.value.item(), dtype).value


def _with_random(
    op: MetaOp, nodes: tuple[Node | None, ...], attrs: Mapping[str, Any], consumer: str
) -> tuple[Node | None, ...]:
    """Random tensors that the caller left out become nodes that the session draws."""
    if not op.random or attrs.get("training") is False:
        return nodes
    filled = list(nodes) + [None] * (len(op.params) - len(nodes))
    for index, param in enumerate(op.params):
        if param.name in op.random and filled[index] is None:
            dtype = next(iter(op.dtypes_of(param)))
            filled[index] = RandomData(TensorType(dtype, None), consumer, param.name)
    return tuple(filled)
