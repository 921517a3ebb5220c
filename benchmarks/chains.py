"""Every operator applied 64 times in sequence: as a metaop graph, and by hand in each framework.

Both sides take a NumPy array and give one. By hand the weights are converted beforehand, the data once at the start
and the result once at the end; in between stands the framework's own call, as its users write it, in a loop. ONNX
Runtime and TFLite have no such calls: there the loop runs one session, or one interpreter, of that operator alone.

Only operators whose result has the shape of their first operand can be chained: of the paper's twenty all but
reduce_sum and reduce_mean, and the common activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import metaop as mo

__all__ = ["BY_HAND", "CHAINS", "LENGTH", "SHAPES", "Chain", "Run", "by_metaop", "data_of"]

LENGTH = 64
SHAPES = ((1, 100), (256, 256))
#: from an array to an array
Run = Callable[[np.ndarray], np.ndarray]
Shape = tuple[int, ...]


def _none(rng: np.random.Generator, shape: Shape) -> dict[str, np.ndarray]:
    return {}


def _near_one(rng: np.random.Generator, shape: Shape) -> dict[str, np.ndarray]:
    """So that 64 of them neither overflow nor die out."""
    return {"w": rng.uniform(0.98, 1.02, shape).astype(np.float32)}


def _matrix(rng: np.random.Generator, shape: Shape) -> dict[str, np.ndarray]:
    size = shape[1]
    return {"w": (rng.standard_normal((size, size)) / np.sqrt(size)).astype(np.float32)}


def _filter(rng: np.random.Generator, shape: Shape) -> dict[str, np.ndarray]:
    return {"w": (rng.standard_normal((1, 1, 3, 3)) / 3).astype(np.float32)}


def _statistics(rng: np.random.Generator, shape: Shape) -> dict[str, np.ndarray]:
    return {name: rng.uniform(0.9, 1.1, shape[1]).astype(np.float32) for name in ("scale", "bias", "mean", "var")}


def _mask(rng: np.random.Generator, shape: Shape) -> dict[str, np.ndarray]:
    return {"mask": rng.uniform(size=shape) < 0.5}


def _same(shape: Shape) -> Shape:
    return shape


def _image(shape: Shape) -> Shape:
    """One channel of as many elements."""
    return (1, 1, 10, 10) if shape == (1, 100) else (1, 1, *shape)


@dataclass(frozen=True)
class Chain:
    """One operator and how it is called by hand, with ``x`` and the names of its operands; ``None``: no such call."""

    op: str
    torch: str | None = None
    tensorflow: str | None = None
    #: the ONNX operator with its attributes
    onnx: str | None = None
    onnx_attrs: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    operands: Callable[[np.random.Generator, Shape], dict[str, np.ndarray]] = _none
    shape: Callable[[Shape], Shape] = _same
    #: what a framework's users would do once before the loop, and undo after it
    tensorflow_around: tuple[str, str] | None = None

    def attributes(self, shape: Shape) -> dict[str, Any]:
        """Metaop's attributes."""
        return {"shape": shape} if self.op == "reshape" else dict(self.attrs)


