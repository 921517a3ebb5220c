"""From an exported program to a graph: every ATen operator through its mapping, every refusal collected."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv

from metaop.errors import MetaopError, ModelError
from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node, Placeholder, Variable
from metaop.models.model import Model
from metaop.models.torch import (
    activation,
    contraction,
    convolution,
    elementwise,
    indexing,
    loss,
    movement,
    normalization,
    recurrent,
    reduction,
    resizing,
)
from metaop.models.torch.decompose import apart, decomposable, origin, origins
from metaop.models.torch.table import TABLE, Call, Refused, label, numpy_array, numpy_dtype

__all__ = ["FAMILIES", "Converter", "convert"]

#: importing them fills the table
FAMILIES = (
    activation,
    contraction,
    convolution,
    elementwise,
    indexing,
    loss,
    movement,
    normalization,
    recurrent,
    reduction,
    resizing,
)

#: larger constants are not computed while a program is read
FOLD_BYTES = 1 << 26


def convert(program: ExportedProgram, name: str) -> Model:
    """The program as a graph, or one error that lists all that cannot be expressed."""
    known, tried, reasons = origins(program), set[Any](), dict[str, str]()
    refusal = None
    while True:
        converter = Converter(program, name, known, reasons)
        try:
            return converter.model()
        except ModelError as error:
            if refusal is not None and not error.unsupported:
                raise refusal from None  # parts that are no graph at all tell a user less than the whole does
            refusal = error
            table = {op: how for op, how in decomposable(converter.refused).items() if op not in tried}
            finer = apart(program, table) if converter.refused and table else None
            if finer is None:
                raise
            program, tried = finer, tried.union(table)
            reasons.update({e["op"]: e["why"] for e in converter.unsupported if e["op"] in TABLE})


class Converter:
    """The state of one conversion."""

    def __init__(self, program: ExportedProgram, name: str, known: dict[str, str], reasons: dict[str, str]) -> None:
        self.program = program
        self.name = name
        self.names: set[str] = set()
        self.nodes: dict[torch.fx.Node, Any] = {}
        self.broken: set[torch.fx.Node] = set()
        self.unsupported: list[dict[str, Any]] = []
        #: the operators of these
        self.refused: set[Any] = set()
        #: the operators of the program as it was first, and why their own mappings refused some
        self._origins, self._reasons = known, reasons
        self._folded: dict[torch.fx.Node, Any] = {}
        self._symbols: dict[sympy.Symbol, Node] = {}
        self._sizes: dict[Any, Node] = {}

    # -- what mappings ask for ----------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """That name, or with a number behind it where it is taken."""
        found, number = name, 2
        while found in self.names:
            found, number = f"{name}_{number}", number + 1
        self.names.add(found)
        return found

    def sizes(self, sizes: Sequence[Any]) -> Any:
        """Sizes as an attribute: a tuple of numbers, or a node where some are symbolic."""
        if all(isinstance(s, int) for s in sizes):
            return tuple(sizes)
        parts = [self.size(s) if isinstance(s, torch.SymInt) else Constant(np.array([s], np.int64)) for s in sizes]
        return apply("concat", parts, {"axis": 0}, name=self.unique("sizes")) if len(parts) > 1 else parts[0]

    def size(self, size: torch.SymInt) -> Node:
        """A symbolic size as a vector of one element, computed from the sizes of the inputs."""
        return self._size(sympy.sympify(size.node.expr))

    def _size(self, expr: Any) -> Node:
        if expr in self._sizes:
            return self._sizes[expr]
        if expr in self._symbols:
            node = self._symbols[expr]
        elif expr.is_Integer:
            node = Constant(np.array([int(expr)], np.int64))
        elif isinstance(expr, sympy.Add | sympy.Mul | FloorDiv) and len(expr.args) > 1:
            op = {sympy.Add: "add", sympy.Mul: "multiply"}.get(type(expr), "trunc_div")  # sizes are not negative
            node = self._size(expr.args[0])
            for term in expr.args[1:]:
                node = apply(op, [node, self._size(term)], name=self.unique(f"size/{op}"))
        else:
            raise Refused(f"the size {expr} is not a sum, product or quotient of sizes of the inputs")
        self._sizes[expr] = node
        return node

    # -- the whole ----------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Convert all that the outputs of the module depend on."""
        results = self._results()
        live = _needed([r for r in results if isinstance(r, torch.fx.Node)])
        inputs = self._leaves(live)
        names = _Names(live)
        for node in self.program.graph.nodes:
            if node in live and node.op not in ("placeholder", "output"):
                self._convert(node, names.of(node))
        if self.unsupported:
            raise _refusal(self.unsupported)
        outputs = {}
        for name, result in zip(_output_names(self.program), results, strict=True):
            if result is None:
                continue
            found = self._node(result) if isinstance(result, torch.fx.Node) else None
            if not isinstance(found, Node):
                raise ModelError(f"the output {name!r} of {self.name} is {result!r}, which is not a tensor")
            if name in outputs:
                raise ModelError(f"two outputs of {self.name} are named {name!r}")
            outputs[name] = found
        if not outputs:
            raise ModelError(f"{self.name} returns no tensors")
        return Model(inputs, outputs, self.name)

    def _results(self) -> list[Any]:
        """What the module returns, without the new values of its buffers."""
        (output,) = (n for n in self.program.graph.nodes if n.op == "output")
        specs = self.program.graph_signature.output_specs
        kept = []
        for value, spec in zip(output.args[0], specs, strict=True):
            if spec.kind == OutputKind.USER_OUTPUT:
                kept.append(value)
            elif spec.kind != OutputKind.BUFFER_MUTATION:
                raise ModelError(
                    f"{self.name} has the effect {spec.kind.name} on {spec.target!r}; only new values of buffers are "
                    "left out, for a graph writes into nothing"
                )
        return kept

    def _leaves(self, live: set[torch.fx.Node]) -> list[Placeholder]:
        program = self.program
        found = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        inputs: list[Placeholder] = []
        stored: dict[Any, Node] = {}
        # Of the names that a shared tensor has, the first in ``state_dict``.
        first: dict[Any, str] = {}
        for name, tensor in program.state_dict.items():
            first.setdefault(_memory(tensor), name)
        for spec in program.graph_signature.input_specs:
            node = found[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT:
                if not isinstance(node.meta.get("val"), torch.Tensor):
                    if node in live:
                        raise ModelError(f"the input {node.name!r} of {self.name} must be a tensor")
                    continue
                inputs.append(self._input(node))
            elif node not in live:
                continue
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                values = program.state_dict if spec.target in program.state_dict else program.constants
                tensor = values[spec.target]
                if spec.kind == InputKind.CONSTANT_TENSOR:
                    self._folded[node] = tensor.detach()
                    continue
                key = _memory(tensor)
                if key not in stored:
                    kind = Variable if spec.kind == InputKind.PARAMETER else Constant
                    stored[key] = self._stored(kind, tensor, first.get(key, spec.target))
                self.nodes[node] = stored[key]
            else:
                raise ModelError(f"{self.name} takes {node.name!r}, a {spec.kind.name}, which is not supported")
        return inputs

    def _input(self, node: torch.fx.Node) -> Placeholder:
        value = node.meta["val"]
        try:
            dtype = numpy_dtype(value.dtype)
        except Refused as why:
            raise ModelError(f"input {node.name!r}: {why}") from None
        shape = [s if isinstance(s, int) else None for s in value.shape]
        placeholder = Placeholder(shape, dtype, name=self.unique(node.name))
        self.nodes[node] = placeholder
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.expr not in self._symbols:
                name = self.unique(f"{node.name}/size_{axis}")
                self._symbols[size.node.expr] = apply(
                    "shape_of", [placeholder], {"start": axis, "end": axis + 1}, name=name
                )
        return placeholder

    def _stored(self, kind: Any, tensor: torch.Tensor, name: str) -> Node:
        try:
            array = numpy_array(tensor)
        except Refused as why:
            raise ModelError(f"{name!r}: {why}") from None
        return kind(array, name=self.unique(name))

    # -- one operator -------------------------------------------------------------------------------------------------

    def _convert(self, node: torch.fx.Node, name: str) -> None:
        if any(n in self.broken for n in node.all_input_nodes):
            self.broken.add(node)
            return
        if isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat | int | bool | float):
            return  # read from what PyTorch knows of it where it is used
        try:
            if node.target is operator.getitem:
                self._item(node)
            elif self._foldable(node):
                self._fold(node)
            else:
                self.nodes[node] = self._mapped(node, name)
        except (Refused, MetaopError, ArithmeticError, TypeError, ValueError, IndexError) as error:
            # Python's own errors come from arguments that a mapping was not written for.
            self.broken.add(node)
            why = " ".join(str(error).split())
            if not isinstance(error, Refused | MetaopError):
                why = f"its arguments are not supported ({type(error).__name__}: {why})"
            if whole := origin(node, self._origins):
                own = f", where {self._reasons[whole]}" if whole in self._reasons else ""
                why = f"{why} (it is a part of aten.{whole}{own})"
            self.refused.add(node.target)
            self.unsupported.append({"name": name, "op": label(node.target), "domain": "aten", "opset": 0, "why": why})

    def _mapped(self, node: torch.fx.Node, name: str) -> Any:
        target = node.target
        entry = TABLE.get(label(target))
        if entry is None:
            results = node.meta["val"] if isinstance(node.meta["val"], list | tuple) else [node.meta["val"]]
            if any(isinstance(r, torch.Tensor) and r.is_complex() for r in results):
                raise Refused("complex numbers are not supported")
            raise Refused("no meta operator expresses it")
        values: dict[Node, Any] = {}
        given: dict[str, Any] = {}
        for index, argument in enumerate(target._schema.arguments):  # type: ignore[union-attr]
            if index < len(node.args):
                value = node.args[index]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                raise Refused(f"argument {argument.name!r} is missing")
            if argument.name in entry.looked_at:
                given[argument.name] = self._argument(value, values)
            elif "self" in entry.looked_at and argument.name == "input" and index == 0:
                given["self"] = self._argument(value, values)
            elif argument.name not in entry.told and not _ignorable(argument, value):
                raise Refused(f"{argument.name}={value!r} is not supported")
        made = entry.function(Call(self, name, values, node.meta["val"]), **given)
        self._check(node, made)
        return made

    def _argument(self, value: Any, values: dict[Node, Any]) -> Any:
        """An argument as mappings want it: tensors as nodes, symbolic sizes as PyTorch has them."""
        if isinstance(value, torch.fx.Node):
            known = value.meta.get("val")
            if not isinstance(known, torch.Tensor):
                return known
            found = self._node(value)
            values[found] = known
            return found
        if isinstance(value, list | tuple):
            return tuple(self._argument(v, values) for v in value)
        return value

    def _node(self, node: torch.fx.Node) -> Node:
        if node not in self.nodes:
            if node not in self._folded:
                raise Refused(f"{node.name!r} is not a tensor")
            self.nodes[node] = self._stored(Constant, self._folded[node], node.name)
        return self.nodes[node]

    def _item(self, node: torch.fx.Node) -> None:
        source: Any = node.args[0]
        index = node.args[1]
        if source in self._folded:
            self._folded[node] = self._folded[source][index]
            return
        results = self.nodes[source]
        results = results if isinstance(results, tuple) else (results,)
        if not isinstance(index, int) or index >= len(results) or results[index] is None:
            raise Refused(f"its output {index} is not supported")
        self.nodes[node] = results[index]

    def _check(self, node: torch.fx.Node, made: Any) -> None:
        """Hold what the rules say of a result against what PyTorch says: a mapping that went wrong shows here."""
        told = node.meta["val"]
        for found, value in zip(
            made if isinstance(made, tuple) else (made,),
            told if isinstance(told, list | tuple) else (told,),
            strict=False,
        ):
            if found is None or not isinstance(value, torch.Tensor):
                continue
            dtype = numpy_dtype(value.dtype)
            shape = tuple(s if isinstance(s, int) else None for s in value.shape)
            wrong = found.dtype not in (None, dtype)
            if found.shape is not None:
                wrong |= len(found.shape) != len(shape)
                wrong |= any(None not in (a, b) and a != b for a, b in zip(found.shape, shape, strict=False))
            if wrong:
                raise Refused(f"PyTorch says that it gives {dtype}{list(shape)}, but the mapping gives {found.type}")

    # -- constants ----------------------------------------------------------------------------------------------------

    def _foldable(self, node: torch.fx.Node) -> bool:
        """Whether nothing of the node depends on inputs, parameters or buffers: PyTorch itself computes it then."""
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or not all(n in self._folded for n in node.all_input_nodes):
            return False
        if torch.Tag.nondeterministic_seeded in target.tags:
            raise Refused("it draws random numbers while it runs; make them an input of the model")
        known: Any = node.meta.get("val")
        tensors = known if isinstance(known, list | tuple) else [known]
        return all(isinstance(t, torch.Tensor) and all(isinstance(s, int) for s in t.shape) for t in tensors) and (
            sum(t.numel() * t.element_size() for t in tensors) <= FOLD_BYTES
        )

    def _fold(self, node: torch.fx.Node) -> None:
        def constant(value: Any) -> Any:
            return self._folded[value] if isinstance(value, torch.fx.Node) else value

        args, kwargs = torch.fx.node.map_aggregate((node.args, dict(node.kwargs)), constant)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        with torch.no_grad():
            self._folded[node] = node.target(*args, **kwargs)  # type: ignore[operator]


