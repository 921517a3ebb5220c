"""From a frozen TensorFlow graph to a graph of meta operators: every operator through its mapping, every refusal
collected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from metaop.errors import MetaopError, ModelError
from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, Variable
from metaop.graph.order import execution_order
from metaop.graph.session import Session
from metaop.models.model import Model
from metaop.models.tensorflow import contraction, convolution, elementwise, movement, normalization, reduction, shapes
from metaop.models.tensorflow.freeze import Frozen, Weight
from metaop.models.tensorflow.patterns import gelu_inputs
from metaop.models.tensorflow.table import TABLE, Call, First, Refused, Value, numpy_dtype, shape_of, to_first, to_last
from metaop.types import Shape, TensorType

__all__ = ["FAMILIES", "Converter", "convert"]

#: importing them fills the table
FAMILIES = (contraction, convolution, elementwise, movement, normalization, reduction, shapes)

#: larger values are not computed while a model is read
FOLD_BYTES = 1 << 26

_CONTROL = {"If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "For", "Switch", "Merge", "Enter"}
_CONTROL |= {"Exit", "NextIteration", "LoopCond"}
#: scopes that inlining puts before names
_CALLS = re.compile(r"^((Stateful)?PartitionedCall(_\d+)?/)+(?=.)")
_NUMBER = re.compile(r"_\d+$")


def convert(frozen: Frozen) -> Model:
    """The model as a graph, or one error that lists all that cannot be expressed."""
    return Converter(frozen).model()


class Converter:
    """The state of one conversion."""

    def __init__(self, frozen: Frozen) -> None:
        self.frozen = frozen
        self.values: dict[str, Value] = {}
        self.broken: set[str] = set()
        self.names: set[str] = set()
        self.unsupported: list[dict[str, Any]] = []
        #: names of weights that are there already
        self.placed: set[str] = set()
        #: the tensors that something needs
        self.wanted: set[str] = set()
        self._known: dict[Node, np.ndarray | None] = {}

    # -- what mappings ask for ----------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """That name, or with a number behind it where it is taken."""
        found, number = name, 2
        while found in self.names:
            found, number = f"{name}_{number}", number + 1
        self.names.add(found)
        return found

    def known(self, node: Node) -> np.ndarray | None:
        """The value of a node that depends neither on data nor on variables."""
        if node not in self._known:
            self._known[node] = node.value if isinstance(node, Constant) else _fold(node)
        return self._known[node]

    def turned(self, value: Value, node: Node, perm: Callable[[int], tuple[int, ...]], part: str) -> Node:
        """A tensor in the other layout."""
        order = perm(len(node.shape or ()))
        name = self.unique(f"{value.name}/{part}")
        if isinstance(node, Constant):
            return Constant(np.transpose(node.value, order), name=name)
        return apply("transpose", (node,), {"perm": order}, name=name)

    # -- the whole ----------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Convert everything that the outputs need."""
        needed = _needed(self.frozen.outputs.values())
        self.wanted = {t.name for op in needed for t in op.inputs} | {t.name for t in self.frozen.outputs.values()}
        weights = {op.name: self.frozen.weights[op.name] for op in needed if op.name in self.frozen.weights}
        # Names that users know come first; whatever else wants one of them gets another.
        self.names = {*self.frozen.inputs, *(weight.name for weight in weights.values())}
        inputs = [self._placeholder(name, tensor) for name, tensor in self.frozen.inputs.items()]
        taken = {tensor.op.name for tensor in self.frozen.inputs.values()}
        gelus, inner = gelu_inputs(needed)
        for op in needed:
            if op.name in weights:
                self._weight(op, weights[op.name])
            elif op.name in gelus:
                self._gelu(op, gelus[op.name])
            elif op.name not in taken and op.name not in inner:
                self._convert(op)
        if self.unsupported:
            raise _refusal(self.unsupported)
        outputs = {}
        for name, tensor in self.frozen.outputs.items():
            if tensor.name not in self.values:
                raise ModelError(f"nothing computes the output {name!r} of the model")
            value = self.values[tensor.name]
            if value.node is None:
                assert value.first is not None
                value.node = self.turned(value, value.first, to_last, "channels_last")
            outputs[name] = value.node
        return Model(inputs, outputs, self.frozen.name)

    def _placeholder(self, name: str, tensor: tf.Tensor) -> Placeholder:
        try:
            node = Placeholder(shape_of(tensor), numpy_dtype(tensor.dtype), name=name)
        except Refused as error:
            raise ModelError(f"input {name!r} of the model: {error}") from None
        self.values[tensor.name] = Value(name, node)
        return node

    def _weight(self, op: tf.Operation, weight: Weight) -> None:
        # Variables may share their name; the first of them keeps it.
        name = weight.name if weight.name not in self.placed else self.unique(weight.name)
        self.placed.add(name)
        try:
            numpy_dtype(op.outputs[0].dtype)
        except Refused as error:
            self._refuse(op, name, str(error))
            return
        kind = Variable if weight.trainable and weight.value.dtype.kind == "f" else Constant
        self.values[op.outputs[0].name] = Value(name, kind(weight.value, name=name))

    def _convert(self, op: tf.Operation) -> None:
        name = self.unique(self._name(op))
        blocked = any(t.op.name in self.broken for t in op.inputs)
        try:
            if all(t.dtype == tf.resource for t in op.outputs) and op.outputs:
                # The handle of a variable, which something needs that cannot be expressed.
                self.broken.add(op.name)
                return
            mapping = TABLE.get(op.type)
            if mapping is None:
                raise Refused(_why(op))
            if blocked:
                self.broken.add(op.name)
                return
            for output in op.outputs:
                if output.name in self.wanted:
                    numpy_dtype(output.dtype)
            call = Call(self, op, name, [self.values[t.name] for t in op.inputs])
            made = mapping(call)
            results = made if isinstance(made, tuple) else (made,)
            missed = call.leftovers()
            if missed:
                raise Refused(missed)
            for index, output in enumerate(op.outputs):
                if index < len(results):
                    self.values[output.name] = self._value(f"{name}:{index}" if index else name, results[index], output)
                elif output.name in self.wanted:
                    raise Refused(f"output {index} is not supported")
        except (Refused, MetaopError, ArithmeticError, TypeError, ValueError, IndexError) as error:
            # Python's own errors come from numbers that make no sense: an axis out of range, a list too short.
            why = " ".join(str(error).split())
            if not isinstance(error, Refused | MetaopError):
                why = f"its inputs or attributes make no sense ({type(error).__name__}: {why})"
            self._refuse(op, name, why)

    def _gelu(self, op: tf.Operation, x: tf.Tensor) -> None:
        if x.op.name in self.broken:
            self.broken.add(op.name)
            return
        name, value = self.unique(self._name(op)), self.values[x.name]
        source = value.first if value.is_first else value.node
        made = apply("gelu", (source,), {"approximate": "none"}, name=name)
        self.values[op.outputs[0].name] = self._value(name, First(made) if value.is_first else made, op.outputs[0])

    def _name(self, op: tf.Operation) -> str:
        """The name in TensorFlow, less what inlining and tracing a model once more have added to it."""
        *scopes, last = _CALLS.sub("", op.name).split("/")
        plain = [_NUMBER.sub("", scope) for scope in scopes]
        layers = self.frozen.layers
        scopes = [b if a not in layers and b in layers else a for a, b in zip(scopes, plain, strict=True)]
        return "/".join([*scopes, last])

    def _value(self, name: str, made: Any, tensor: tf.Tensor) -> Value:
        if isinstance(made, Value):
            return made
        shape = shape_of(tensor)
        if isinstance(made, First):
            if shape is not None:
                shape = tuple(shape[i] for i in to_first(len(shape)))
            return Value(name, first=_checked(made.node, tensor, shape))
        return Value(name, _checked(made, tensor, shape))

    def _refuse(self, op: tf.Operation, name: str, why: str) -> None:
        self.broken.add(op.name)
        self.unsupported.append({"name": name, "op": op.type, "domain": "tensorflow", "opset": None, "why": why})