CHAINS = {
    chain.op: chain
    for chain in (
        Chain("add", "torch.add(x, w)", "tf.add(x, w)", "Add", operands=_near_one),
        Chain("multiply", "torch.mul(x, w)", "tf.multiply(x, w)", "Mul", operands=_near_one),
        Chain("matmul", "torch.matmul(x, w)", "tf.matmul(x, w)", "MatMul", operands=_matrix),
        Chain("sigmoid", "torch.sigmoid(x)", "tf.sigmoid(x)", "Sigmoid"),
        Chain("log", "torch.log(x)", "tf.math.log(x)", "Log"),
        Chain("exp", "torch.exp(x)", "tf.exp(x)", "Exp"),
        Chain("negative", "torch.neg(x)", "tf.negative(x)", "Neg"),
        Chain("inv", "torch.reciprocal(x)", "tf.math.reciprocal(x)", "Reciprocal"),
        Chain("div", "torch.div(x, w)", "tf.divide(x, w)", "Div", operands=_near_one),
        Chain("square", "torch.square(x)", "tf.square(x)", "Mul"),
        Chain(
            "transpose",
            "torch.permute(x, (1, 0))",
            "tf.transpose(x, (1, 0))",
            "Transpose",
            {"perm": (1, 0)},
            {"perm": (1, 0)},
        ),
        Chain("reshape", "torch.reshape(x, shape)", "tf.reshape(x, shape)", "Reshape", {"allowzero": 1}),
        Chain(
            "softmax",
            "torch.softmax(x, dim=-1)",
            "tf.nn.softmax(x, axis=-1)",
            "Softmax",
            {"axis": -1},
            {"axis": -1},
        ),
        Chain("relu", "torch.relu(x)", "tf.nn.relu(x)", "Relu"),
        Chain(
            "batch_norm",
            "F.batch_norm(x, mean, var, scale, bias, training=False, eps=1e-5)",
            "tf.nn.batch_normalization(x, mean, var, bias, scale, 1e-5)",
            "BatchNormalization",
            {"epsilon": 1e-5},
            {"epsilon": 1e-5},
            operands=_statistics,
        ),
        Chain(
            "conv2d",
            "F.conv2d(x, w, padding=1)",
            "tf.nn.conv2d(x, tf.transpose(w, (2, 3, 1, 0)), strides=1, padding='SAME')",
            "Conv",
            {"pads": (1, 1, 1, 1)},
            {"pads": (1, 1, 1, 1)},
            operands=_filter,
            shape=_image,
            tensorflow_around=("tf.transpose(x, (0, 2, 3, 1))", "tf.transpose(x, (0, 3, 1, 2))"),
        ),
        Chain(
            "einsum",
            "torch.einsum('ij,jk->ik', x, w)",
            "tf.einsum('ij,jk->ik', x, w)",
            "Einsum",
            {"equation": "ij,jk->ik"},
            {"equation": "ij,jk->ik"},
            operands=_matrix,
        ),
        # By hand and by metaop alike with a mask that is given: drawing one is not what is measured.
        Chain(
            "dropout",
            "torch.where(mask, x, 0.0) / 0.5",
            "tf.where(mask, x, 0.0) / 0.5",
            attrs={"ratio": 0.5},
            operands=_mask,
        ),
        Chain("tanh", "torch.tanh(x)", "tf.tanh(x)", "Tanh"),
        Chain("softplus", "F.softplus(x)", "tf.math.softplus(x)", "Softplus"),
        Chain("softsign", "F.softsign(x)", "tf.nn.softsign(x)", "Softsign"),
        Chain("selu", "torch.selu(x)", "tf.nn.selu(x)", "Selu"),
        Chain("silu", "F.silu(x)", "tf.nn.silu(x)"),
        Chain("hard_swish", "F.hardswish(x)", None, "HardSwish"),
        Chain("elu", "F.elu(x)", "tf.nn.elu(x)", "Elu"),
        Chain(
            "leaky_relu",
            "F.leaky_relu(x, 0.01)",
            "tf.nn.leaky_relu(x, 0.01)",
            "LeakyRelu",
            {"alpha": 0.01},
            {"alpha": 0.01},
        ),
        Chain("gelu", "F.gelu(x)", "tf.nn.gelu(x, approximate=False)", "Gelu"),
        Chain(
            "hard_sigmoid",
            "F.hardsigmoid(x)",
            None,
            "HardSigmoid",
            {"alpha": 1 / 6, "beta": 0.5},
            {"alpha": 1 / 6, "beta": 0.5},
        ),
        Chain(
            "log_softmax",
            "torch.log_softmax(x, dim=-1)",
            "tf.nn.log_softmax(x, axis=-1)",
            "LogSoftmax",
            {"axis": -1},
            {"axis": -1},
        ),
    )
}