class _Names:
    """Names of nodes from the modules they are computed by."""

    def __init__(self, live: set[torch.fx.Node]) -> None:
        # The one operator of a module of PyTorch's own has the module's name.
        self.owners: dict[torch.fx.Node, tuple[str, bool]] = {}
        self.last: dict[str, torch.fx.Node] = {}
        for node in live:
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            path, kind = stack[-1] if stack else ("", "")
            kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
            path = "" if path.startswith("_empty") else path.split("@")[0]
            self.owners[node] = (path, kind.startswith("torch.nn.modules.") and bool(path))

    def of(self, node: torch.fx.Node) -> str:
        """The module's path, and the operator's name where the module may have several."""
        path, single = self.owners[node]
        own = label(node.target).split(".")[0].strip("_")
        if single and own in _MAIN:
            return path
        return f"{path}.{own}" if path else own


#: operators that are what their module is for; others within it are named beside it
_MAIN = {name.split(".")[0].strip("_") for name in TABLE} - {
    *("view", "reshape", "unsafe_view", "permute", "transpose", "t", "expand", "slice", "select", "clone", "to_copy"),
    *("unsqueeze", "squeeze", "contiguous", "mul", "add", "div", "sub"),
}


#: where tensors lie and how, which is no part of what they mean; gradients do not hold memory formats either
_PLACEMENT = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "cudnn_enabled", "cudnn_enable"}


