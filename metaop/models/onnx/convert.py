"""From a ``ModelProto`` to a graph: every node through its mapping, every refusal collected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from metaop.errors import MetaopError, ModelError, UsageError
from metaop.graph.known import Known
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, Variable
from metaop.graph.program import coerce
from metaop.models.model import Model
from metaop.models.onnx import (
    arrangement,
    attention,
    bitwise,
    contraction,
    control,
    convolution,
    elementwise,
    indexing,
    loss,
    matrices,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    resizing,
    sampling,
    selection,
    signal,
    stateful,
    training,
)
from metaop.models.onnx.marks import is_own, load, refine
from metaop.models.onnx.order import MOST_NESTED, needed_by, ordered
from metaop.models.onnx.read import DTYPES, Weights, dtype_name, tensor
from metaop.models.onnx.table import FOLD_BYTES, TABLE, Call, Refused
from metaop.types import TensorType, as_shape, is_floating

__all__ = ["FAMILIES", "Converter", "convert"]

#: importing them fills the table
FAMILIES = (
    arrangement,
    attention,
    bitwise,
    contraction,
    control,
    convolution,
    elementwise,
    indexing,
    loss,
    matrices,
    movement,
    normalization,
    quantization,
    recurrent,
    reduction,
    resizing,
    sampling,
    selection,
    signal,
    stateful,
    training,
)

_NEVER = {
    "Loop": "control flow is not supported",
    "Scan": "control flow is not supported",
}


def convert(
    model: onnx.ModelProto,
    folder: Path | None,
    weights: Weights | None = None,
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Any] | None = None,
) -> Model:
    """The model as a graph, or one error that lists all that cannot be expressed."""
    stored = weights or Weights(model.graph.initializer, [], None)
    return Converter(model, folder, stored, constants or {}, shapes or {}).model()


class Converter:
    """The state of one conversion."""

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        weights: Weights,
        constants: Mapping[str, Any],
        shapes: Mapping[str, Any],
    ) -> None:
        self.constants = dict(constants)
        self.shapes = dict(shapes)
        self.graph = model.graph
        self.weights = weights
        self.folder = folder
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
        self.nodes: dict[str, Node] = {}
        self.broken: set[str] = set()
        self.names: set[str] = set()
        self.unsupported: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._depth = 0
        self._known = Known(variables=True, most=FOLD_BYTES)

    # -- what mappings ask for ----------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """That name, or with a number behind it where it is taken."""
        found = name
        while found in self.names:
            self._numbers[name] = self._numbers.get(name, 1) + 1
            found = f"{name}_{self._numbers[name]}"
        self.names.add(found)
        return found

    def value(self, node: Node) -> np.ndarray | None:
        """The value of a node that depends on no data."""
        return self._known.value(node)

    def tensor(self, proto: Any, what: str) -> np.ndarray:
        """A stored tensor as an array."""
        return tensor(proto, what, self.folder)

    # -- the whole ----------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Convert everything."""
        inputs = self._leaves()
        self._nodes(self.graph.node)
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
        for proto, raw in self.weights:
            if not proto.name:
                raise ModelError("an initializer of the model has no name")
            if proto.name in self.nodes:
                raise ModelError(f"the model has two initializers named {proto.name!r}")
            array = tensor(proto, f"initializer {proto.name!r}", self.folder, raw)
            self.nodes[proto.name] = (Variable if is_floating(array.dtype) else Constant).owning(array, proto.name)
            self.names.add(proto.name)
        inputs = []
        seen: set[str] = set()
        for info in self.graph.input:
            if not info.name or info.name in seen:
                raise ModelError(f"an input of the model has no name, or one that another has too: {info.name!r}")
            seen.add(info.name)
            if info.name in self.nodes:  # up to IR version 3 initializers are listed as inputs
                continue
            self.names.add(info.name)
            placeholder = _placeholder(info, self.shapes.pop(info.name, None))
            if info.name in self.constants:
                self.nodes[info.name] = _constant(placeholder, self.constants.pop(info.name))
                continue
            inputs.append(placeholder)
            self.nodes[info.name] = placeholder
        for given in (*self.constants, *self.shapes):
            raise UsageError(f"from_onnx: the model has no input {given!r}; there are {sorted(seen)}")
        return inputs

    def _nodes(self, nodes: Any) -> None:
        """Convert the nodes of a graph."""
        reserved = {n.name for n in nodes if n.name}
        for proto in ordered(nodes, self.nodes):
            if proto.name and proto.name not in self.names:
                name = proto.name
                self.names.add(name)
            elif proto.name:
                # ONNX lets a node share its name with a tensor, or with another node.
                name = self.unique(f"{proto.name}/{proto.op_type}")
            else:
                derived = next((o for o in proto.output if o), proto.op_type)
                taken = derived in reserved or derived in self.names
                name = self.unique(f"{derived}/{proto.op_type}" if taken else derived)
            self._convert(proto, name)

    def inline(self, graph: Any, name: str) -> tuple[Node, ...]:
        """The outputs of a graph inside a node, converted as a part of the graph around it."""
        if graph.input or graph.sparse_initializer:
            raise Refused("a branch has no inputs of its own, nor sparse initializers")
        if self._depth >= MOST_NESTED:
            raise Refused(f"graphs are nested more than {MOST_NESTED} deep")
        around, told = self.nodes, len(self.unsupported)
        self._depth += 1
        try:
            self.nodes = dict(around)
            for proto in graph.initializer:
                array = self.tensor(proto, f"initializer {proto.name!r} of node {name!r}")
                kind = Variable if array.dtype.kind == "f" else Constant
                self.nodes[proto.name] = kind(array, name=self.unique(proto.name or f"{name}/constant"))
            inside = {o for n in graph.node for o in n.output}
            # A name inside hides the same name outside.
            self.nodes = {k: v for k, v in self.nodes.items() if k not in inside}
            self._nodes(graph.node)
            if len(self.unsupported) > told:
                raise Refused("what is inside of it cannot be expressed")
            missing = [o.name for o in graph.output if o.name not in self.nodes]
            if missing:
                raise Refused(f"nothing computes the outputs {missing} of the branch")
            return tuple(self.nodes[o.name] for o in graph.output)
        finally:
            self.nodes = around
            self._depth -= 1

    def _convert(self, proto: Any, name: str) -> None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = self.opsets.get(domain, 0)
        blocked = any(i in self.broken for i in needed_by(proto))
        try:
            mapping = meta_operator if is_own(proto) else _mapping(proto.op_type, domain, opset)
            if blocked:
                self.broken.update(filter(None, proto.output))
                return
            call = Call(self, proto, name, [self.nodes[i] if i else None for i in proto.input], opset)
            made = mapping(call)
            results = made if isinstance(made, tuple) else (made,)
            missed = call.leftovers(len(results))
            if missed:
                raise Refused(missed)
            producer = results[0].producer
            if "attributes" in call.marks and isinstance(producer, Operator) and producer.name == name:
                producer.attrs = refine(producer.attrs, producer.dtype, call.marks["attributes"])
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


