"""From a graph to a ``ModelProto``.

What a meta operator is in ONNX, the bindings of ONNX Runtime say already; here they are asked once more, for a whole
graph. An operator becomes one ONNX node where the importer would read the very same operator back from it. Otherwise,
that is for operators that ONNX does not have, it becomes a call to a function of the domain ``metaop`` whose body is
what the binding writes: any tool can run it, and the importer knows what it stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from metaop.backends import get
from metaop.backends.onnxruntime.graph import IR_VERSION, OPSET, Graph, NoKernel, Value, tensor_dtype
from metaop.errors import MetaopError, ModelError, UnsupportedOpError
from metaop.graph.build import KNOWN, resolve_weak
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, RandomData, Variable
from metaop.graph.order import execution_order
from metaop.graph.program import floating_dtype, value_of
from metaop.models.model import Model, named_outputs
from metaop.models.onnx.convert import convert
from metaop.models.onnx.marks import DOMAIN, dump, mark
from metaop.models.onnx.save import save
from metaop.types import TensorType

__all__ = ["export"]


def export(outputs: Any, path: str | os.PathLike[str] | None, external_data: bool | None) -> onnx.ModelProto:
    """The model of some outputs; see :func:`metaop.to_onnx`."""
    inputs, name = (outputs.inputs, outputs.name) if isinstance(outputs, Model) else ((), "metaop")
    # Not as a model, whose inputs need names of their own: here those that are taken get others.
    exporter = Exporter(named_outputs(outputs), inputs, name)
    model = exporter.model()
    if exporter.needed > exporter.opset:
        # A model has one opset: all of it is written again in the newest that a part of it needs.
        exporter = Exporter(named_outputs(outputs), inputs, name, exporter.needed)
        model = exporter.model()
    return save(model, exporter.arrays, path, external_data)


class _Unknown(Exception):
    """A binding asked for a size that is not known."""


class _OpenValue(Value):
    """An attribute that is computed while the model runs, in the place of a number or a sequence of numbers."""

    def __len__(self) -> int:
        if not self.shape or self.shape[0] is None:
            raise _Unknown
        return int(self.shape[0])


class _OpGraph(Graph):
    """One operator as its binding writes it."""

    def __init__(self, left_out: Iterable[str]) -> None:
        super().__init__()
        self.left_out = frozenset(left_out)

    def since(self, opset: int) -> None:
        """Whatever ONNX Runtime there is: the file is for others too."""
        self.opset = max(self.opset, opset)

    def no_kernel(self, reason: str) -> None:
        """What ONNX Runtime cannot run may be written all the same."""

    def node(self, op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        for name, value in attributes.items():
            # None is a size that nobody knows, but for attributes of the operator's own that are left out.
            if (
                (value is None and name not in self.left_out)
                or isinstance(value, Value)
                or (isinstance(value, tuple) and None in value)
            ):
                raise _Unknown
        return super().node(op_type, inputs, attributes)

    def constant(self, value: Any, dtype: np.dtype) -> Value:
        if isinstance(value, tuple | list) and any(v is None for v in value):
            raise _Unknown
        return super().constant(value, dtype)

    def _lift(self, x: Any, dtype: np.dtype) -> str:
        if isinstance(x, tuple | list) and any(isinstance(v, Value) for v in x):
            x = self.Concat(*[self.Reshape(v, (1,), allowzero=1) for v in x], axis=0)
        return str(super()._lift(x, dtype))


@dataclass
class _Written:
    """An operator in ONNX; ``None`` among the inputs is one that is left out."""

    inputs: list[str]
    outputs: list[str]
    nodes: list[Any]
    constants: list[Any]
    opset: int


class Exporter:
    """The state of one export."""

    def __init__(
        self, outputs: Mapping[str, Node], inputs: Sequence[Placeholder], name: str, opset: int = OPSET
    ) -> None:
        self.opset = opset
        #: the newest opset that an operator is written in
        self.needed = opset
        self.outputs = dict(outputs)
        self.name = name
        self.order = execution_order(list(self.outputs.values()))
        found = [n for n in self.order if isinstance(n, Placeholder)]
        self.inputs = [*inputs, *(n for n in found if n not in inputs)]
        self.types: dict[tuple[Node, int], TensorType] = {}
        #: the name of each value, and of each node
        self.values: dict[tuple[Node, int], str] = {}
        self.taken: set[str] = set(self.outputs)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        #: the data of initializers, which are put in when the model is saved
        self.arrays: dict[str, np.ndarray] = {}
        self.functions: dict[tuple[Any, ...], Any] = {}
        self.unsupported: list[dict[str, Any]] = []

    def model(self) -> onnx.ModelProto:
        """Export everything."""
        self._name_outputs()
        adopted = floating_dtype([*self.order, *self.inputs])
        for leaf in self.inputs:
            self._input(leaf, adopted)
        for node in self.order:
            if isinstance(node, Operator):
                self._operator(node)
            elif isinstance(node, Variable | Constant) and node.type.dtype is not None:
                self._stored(node, node._value)
        if self.unsupported:
            lines = [f"{e['name']!r} ({e['op']}): {e['why']}" for e in self.unsupported]
            count = "a node" if len(lines) == 1 else f"{len(lines)} nodes"
            raise ModelError(f"{count} cannot be written as ONNX:\n  " + "\n  ".join(lines), self.unsupported)
        for name, node in self.outputs.items():
            if self.values[value_of(node)] != name:
                copy = helper.make_node("Identity", [self.values[value_of(node)]], [name], self._unique(name))
                self.nodes.append(copy)
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [_info(self.values[n, 0], self.types[n, 0], n.name) for n in self.inputs],
            [_info(name, self.types[value_of(n)]) for name, n in self.outputs.items()],
            self.initializers,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        if self.functions:
            opsets.append(helper.make_opsetid(DOMAIN, 1))
        return helper.make_model(
            graph,
            functions=list(self.functions.values()),
            opset_imports=opsets,
            ir_version=_ir_version(self.opset),
            producer_name="metaop",
        )

    # -- names --------------------------------------------------------------------------------------------------------

    def _unique(self, name: str) -> str:
        found, number = name, 2
        while found in self.taken:
            found, number = f"{name}_{number}", number + 1
        self.taken.add(found)
        return found

    def _name_outputs(self) -> None:
        """An output's tensor has its name; where that is a leaf of another name, or has two, a copy is made."""
        for name, node in self.outputs.items():
            value = value_of(node)
            if value not in self.values and (isinstance(node.producer, Operator) or node.name == name):
                self.values[value] = name

    def _name(self, node: Node, index: int = 0, name: str | None = None) -> str:
        if (node, index) not in self.values:
            self.values[node, index] = self._unique(name or node.name)
        return self.values[node, index]

    # -- leaves -------------------------------------------------------------------------------------------------------

    def _input(self, node: Placeholder, adopted: np.dtype | None) -> None:
        dtype = node.type.dtype or adopted
        if dtype is None:
            raise ModelError(f"the placeholder {node.name!r} has no dtype, which ONNX needs: declare one")
        self.types[node, 0] = node.type.with_dtype(dtype)
        self._name(node)

    def _stored(self, node: Node, array: np.ndarray) -> None:
        """Variables are initializers. So are constants, but floating ones, for those would be read as variables."""
        self.types[node, 0] = TensorType(array.dtype, array.shape)
        name = self._name(node)
        if isinstance(node, Variable) or array.dtype.kind != "f":
            self._initializer(name, array)
        else:
            value = numpy_helper.from_array(array)
            self.nodes.append(helper.make_node("Constant", [], [name], self._node_name(node, name), value=value))

    def _node_name(self, node: Node, value: str) -> str:
        """The name of the ONNX node: our own where it is free or that of the value."""
        return node.name if node.name == value or node.name not in self.taken else value

    def _initializer(self, name: str, array: np.ndarray) -> None:
        proto = onnx.TensorProto(name=name, data_type=tensor_dtype(array.dtype), dims=array.shape)
        self.initializers.append(proto)
        self.arrays[name] = array

    # -- operators ----------------------------------------------------------------------------------------------------

    def _operator(self, node: Operator) -> None:
        for index, known in enumerate(node.types):
            self.types.setdefault((node, index), known)
        try:
            self._infer(node)
            inputs = [None if n is None else self.types[value_of(n)] for n in node.inputs]
            sources = {name: self._integers(node, name, source) for name, source in node.open.items()}
            written = _written(node, inputs, {name: kind for name, (_, kind) in sources.items()})
            self.needed = max(self.needed, written.opset)
            names = [None if n is None else self.values[value_of(n)] for n in node.inputs]
            names += [name for name, _ in sources.values()]
        except (MetaopError, NoKernel, _Unknown, TypeError) as error:
            self.unsupported.append(
                {"name": node.name, "op": node.op.name, "domain": DOMAIN, "opset": self.opset, "why": _why(error, node)}
            )
            for index in range(len(node.types)):
                self.values.setdefault((node, index), "")
            return
        own = self.values.get((node, 0)) if node.results == (node,) else None
        name = node.name if node.name == own or node.name not in self.taken else self._unique(node.name)
        self.taken.add(name)
        if node.results == (node,) and own is None:
            self.values[node, 0] = name
        outputs = [self._name(node, r.index, r.name) for r in node.results]
        plain = _plain(node, inputs, written, {k: kind for k, (_, kind) in sources.items()}, self.needed)
        if plain is not None:
            self._plain(name, plain, written, names, outputs)
        else:
            self._call(node, name, inputs, written, names, outputs)

    def _infer(self, node: Operator) -> None:
        """Types that depend on dtypes which the placeholders took over, and numbers that take these."""
        op = node.op
        types = [None if n is None else self.types.get(value_of(n)) for n in node.inputs]
        main = next(
            (t.dtype for i, t in enumerate(types) if t is not None and op.param_at(i).name not in op.also), None
        )
        for index, source in enumerate(node.inputs):
            if isinstance(source, RandomData):
                raise ModelError(f"its {source.param!r} is drawn by metaop in each run, which ONNX has no word for")
            if isinstance(source, Constant) and source.weak:
                self._stored(source, resolve_weak(op, source, main or source._value.dtype))
                types[index] = self.types[source, 0]
        if node.open:
            found = op.open_types(types, node.attrs, {name: KNOWN.sizes(n) for name, n in node.open.items()})
        else:
            found = op.infer(types, node.attrs)
        for index, kind in enumerate(found):
            self.types[node, index] = kind

    def _integers(self, node: Operator, attribute: str, source: Node) -> tuple[str, TensorType]:
        """The value that an open attribute comes from; ONNX wants such integers as int64."""
        kind, name = self.types[value_of(source)], self.values[value_of(source)]
        if kind.dtype is None or kind.dtype.kind not in "iu" or kind.dtype == np.int64:
            return name, kind
        wide = self._unique(f"{node.name}/{attribute}")
        self.nodes.append(helper.make_node("Cast", [name], [wide], wide, to=tensor_dtype(np.int64)))
        return wide, kind.with_dtype(np.dtype(np.int64))

    def _plain(self, name: str, proto: Any, written: _Written, names: list[str | None], outputs: list[str]) -> None:
        known = dict(zip(written.inputs, names, strict=True))
        for tensor in written.constants:
            own = known[tensor.name] = self._unique(f"{name}/{tensor.name}")
            self._initializer(own, numpy_helper.to_array(tensor))
        renamed = dict(zip(written.outputs, outputs, strict=True))
        proto.name = name
        proto.input[:] = [known[i] or "" if i else "" for i in proto.input]
        proto.output[:] = [renamed.get(o, "") for o in proto.output]
        while proto.output and not proto.output[-1]:
            proto.output.pop()
        self.nodes.append(proto)

    def _call(
        self,
        node: Operator,
        name: str,
        types: Sequence[TensorType | None],
        written: _Written,
        names: list[str | None],
        outputs: list[str],
    ) -> None:
        attributes = dump(node.attrs)
        key = (node.op.name, attributes, tuple(map(str, types)), tuple(node.open))
        if key not in self.functions:
            constants = [helper.make_node("Constant", [], [t.name], value=t) for t in written.constants]
            self.functions[key] = helper.make_function(
                DOMAIN,
                f"{node.op.name}__{len(self.functions) + 1}",
                written.inputs,
                written.outputs,
                constants + written.nodes,
                [helper.make_opsetid("", self.opset)],
            )
        call = helper.make_node(self.functions[key].name, [n or "" for n in names], outputs, name, domain=DOMAIN)
        mark(call, op=node.op.name, attributes=attributes, **({"open": " ".join(node.open)} if node.open else {}))
        self.nodes.append(call)


