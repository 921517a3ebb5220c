"""Writing one operator down as an ONNX model.

A binding receives a :class:`Graph` as ``o`` and calls ONNX operators as methods of it, so that an operator which ONNX
does not have reads like the formula that replaces it:

    @bind
    def mse(o, prediction, target, *, reduction):
        d = o.Sub(prediction, target)
        return reduced(o, o.Mul(d, d), reduction)

Operators that ONNX has by themselves are rows of a table: ``node("LeakyRelu", alpha="alpha")``. Either way every
attribute is passed on, and what ONNX takes as a tensor (axes, pads, shapes, bounds) becomes an initializer.
"""

import inspect
import re

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, helper, numpy_helper

from metaop.backends.bind import Bindings
from metaop.errors import InternalError

RUNTIME = tuple(int(n) for n in re.findall(r"\d+", onnxruntime.__version__)[:2])
#: From which ONNX Runtime on, which opset and IR version are written. 21 is the oldest opset in which every operator
#: used here has its present meaning, so that results of different releases compare like with like; releases that do
#: not know it get the newest that they know, and lack what came later.
_OPSETS = (((1, 18), 21, 10), ((1, 17), 20, 9), ((1, 16), 19, 9), ((1, 15), 18, 8))
#: The first ONNX Runtime with kernels for a newer opset, in which single operators are written that came with it.
_NEWER = {23: (1, 23)}
OLDEST_RUNTIME = _OPSETS[-1][0]
OPSET, IR_VERSION = next((row[1:] for row in _OPSETS if row[0] <= RUNTIME), _OPSETS[-1][1:])

_TO_BOOL = frozenset(["And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"])


def knows(opset):
    """Whether this ONNX Runtime has kernels for operators that came with a newer opset."""
    return _NEWER[opset] <= RUNTIME


class NoKernel(Exception):
    """Raised by a binding for inputs that ONNX Runtime builds a session for and then refuses, or dies of; says why."""


class Value:
    """A tensor of the model: an input, an initializer (both of known shape) or the output of a node."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name, dtype, shape=None):
        self.name = name
        self.dtype = dtype
        self.shape = shape

    @property
    def rank(self):
        """The number of axes of an input."""
        return len(self.shape)


class Graph:
    """An ONNX graph under construction; ``o.Add(x, y)`` adds a node and returns its output.

    Among a node's inputs, ``None`` is an input left out, a number is a constant of the dtype of the tensors around it,
    and a tuple or list is a constant of int64, which is what ONNX wants wherever it takes a list as a tensor.
    """

    def __init__(self):
        self.nodes = []
        self.inputs = []
        self.initializers = []
        self.opset = OPSET

    def since(self, opset):
        """Write the model in a newer opset than usual, for an operator that came with it; see :func:`knows`."""
        self.opset = max(self.opset, opset)

    def input(self, dtype, shape):
        """A further input of the graph."""
        value = Value("input{}".format(len(self.inputs)), dtype, tuple(shape))
        self.inputs.append(value)
        return value

    def constant(self, value, dtype):
        """A number, a sequence or an array as an initializer."""
        array = np.asarray(value, dtype=dtype)
        if dtype.kind in "iu" and not np.array_equal(array, value):
            raise InternalError("onnxruntime: the constant {!r} cannot be written as {}".format(value, dtype))
        name = "constant{}".format(len(self.initializers))
        self.initializers.append(numpy_helper.from_array(array, name))
        return Value(name, array.dtype, array.shape)

    def __getattr__(self, op_type):
        if not op_type[:1].isupper():
            raise AttributeError(op_type)

        def emit(*inputs, **attributes):
            return self.node(op_type, inputs, attributes)

        emit.__name__ = op_type
        return emit

    def node(self, op_type, inputs, attributes):
        """Add a node; among the attributes, ``outputs=n`` asks for a tuple of n outputs, and ``None`` is left out."""
        attributes = dict(attributes)
        outputs = attributes.pop("outputs", None)
        tensors = [x for x in inputs if isinstance(x, Value)]
        main = next((x.dtype for x in tensors if x.dtype.kind != "b"), tensors[0].dtype)
        names = [self._lift(x, main) for x in inputs]
        while not names[-1]:
            names.pop()
        dtype = np.dtype(bool) if op_type in _TO_BOOL else main
        results = [Value("value{}_{}".format(len(self.nodes), i), dtype) for i in range(outputs or 1)]
        node = helper.make_node(op_type, names, [r.name for r in results])
        node.attribute.extend(_attribute(k, v) for k, v in sorted(attributes.items()) if v is not None)
        self.nodes.append(node)
        return results[0] if outputs is None else tuple(results)

    def _lift(self, x, dtype):
        if x is None:
            return ""
        if isinstance(x, Value):
            return x.name
        return self.constant(x, np.dtype(np.int64) if isinstance(x, (tuple, list)) else dtype).name

    def model(self, outputs):
        """The finished model, serialized, and the names of its outputs."""
        own = [self.Identity(y) if y in self.inputs else y for y in outputs]
        graph = helper.make_graph(
            self.nodes,
            "operator",
            [helper.make_tensor_value_info(x.name, tensor_dtype(x.dtype), x.shape) for x in self.inputs],
            # ONNX Runtime infers the types of outputs, and thereby says which ones a kernel really gives.
            [onnx.ValueInfoProto(name=y.name) for y in own],
            self.initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR_VERSION)
        return model.SerializeToString(), [y.name for y in own]


def tensor_dtype(dtype):
    """ONNX's number for a NumPy dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _attribute(name, value):
    if isinstance(value, bool):
        value = int(value)
    elif isinstance(value, np.dtype):
        value = tensor_dtype(value)
    elif isinstance(value, (tuple, list)) and not value:
        # The type of an empty list cannot be guessed; all lists of numbers in these bindings are of integers.
        return AttributeProto(name=name, type=AttributeProto.INTS)
    return helper.make_attribute(name, value)


class GraphBindings(Bindings):
    """Bindings whose functions take a :class:`Graph` before the tensors."""

    def __call__(self, function):
        signature = inspect.signature(function)
        builder, *rest = signature.parameters.values()
        if builder.name != "o":
            raise InternalError("onnxruntime: the first parameter of {!r} must be 'o'".format(function.__name__))
        # What is compared with the declaration is what is left without the builder.
        function.__signature__ = signature.replace(parameters=rest)
        return super().__call__(function)


def node(op_type, **attributes):
    """One node as a row of ``bind.rename``; ``attributes`` maps ONNX's names to ours."""

    def emit(o, *inputs, **given):
        return o.node(op_type, inputs, given)

    emit.__name__ = op_type
    return emit, {ours: theirs for theirs, ours in attributes.items()}
