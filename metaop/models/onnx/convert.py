"""From a ``ModelProto`` to a graph: every node through its mapping, every refusal collected."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from metaop.errors import MetaopError, ModelError
from metaop.graph.nodes import Constant, Node, Placeholder, Variable
from metaop.models.model import Model
from metaop.models.onnx import (
    attention,
    contraction,
    convolution,
    elementwise,
    loss,
    movement,
    normalization,
    recurrent,
    reduction,
    resizing,
    sampling,
    stateful,
)
from metaop.models.onnx.read import DTYPES, dtype_name, tensor
from metaop.models.onnx.table import TABLE, Call, Refused, fold

__all__ = ["FAMILIES", "Converter", "convert"]

#: importing them fills the table
FAMILIES = (
    attention,
    contraction,
    convolution,
    elementwise,
    loss,
    movement,
    normalization,
    recurrent,
    reduction,
    resizing,
    sampling,
    stateful,
)

_NEVER = {
    "If": "control flow is not supported",
    "Loop": "control flow is not supported",
    "Scan": "control flow is not supported",
    "NonZero": "the shape of its result depends on data",
    "Unique": "the shape of its result depends on data",
    "Compress": "the shape of its result depends on data",
    "NonMaxSuppression": "the shape of its result depends on data",
}


def convert(model: onnx.ModelProto, folder: Path | None) -> Model:
    """The model as a graph, or one error that lists all that cannot be expressed."""
    return Converter(model, folder).model()


class Converter:
    """The state of one conversion."""

    def __init__(self, model: onnx.ModelProto, folder: Path | None) -> None:
        self.graph = model.graph
        self.folder = folder
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        self.nodes: dict[str, Node] = {}
        self.broken: set[str] = set()
        self.names: set[str] = set()
        self.unsupported: list[dict[str, Any]] = []
        self._values: dict[Node, np.ndarray | None] = {}

    # -- what mappings ask for ----------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """That name, or with a number behind it where it is taken."""
        found, number = name, 2
        while found in self.names:
            found, number = f"{name}_{number}", number + 1
        self.names.add(found)
        return found

    def value(self, node: Node) -> np.ndarray | None:
        """The value of a node that depends on no data."""
        if node not in self._values:
            self._values[node] = node.value if isinstance(node, Variable | Constant) else fold(node)
        return self._values[node]

    def tensor(self, proto: Any, what: str) -> np.ndarray:
        """A stored tensor as an array."""
        return tensor(proto, what, self.folder)

    # -- the whole ----------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Convert everything."""
        inputs = self._leaves()
        named = [n.name for n in self.graph.node if n.name]
        twice = _twice(named)
        if twice:
            raise ModelError(f"two nodes of the model have the name {twice!r}")
        reserved = set(named)
        for proto in self._ordered():
            if proto.name and proto.name not in self.names:
                name = proto.name
                self.names.add(name)
            elif proto.name:
                # ONNX lets a node share its name with a tensor.
                name = self.unique(f"{proto.name}/{proto.op_type}")
            else:
                derived = next((o for o in proto.output if o), proto.op_type)
                name = self.unique(f"{derived}/{proto.op_type}" if derived in reserved | self.names else derived)
            self._convert(proto, name)
        if self.unsupported:
            raise _refusal(self.unsupported)
        outputs = {}
        for info in self.graph.output:
            if info.name not in self.nodes:
                raise ModelError(f"nothing computes the output {info.name!r} of the model")
            if info.name in outputs:
                raise ModelError(f"the model has two outputs named {info.name!r}")
            outputs[info.name] = node = self.nodes[info.name]
            declared = DTYPES.get(info.type.tensor_type.elem_type)
            if declared is not None and node.dtype not in (None, declared):
                raise ModelError(
                    f"the output {info.name!r} is declared {declared.name}, but node {node.name!r} gives {node.type}"
                )
        return Model(inputs, outputs, self.graph.name or "model")

    def _leaves(self) -> list[Placeholder]:
        if self.graph.sparse_initializer:
            raise ModelError("the model has sparse initializers, which are not supported")
        for proto in self.graph.initializer:
            if not proto.name:
                raise ModelError("an initializer of the model has no name")
            if proto.name in self.nodes:
                raise ModelError(f"the model has two initializers named {proto.name!r}")
            array = self.tensor(proto, f"initializer {proto.name!r}")
            self.nodes[proto.name] = (Variable if array.dtype.kind == "f" else Constant)(array, name=proto.name)
            self.names.add(proto.name)
        inputs = []
        seen: set[str] = set()
        for info in self.graph.input:
            if not info.name or info.name in seen:
                raise ModelError(f"an input of the model has no name, or one that another has too: {info.name!r}")
            seen.add(info.name)
            if info.name in self.nodes:  # up to IR version 3 initializers are listed as inputs
                continue
            inputs.append(_placeholder(info))
            self.nodes[info.name] = inputs[-1]
            self.names.add(info.name)
        return inputs

    def _ordered(self) -> list[Any]:
        """The nodes so that each comes after all that it needs."""
        made: dict[str, int] = {}
        for index, proto in enumerate(self.graph.node):
            for output in filter(None, proto.output):
                if output in made or output in self.nodes:
                    raise ModelError(f"two things of the model are named {output!r}; the second is {_what(proto)}")
                made[output] = index
        waiting: list[int] = []
        users: dict[int, list[int]] = {}
        for index, proto in enumerate(self.graph.node):
            needed = {i for i in proto.input if i and i not in self.nodes}
            for name in needed:
                if name not in made:
                    raise ModelError(f"{_what(proto)} needs {name!r}, which nothing computes")
                users.setdefault(made[name], []).append(index)
            waiting.append(len({made[name] for name in needed}))
        users = {index: sorted(set(found)) for index, found in users.items()}
        ready = [i for i, count in enumerate(waiting) if count == 0]
        order = []
        for index in ready:  # grows while it is walked
            order.append(index)
            for user in users.get(index, ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    ready.append(user)
        if len(order) < len(waiting):
            stuck = next(i for i, count in enumerate(waiting) if count)
            raise ModelError(
                f"the nodes of the model form a cycle; {_what(self.graph.node[stuck])} is on it or behind it"
            )
        # Files are in order nearly always; then theirs is kept.
        if all(made.get(i, -1) < index for index, p in enumerate(self.graph.node) for i in p.input):
            order = list(range(len(waiting)))
        return [self.graph.node[i] for i in order]

    def _convert(self, proto: Any, name: str) -> None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = self.opsets.get(domain, 0)
        blocked = any(i in self.broken for i in proto.input)
        try:
            mapping = _mapping(proto.op_type, domain, opset)
            if blocked:
                self.broken.update(filter(None, proto.output))
                return
            call = Call(self, proto, name, [self.nodes[i] if i else None for i in proto.input], opset)
            made = mapping(call)
            results = made if isinstance(made, tuple) else (made,)
            missed = call.leftovers(len(results))
            if missed:
                raise Refused(missed)
        except (Refused, MetaopError, ArithmeticError, TypeError, ValueError, IndexError) as error:
            # Python's own errors come from numbers that make no sense: an axis of 2 ** 63, a list of the wrong length.
            self.broken.update(filter(None, proto.output))
            why = " ".join(str(error).split())
            if not isinstance(error, Refused | MetaopError):
                why = f"its inputs or attributes make no sense ({type(error).__name__}: {why})"
            self.unsupported.append(
                {"name": name, "op": proto.op_type, "domain": domain or "ai.onnx", "opset": opset, "why": why}
            )
            return
        for output, node in zip(proto.output, results, strict=False):  # optional outputs at the end may be left out
            if output:
                self.nodes[output] = node


def _mapping(op_type: str, domain: str, opset: int) -> Any:
    if domain:
        raise Refused(f"operators of the domain {domain!r} are not supported")
    for entry in TABLE.get(op_type, ()):
        if entry.since <= opset <= entry.until:
            return entry.function
    if op_type in _NEVER:
        raise Refused(_NEVER[op_type])
    if op_type.startswith(("Sequence", "ConcatFromSequence", "SplitToSequence", "Optional")):
        raise Refused("sequences and optionals are not supported")
    if op_type.startswith(("String", "RegexFull", "TfIdf", "Label")):
        raise Refused("strings are not supported")
    try:
        onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        raise Refused(f"opset {opset} has no such operator") from None
    raise Refused("no meta operator expresses it")


def _placeholder(info: Any) -> Placeholder:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelError(
            f"input {info.name!r} of the model is a {(kind or 'thing without a type')}; only tensors are read"
        )
    declared = info.type.tensor_type
    dtype = DTYPES.get(declared.elem_type)
    if dtype is None:
        raise ModelError(f"input {info.name!r} has elements of type {dtype_name(declared.elem_type)}")
    if not declared.HasField("shape"):
        return Placeholder(dtype=dtype, name=info.name)
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    if len(sizes) > 32 or any(s is not None and s < 0 for s in sizes):
        raise ModelError(f"input {info.name!r} has the impossible shape {sizes[:40]}")
    return Placeholder(sizes, dtype, name=info.name)


def _what(proto: Any) -> str:
    return f"node {proto.name!r} ({proto.op_type})" if proto.name else f"an unnamed node ({proto.op_type})"


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _refusal(unsupported: list[dict[str, Any]]) -> ModelError:
    lines = [
        f"{entry['name']!r} ({entry['op']} of {entry['domain']}, opset {entry['opset']}): {entry['why']}"
        for entry in unsupported
    ]
    count = "a node" if len(lines) == 1 else f"{len(lines)} nodes"
    return ModelError(f"{count} of the model cannot be expressed:\n  " + "\n  ".join(lines), unsupported)