def _written(node: Operator, types: Sequence[TensorType | None], open: Mapping[str, TensorType]) -> _Written:
    """The operator as its binding writes it."""
    binding = get("onnxruntime").bindings.find(node.op.name)
    o = _OpGraph(name for name, value in node.attrs.items() if value is None)
    for known in (*types, *open.values()):
        if known is not None and known.dtype is None:
            raise ModelError("the dtype of an input is not known: declare those of the placeholders")
    names = [f"input{i}" for i in range(len(types) + len(open))]
    tensors = [None if t is None else _value(Value, n, t) for n, t in zip(names, types, strict=False)]
    given = {
        attribute: _value(_OpenValue, n, t) for n, (attribute, t) in zip(names[len(types) :], open.items(), strict=True)
    }
    o.inputs = [*tensors, *given.values()]
    assert binding.function is not None
    result = binding.function(o, *tensors, **binding.keywords({**node.attrs, **given}))
    found = [o.Identity(y) if y in o.inputs else y for y in (result if isinstance(result, tuple) else (result,))]
    return _Written(names, [y.name for y in found], o.nodes, o.initializers, o.opset)


def _value(kind: Any, name: str, known: TensorType) -> Any:
    # A binding that asks an unknown rank for its length fails, which is told as what it is.
    return kind(name, known.dtype, known.shape)