def data_of(chain: Chain, shape: Shape, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What is fed, and the operands."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 1.5, chain.shape(shape)).astype(np.float32), chain.operands(rng, shape)


# -- metaop -----------------------------------------------------------------------------------------------------------


def by_metaop(backend: str, chain: Chain, x: np.ndarray, operands: Mapping[str, np.ndarray], length: int) -> Run:
    """``Session.run`` of the chain."""
    fed = mo.Placeholder(x.shape, x.dtype, name="x")
    weights = [mo.Constant(a) if a.dtype == bool else mo.Variable(a) for a in operands.values()]
    y: mo.Node = fed
    for _ in range(length):
        y = mo.apply(chain.op, [y, *weights], chain.attributes(x.shape))
    session = mo.Session(backend=backend)

    def run(array: np.ndarray) -> np.ndarray:
        return session.run(y, feed_dict={fed: array})

    return run


# -- by hand ----------------------------------------------------------------------------------------------------------


def by_torch(chain: Chain, x: np.ndarray, operands: Mapping[str, np.ndarray], length: int) -> Run | None:
    """A loop in PyTorch."""
    if chain.torch is None:
        return None
    import torch
    import torch.nn.functional as F

    names = {"torch": torch, "F": F, "shape": x.shape, **{k: torch.from_numpy(a) for k, a in operands.items()}}
    return _loop("torch.from_numpy(array)", chain.torch, "x.numpy()", names, length)


def by_tensorflow(chain: Chain, x: np.ndarray, operands: Mapping[str, np.ndarray], length: int) -> Run | None:
    """A loop in eager TensorFlow."""
    if chain.tensorflow is None:
        return None
    import tensorflow as tf

    names = {"tf": tf, "shape": x.shape, **{k: tf.constant(a) for k, a in operands.items()}}
    before, after = chain.tensorflow_around or ("x", "x")
    return _loop("tf.constant(array)", chain.tensorflow, "x.numpy()", names, length, before, after)


def by_onnxruntime(chain: Chain, x: np.ndarray, operands: Mapping[str, np.ndarray], length: int) -> Run | None:
    """A loop over a session of one node, with the options that metaop's sessions have."""
    if chain.onnx is None:
        return None
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    fed = {"x": x, **operands}
    initializers = []
    inputs = list(fed)
    if chain.op == "square":
        inputs = ["x", "x"]
    if chain.op == "reshape":
        initializers.append(numpy_helper.from_array(np.array(x.shape), "shape"))
        inputs.append("shape")
    # The second shape of a transposed matrix is another one.
    sizes = [None] * x.ndim if chain.op == "transpose" else x.shape
    values = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, sizes)]
    values += [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, a.shape) for k, a in operands.items()]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node(chain.onnx, inputs, ["y"], **chain.onnx_attrs)
    graph = helper.make_graph([node], "operator", values, [result], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {"session": session, **operands}
    given = ", ".join(f"'{name}': {name}" for name in fed)
    return _loop("array", f"session.run(['y'], {{{given}}})[0]", "x", names, length)


def by_tflite(chain: Chain, x: np.ndarray, operands: Mapping[str, np.ndarray], length: int) -> Run | None:
    """A loop over an interpreter of one operator, which TensorFlow's converter makes of TensorFlow's call."""
    # An interpreter has one input shape, and by hand one would not make two for a transpose.
    if chain.tensorflow is None or (chain.op == "transpose" and x.shape[0] != x.shape[1]):
        return None
    import tensorflow as tf

    before, after = chain.tensorflow_around or ("x", "x")
    source = f"def operator({', '.join(['x', *operands])}):\n"
    source += f"    x = {before}\n    x = {chain.tensorflow}\n    return {after}\n"
    names: dict[str, Any] = {"tf": tf, "shape": x.shape}
    exec(source, names)
    function = tf.function(names["operator"], autograph=False)
    concrete = function.get_concrete_function(*[tf.TensorSpec(a.shape, a.dtype) for a in (x, *operands.values())])
    content = tf.lite.TFLiteConverter.from_concrete_functions([concrete], function).convert()
    interpreter = tf.lite.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    by_name = {d["name"].rsplit("_", 1)[-1].split(":")[0]: d["index"] for d in interpreter.get_input_details()}
    names = {
        "interpreter": interpreter,
        "y": interpreter.get_output_details()[0]["index"],
        **operands,
        **{f"{name}_index": by_name[name] for name in ("x", *operands)},
    }
    lines = [f"interpreter.set_tensor({name}_index, {name})" for name in ("x", *operands)]
    lines.append("interpreter.invoke()")
    return _loop("array", "interpreter.get_tensor(y)", "x", names, length, lines=lines)


BY_HAND: dict[str, Callable[[Chain, np.ndarray, Mapping[str, np.ndarray], int], Run | None]] = {
    "torch": by_torch,
    "tensorflow": by_tensorflow,
    "onnxruntime": by_onnxruntime,
    "tflite": by_tflite,
}


def _loop(
    enter: str,
    call: str,
    leave: str,
    names: dict[str, Any],
    length: int,
    before: str = "x",
    after: str = "x",
    lines: list[str] | None = None,
) -> Run:
    """The function as one would write it: a call through a variable, or through a wrapper, would cost another time."""
    body = [f"x = {enter}"]
    if before != "x":
        body.append(f"x = {before}")
    body.append(f"for _ in range({length}):")
    body += [f"    {line}" for line in (*(lines or ()), f"x = {call}")]
    if after != "x":
        body.append(f"x = {after}")
    body.append(f"return {leave}")
    source = "def run(array):\n" + "".join(f"    {line}\n" for line in body)
    exec(compile(source, f"<by hand: {call}>", "exec"), names)
    return names["run"]