def _ignorable(argument: Any, value: Any) -> bool:
    if argument.name in _PLACEMENT:
        return True
    return bool(argument.has_default_value() and value == argument.default_value)


def _memory(tensor: torch.Tensor) -> Any:
    """What two tensors share if they are one: weights that modules share stay one variable."""
    if not tensor.numel():
        return id(tensor)
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())


def _needed(results: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
    found: set[torch.fx.Node] = set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.all_input_nodes
    return found


def _output_names(program: ExportedProgram) -> list[str]:
    """``output`` for the only one, keys of a dict, else ``output_<position>``."""
    spec = program.call_spec.out_spec
    if spec is None:
        return []
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    names = []
    for path, _ in pytree.tree_flatten_with_path(tree)[0]:
        parts = [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path]
        text = ".".join(parts)
        names.append(f"output_{text}" if parts and parts[0].isdecimal() else text or "output")
    return names


def _refusal(unsupported: list[dict[str, Any]]) -> ModelError:
    lines = [f"{entry['name']!r} (aten.{entry['op']}): {entry['why']}" for entry in unsupported]
    count = "an operator" if len(lines) == 1 else f"{len(lines)} operators"
    return ModelError(f"{count} of the model cannot be expressed:\n  " + "\n  ".join(lines), unsupported)