def meta_operator(call: Call) -> Any:
    """A call to a function that stands for a meta operator."""
    inputs = call.everything()
    attrs: dict[str, Any] = load(call.marks["attributes"])
    names = call.marks.get("open", "").split()
    if len(names) > len(inputs):
        raise Refused(f"it has fewer inputs than the attributes {names}")
    tensors, sources = inputs[: len(inputs) - len(names)], inputs[len(inputs) - len(names) :]
    attrs.update(zip(names, sources, strict=True))
    while tensors and tensors[-1] is None:
        tensors.pop()
    return call.make(call.marks["op"], *tensors, **attrs)


def _mapping(op_type: str, domain: str, opset: int) -> Any:
    for entry in TABLE.get(f"{domain}.{op_type}" if domain else op_type, ()):
        if entry.since <= opset <= entry.until:
            return entry.function
    if domain:
        raise Refused(f"operators of the domain {domain!r} are not supported")
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


def _constant(declared: Placeholder, value: Any) -> Constant:
    """The value of an input that never changes."""
    return Constant(coerce(declared, value), name=declared.name)


def _placeholder(info: Any, shape: Any = None) -> Placeholder:
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
        return Placeholder(shape, dtype, name=info.name)
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in declared.shape.dim]
    if len(sizes) > 32 or any(s is not None and s < 0 for s in sizes):
        raise ModelError(f"input {info.name!r} has the impossible shape {sizes[:40]}")
    if shape is None:
        return Placeholder(sizes, dtype, name=info.name)
    wanted = Placeholder(shape, dtype, name=info.name)
    if not TensorType(dtype, as_shape(sizes)).admits(wanted.type):
        raise UsageError(f"from_onnx: input {info.name!r} is declared {list(sizes)}; the shape {shape} does not fit")
    return wanted


def _refusal(unsupported: list[dict[str, Any]]) -> ModelError:
    lines = [
        f"{entry['name']!r} ({entry['op']} of {entry['domain']}, opset {entry['opset']}): {entry['why']}"
        for entry in unsupported
    ]
    count = "a node" if len(lines) == 1 else f"{len(lines)} nodes"
    return ModelError(f"{count} of the model cannot be expressed:\n  " + "\n  ".join(lines), unsupported)