def _needed(outputs: Any) -> list[tf.Operation]:
    """The operators that the outputs depend on, so that each comes after all that it needs."""
    order: list[tf.Operation] = []
    seen: set[str] = set()
    stack = [(tensor.op, False) for tensor in reversed(list(outputs))]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif op.name not in seen:
            seen.add(op.name)
            stack.append((op, True))
            stack += [(t.op, False) for t in reversed(op.inputs)]
    return order


def _fold(node: Node) -> np.ndarray | None:
    """The value of a node that depends neither on data nor on variables, computed on NumPy; ``None`` if it does."""
    for needed in execution_order([node]):
        if isinstance(needed, Placeholder | Variable):
            return None
        for kind in getattr(needed, "types", (needed.type,)):
            if kind.dtype is None or kind.shape is None or None in kind.shape:
                return None
            if math.prod(s or 0 for s in kind.shape) * kind.dtype.itemsize > FOLD_BYTES:
                raise Refused(f"the constant {needed.name!r} ({kind}) is too large to be computed while reading")
    with Session("numpy") as session:
        return session.run(node)


def _checked(node: Node, tensor: tf.Tensor, shape: Shape | None) -> Node:
    """The node, of which all is known that TensorFlow knows; refused where the two contradict each other."""
    said = TensorType(numpy_dtype(tensor.dtype), shape)
    if not said.admits(node.type):
        raise Refused(f"it would give {node.type} where TensorFlow gives {said}")
    if isinstance(node, Operator) and shape is not None and not node.type.known:
        own = node.shape or (None,) * len(shape)
        sizes = tuple(b if a is None else a for a, b in zip(own, shape, strict=True))
        node.type = TensorType(said.dtype, sizes)
        if len(node.types) == 1:
            node.types = (node.type,)
    return node


def _why(op: tf.Operation) -> str:
    if op.type in _CONTROL:
        loop = op.type in ("While", "StatelessWhile", "Enter", "NextIteration", "LoopCond")
        return "control flow is not supported" + (
            "; a recurrent layer of Keras is written out where its number of steps is known" if loop else ""
        )
    if op.type.startswith("TensorList"):
        return "lists of tensors, which loops work on, are not supported"
    if op.type in ("Placeholder", "PlaceholderWithDefault"):
        return "it is an input, but not one of the signature"
    if any(t.dtype == tf.string for t in (*op.inputs, *op.outputs)):
        return "strings are not supported"
    if op.type.startswith(("Random", "Stateless", "Multinomial", "TruncatedNormal", "ParameterizedTruncatedNormal")):
        return "randomness inside of a model is not supported"
    return "no meta operator expresses it"


def _refusal(unsupported: list[dict[str, Any]]) -> ModelError:
    lines = [f"{entry['name']!r} ({entry['op']}): {entry['why']}" for entry in unsupported]
    count = "an operator" if len(lines) == 1 else f"{len(lines)} operators"
    return ModelError(f"{count} of the model cannot be expressed:\n  " + "\n  ".join(lines), unsupported)