def _plain(
    node: Operator, types: Sequence[TensorType | None], written: _Written, open: Mapping[str, TensorType], opset: int
) -> Any | None:
    """The one ONNX node that is read back as the same operator, if there is one."""
    if len(written.nodes) != 1:
        return None
    (proto,) = written.nodes
    lost = {k: v for k, v in node.attrs.items() if isinstance(v, float) and float(np.float32(v)) != v}
    if lost:
        mark(proto, attributes=dump(lost))
    infos = [
        _info(name, kind)
        for name, kind in zip(written.inputs, (*types, *open.values()), strict=True)
        if kind is not None
    ]
    graph = helper.make_graph(
        [proto], "operator", infos, [onnx.ValueInfoProto(name=n) for n in written.outputs], written.constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_ir_version(opset))
    try:
        read = convert(model, None)
    except MetaopError:
        read = None
    if read is not None and _same(node, read, len(types)):
        return proto
    del proto.metadata_props[:]
    return None


def _ir_version(opset: int) -> int:
    return max(IR_VERSION, helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


def _same(node: Operator, read: Model, count: int) -> bool:
    """Whether what was read is that operator, applied to the inputs in their order."""
    found = read.outputs[0].producer
    if not isinstance(found, Operator) or found.op is not node.op or dump(found.attrs) != dump(node.attrs):
        return False
    if [value_of(n) for n in read.outputs] != [(found, i) for i in range(len(node.types))]:
        return False
    names = [None if n is None else n.name for n in found.inputs]
    wanted = [None if n is None else f"input{i}" for i, n in enumerate(node.inputs)]
    for listed in (names, wanted):
        while listed and listed[-1] is None:
            listed.pop()
    opened = {name: source.name for name, source in found.open.items()}
    return names == wanted and opened == {name: f"input{count + i}" for i, name in enumerate(node.open)}


def _info(name: str, kind: TensorType, label: str | None = None) -> Any:
    """Unknown sizes of inputs get names of their own."""
    if kind.dtype is None:
        return onnx.ValueInfoProto(name=name)
    shape = None
    if kind.shape is not None:
        shape = [f"{label}_{i}" if s is None and label else s for i, s in enumerate(kind.shape)]
    return helper.make_tensor_value_info(name, tensor_dtype(kind.dtype), shape)


def _why(error: Exception, node: Operator) -> str:
    if isinstance(error, UnsupportedOpError):
        return f"no form of it in ONNX is known ({get('onnxruntime').bindings.reason(node.op.name)})"
    if isinstance(error, _Unknown | TypeError):
        types = ", ".join("-" if n is None else f"{n.name}: {n.type}" for n in node.inputs)
        what = f"the attributes {', '.join(map(repr, node.open))}" if node.open else "sizes or ranks"
        return f"ONNX wants {what} as numbers where they are not known before data are ({types})"
    return " ".join(str(error).split())
