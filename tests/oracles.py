"""Direct framework calls, written by hand: the oracle for bindings. Nothing here is shared with them.

For each of the twenty operators of the meta-operator paper, what somebody would write who uses one framework and has
never heard of metaop. A binding must give the same bits, values and native gradients alike. NumPy's column says what
the references must give: the NumPy function itself where there is one, else Python numbers with sums that do not round.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

TWENTY = [
    *("add", "multiply", "matmul", "sigmoid", "log", "exp", "negative", "inv", "div", "square", "transpose"),
    *("reshape", "reduce_sum", "reduce_mean", "softmax", "relu", "batch_norm", "conv2d", "einsum", "dropout"),
]

Arrays = Sequence[np.ndarray | None]
Answer = tuple[list[np.ndarray], list[np.ndarray] | None]


def answer(
    backend: str, op: str, inputs: Arrays, attrs: dict[str, Any], grad: np.ndarray, wrt: Sequence[int]
) -> Answer:
    """Outputs, and the native gradients of the inputs at ``wrt`` where the framework has any."""
    return {
        "numpy": _numpy,
        "torch": _torch,
        "tensorflow": _tensorflow,
        "tflite": _tflite,
        "onnxruntime": _onnxruntime,
        "jax": _jax,
    }[backend](op, inputs, attrs, grad, wrt)


# -- PyTorch -----------------------------------------------------------------------------------------------------------


@functools.cache
def torch_calls() -> dict[str, Callable[..., Any]]:
    import torch
    from torch.nn import functional as F

    def reduce_with(function):
        def reduce(x, *, axes, keepdims):
            if axes is None:
                axes = tuple(range(x.ndim))
            return function(x, dim=axes, keepdim=keepdims) if axes else x.clone()

        return reduce

    def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
        if training:
            return F.batch_norm(x, None, None, scale, bias, training=True, eps=epsilon)
        return F.batch_norm(x, mean.detach(), var.detach(), scale, bias, training=False, eps=epsilon)

    def conv2d(x, w, b=None, *, strides, pads, dilations, group):
        top, left, bottom, right = pads
        if (top, left) == (bottom, right):
            return F.conv2d(x, w, b, stride=strides, padding=(top, left), dilation=dilations, groups=group)
        padded = F.pad(x, (left, right, top, bottom))
        return F.conv2d(padded, w, b, stride=strides, dilation=dilations, groups=group)

    return {
        "add": lambda x, y: x + y,
        "multiply": lambda x, y: x * y,
        "matmul": lambda x, y: x @ y,
        "sigmoid": torch.sigmoid,
        "log": torch.log,
        "exp": torch.exp,
        "negative": lambda x: -x,
        "inv": torch.reciprocal,
        "div": lambda x, y: x / y,
        "square": torch.square,
        "transpose": lambda x, *, perm: torch.permute(x, list(range(x.ndim))[::-1] if perm is None else perm),
        "reshape": lambda x, *, shape: x.reshape(shape),
        "reduce_sum": reduce_with(torch.sum),
        "reduce_mean": reduce_with(torch.mean),
        "softmax": lambda x, *, axis: F.softmax(x, dim=axis),
        "relu": F.relu,
        "batch_norm": batch_norm,
        "conv2d": conv2d,
        "einsum": lambda *operands, equation: torch.einsum(equation, *operands),
        "dropout": lambda x, mask=None, *, ratio, training: (
            torch.where(mask, x, torch.zeros_like(x)) / (1 - ratio) if training else x
        ),
    }


def _torch(op, inputs, attrs, grad, wrt):
    import torch

    tensors = [None if a is None else torch.tensor(a) for a in inputs]
    for i in wrt:
        tensors[i].requires_grad_()
    y = torch_calls()[op](*tensors, **attrs)
    gradients = None
    if y.requires_grad:
        found = torch.autograd.grad(y, [tensors[i] for i in wrt], torch.tensor(grad), allow_unused=True)
        gradients = [None if g is None else g.numpy() for g in found]
    return [y.detach().numpy()], gradients


# -- TensorFlow --------------------------------------------------------------------------------------------------------


@functools.cache
def tensorflow_calls() -> dict[str, Callable[..., Any]]:
    import tensorflow as tf

    def matmul(x, y):
        if len(x.shape) == 1 and len(y.shape) == 1:
            return tf.squeeze(tf.matmul(x[tf.newaxis, :], y[:, tf.newaxis]), [-2, -1])
        if len(x.shape) == 1:
            return tf.squeeze(tf.matmul(x[tf.newaxis, :], y), [-2])
        if len(y.shape) == 1:
            return tf.squeeze(tf.matmul(x, y[:, tf.newaxis]), [-1])
        return tf.matmul(x, y)

    def axis(axes):
        return None if axes is None else np.array(axes, np.int32)

    def dropout(x, mask=None, *, ratio, training):
        return tf.where(mask, x / (1 - ratio), tf.zeros_like(x)) if training else tf.identity(x)

    def conv2d(x, w, b=None, *, strides, pads, dilations, group):
        top, left, bottom, right = pads
        y = tf.nn.conv2d(
            tf.transpose(x, [0, 2, 3, 1]),
            tf.transpose(w, [2, 3, 1, 0]),
            strides=strides,
            padding=[[0, 0], [top, bottom], [left, right], [0, 0]] if any(pads) else "VALID",
            dilations=dilations,
        )
        y = y if b is None else tf.nn.bias_add(y, b)
        return tf.transpose(y, [0, 3, 1, 2])

    def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
        others = [i for i in range(len(x.shape)) if i != 1]
        if training:
            mean, var = tf.nn.moments(x, others)
        shape = [-1 if i == 1 else 1 for i in range(len(x.shape))]
        mean, var, bias, scale = (tf.reshape(t, shape) for t in (mean, var, bias, scale))
        return tf.nn.batch_normalization(x, mean, var, bias, scale, epsilon)

    return {
        "add": tf.add,
        "multiply": tf.multiply,
        "matmul": matmul,
        "sigmoid": tf.sigmoid,
        "log": tf.math.log,
        "exp": tf.exp,
        "negative": tf.negative,
        "inv": tf.math.reciprocal,
        "div": tf.divide,
        "square": tf.square,
        "transpose": lambda x, *, perm: tf.transpose(x, perm),
        "reshape": lambda x, *, shape: tf.reshape(x, np.array(shape, np.int32)),
        "reduce_sum": lambda x, *, axes, keepdims: tf.reduce_sum(x, axis(axes), keepdims),
        "reduce_mean": lambda x, *, axes, keepdims: tf.reduce_mean(x, axis(axes), keepdims),
        "softmax": lambda x, *, axis: tf.nn.softmax(x, axis),
        "relu": tf.nn.relu,
        "batch_norm": batch_norm,
        "conv2d": conv2d,
        "einsum": lambda *operands, equation: tf.einsum(equation, *operands),
        "dropout": dropout,
    }


def _tensorflow(op, inputs, attrs, grad, wrt):
    import tensorflow as tf

    tensors = [None if a is None else tf.constant(a) for a in inputs]
    wanted = [tensors[i] for i in wrt]
    with tf.GradientTape() as tape:
        tape.watch(wanted)
        y = tensorflow_calls()[op](*tensors, **attrs)
    try:
        found = tape.gradient(y, wanted, tf.constant(grad)) if wanted else []
    except tf.errors.OpError:
        # Some kernels have no way back on a CPU (dilated convolutions): a binding has to find one by itself.
        found = [None for _ in wanted]
    return [np.asarray(y.numpy())], [None if g is None else np.asarray(tf.convert_to_tensor(g).numpy()) for g in found]


# -- TensorFlow Lite ---------------------------------------------------------------------------------------------------


def _tflite(op, inputs, attrs, grad, wrt):
    import tensorflow as tf

    names = [f"input_{i}" for i, a in enumerate(inputs) if a is not None]
    signature = [tf.TensorSpec(a.shape, a.dtype, name=f"input_{i}") for i, a in enumerate(inputs) if a is not None]

    @tf.function(input_signature=signature)
    def function(*given):
        given = iter(given)
        tensors = [None if a is None else next(given) for a in inputs]
        return {"y": tensorflow_calls()[op](*tensors, **attrs)}

    module = tf.Module()
    module.function = function
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow announces that this class will move
        runner = tf.lite.Interpreter(model_content=converter.convert()).get_signature_runner()
    given = [a for a in inputs if a is not None]
    # An argument that the operator ignores (a mask outside of training) is not in the converted model.
    known = runner.get_input_details()
    feed = {name: array for name, array in zip(names, given, strict=True) if name in known}
    return [np.array(runner(**feed)["y"])], None


# -- ONNX Runtime ------------------------------------------------------------------------------------------------------


@functools.cache
def onnx_nodes() -> dict[str, Callable[..., Any]]:
    """For each operator: from attributes and the number of inputs to ONNX's operator, its attributes and constants."""

    def reduce_with(op_type):
        def node(axes, keepdims):
            options = {"keepdims": int(keepdims), "noop_with_empty_axes": int(axes is not None)}
            return op_type, options, [] if axes is None else [np.array(axes, np.int64)]

        return node

    def conv2d(strides, pads, dilations, group):
        return "Conv", {"strides": strides, "pads": pads, "dilations": dilations, "group": group}, []

    def batch_norm(epsilon, training):
        return "BatchNormalization", {"epsilon": epsilon, "training_mode": int(training)}, []

    def plain(op_type):
        return lambda: (op_type, {}, [])

    return {
        "add": plain("Add"),
        "multiply": plain("Mul"),
        "matmul": plain("MatMul"),
        "sigmoid": plain("Sigmoid"),
        "log": plain("Log"),
        "exp": plain("Exp"),
        "negative": plain("Neg"),
        "inv": plain("Reciprocal"),
        "div": plain("Div"),
        "transpose": lambda perm: ("Transpose", {} if perm is None else {"perm": perm}, []),
        "reshape": lambda shape: ("Reshape", {"allowzero": 1}, [np.array(shape, np.int64)]),
        "reduce_sum": reduce_with("ReduceSum"),
        "reduce_mean": reduce_with("ReduceMean"),
        "softmax": lambda axis: ("Softmax", {"axis": axis}, []),
        "relu": plain("Relu"),
        "batch_norm": batch_norm,
        "conv2d": conv2d,
        "einsum": lambda equation: ("Einsum", {"equation": equation}, []),
    }


def _onnxruntime(op, inputs, attrs, grad, wrt):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    given = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    constants = {}
    if op == "square":
        nodes = [helper.make_node("Mul", [names[0], names[0]], ["y"])]
    elif op == "dropout" and attrs["training"]:
        # ONNX's Dropout draws its own mask: with a given one it has to be spelled out.
        constants = {"zero": np.zeros((), inputs[0].dtype), "kept": np.array(1 - attrs["ratio"], inputs[0].dtype)}
        nodes = [helper.make_node("Where", [names[1], names[0], "zero"], ["chosen"])]
        nodes.append(helper.make_node("Div", ["chosen", "kept"], ["y"]))
    elif op == "dropout":
        nodes = [helper.make_node("Identity", [names[0]], ["y"])]
    else:
        op_type, options, extra = onnx_nodes()[op](**attrs)
        constants = {f"c{i}": array for i, array in enumerate(extra)}
        outputs = ["y", "running_mean", "running_var"] if options.get("training_mode") else ["y"]
        nodes = [helper.make_node(op_type, [*names, *constants], outputs, **options)]
    dtype = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    graph = helper.make_graph(
        nodes,
        "oracle",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()],
        [helper.make_tensor_value_info("y", dtype or TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], given), None


# -- JAX ---------------------------------------------------------------------------------------------------------------


@functools.cache
def jax_calls() -> dict[str, Callable[..., Any]]:
    import jax
    import jax.numpy as jnp

    def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
        others = tuple(i for i in range(x.ndim) if i != 1)
        shape = [-1 if i == 1 else 1 for i in range(x.ndim)]
        if training:
            mean, var = x.mean(others), x.var(others)
        mean, var, scale, bias = (t.reshape(shape) for t in (mean, var, scale, bias))
        return (x - mean) * jax.lax.rsqrt(var + epsilon) * scale + bias

    def conv2d(x, w, b=None, *, strides, pads, dilations, group):
        top, left, bottom, right = pads
        y = jax.lax.conv_general_dilated(
            x,
            w,
            strides,
            [(top, bottom), (left, right)],
            rhs_dilation=dilations,
            feature_group_count=group,
            precision="highest",
        )
        return y if b is None else y + b[:, None, None]

    return {
        "add": lambda x, y: x + y,
        "multiply": lambda x, y: x * y,
        "matmul": lambda x, y: jnp.matmul(x, y, precision="highest"),
        "sigmoid": jax.nn.sigmoid,
        "log": jnp.log,
        "exp": jnp.exp,
        "negative": lambda x: -x,
        "inv": lambda x: 1 / x,
        "div": lambda x, y: x / y,
        "square": lambda x: x**2,
        "transpose": lambda x, *, perm: x.transpose(perm),
        "reshape": lambda x, *, shape: x.reshape(shape),
        "reduce_sum": lambda x, *, axes, keepdims: x.sum(axes, keepdims=keepdims),
        "reduce_mean": lambda x, *, axes, keepdims: x.mean(axes, keepdims=keepdims),
        "softmax": lambda x, *, axis: jax.nn.softmax(x, axis),
        "relu": jax.nn.relu,
        "batch_norm": batch_norm,
        "conv2d": conv2d,
        "einsum": lambda *operands, equation: jnp.einsum(equation, *operands, precision="highest"),
        "dropout": lambda x, mask=None, *, ratio, training: (
            jnp.where(mask, x / (1 - ratio), jnp.zeros_like(x)) if training else x
        ),
    }


def _jax(op, inputs, attrs, grad, wrt):
    import jax

    call = functools.partial(jax_calls()[op], **attrs)

    def gradients(tensors, grad):
        def of_these(*wanted):
            now = dict(zip(wrt, wanted, strict=True))
            return call(*[now.get(i, t) for i, t in enumerate(tensors)])

        return jax.vjp(of_these, *[tensors[i] for i in wrt])[1](grad)

    with jax.enable_x64(True):
        y = jax.jit(call)(*inputs)
        found = jax.jit(gradients)(list(inputs), grad) if wrt else []
    return [np.asarray(y)], [np.asarray(g) for g in found]


# -- NumPy -------------------------------------------------------------------------------------------------------------


def _elements(function: Callable[..., float]) -> Callable[..., np.ndarray]:
    """A function of Python numbers applied element by element, in double precision, and rounded once."""

    def apply(x):
        return np.array([function(float(v)) for v in x.ravel()], np.float64).reshape(x.shape).astype(x.dtype)

    return apply


def _guarded(function: Callable[[float], float], overflow: float = math.inf) -> Callable[[float], float]:
    def call(v: float) -> float:
        try:
            return function(v)
        except OverflowError:
            return overflow
        except (ValueError, ZeroDivisionError):
            return math.nan

    return call


def _reduced(x, axes, keepdims, finish):
    """``finish`` of each group of elements that differ only along ``axes``."""
    gone = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    shape = tuple(1 if a in gone else n for a, n in enumerate(x.shape))
    y = np.empty(shape, np.float64)
    for at in np.ndindex(shape):
        where = tuple(range(x.shape[a]) if a in gone else (i,) for a, i in enumerate(at))
        y[at] = finish([float(x[i]) for i in itertools.product(*where)])
    y = y if keepdims else y.reshape([n for a, n in enumerate(x.shape) if a not in gone])
    return y.astype(x.dtype)


def _fsum(values):
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):
        return math.nan


def _matmul(x, y):
    rows = x if x.ndim > 1 else x[None]
    columns = y if y.ndim > 1 else y[:, None]
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows = np.broadcast_to(rows, batch + rows.shape[-2:])
    columns = np.broadcast_to(columns, batch + columns.shape[-2:])
    z = np.empty((*batch, rows.shape[-2], columns.shape[-1]))
    for at in np.ndindex(z.shape):
        *b, i, j = at
        z[at] = _fsum(float(p) * float(q) for p, q in zip(rows[(*b, i)], columns[(*b, slice(None), j)], strict=True))
    z = z if x.ndim > 1 else z.squeeze(-2)
    return (z if y.ndim > 1 else z.squeeze(-1)).astype(x.dtype)


def _softmax(x, *, axis):
    def along(line):
        top = max(line)
        if np.isnan(line).any() or math.isinf(top):
            return [math.nan for _ in line]
        exps = [math.exp(v - top) for v in line]
        return [e / math.fsum(exps) for e in exps]

    return np.apply_along_axis(lambda line: along(line.tolist()), axis, x).astype(x.dtype) if x.size else x


def _conv2d(x, w, b=None, *, strides, pads, dilations, group):
    top, left, bottom, right = pads
    padded = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    features, depth, height, width = w.shape
    tall = (padded.shape[2] - (height - 1) * dilations[0] - 1) // strides[0] + 1
    wide = (padded.shape[3] - (width - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.empty((x.shape[0], features, tall, wide))
    for n, f, i, j in np.ndindex(y.shape):
        first = f // (features // group) * depth
        terms = [
            float(padded[n, first + c, i * strides[0] + p * dilations[0], j * strides[1] + q * dilations[1]])
            * float(w[f, c, p, q])
            for c, p, q in np.ndindex(depth, height, width)
        ]
        y[n, f, i, j] = _fsum([*terms, 0.0 if b is None else float(b[f])])
    return y.astype(x.dtype)


def _batch_norm(x, scale, bias, mean, var, *, epsilon, training):
    y = np.empty(x.shape)
    for c in range(x.shape[1]):
        values = [float(v) for v in x[:, c].ravel()]
        centre, spread = float(mean[c]), float(var[c])
        if training and values:
            centre = math.fsum(values) / len(values)
            spread = math.fsum((v - centre) ** 2 for v in values) / len(values)
        factor = float(scale[c]) / math.sqrt(spread + epsilon)
        y[:, c] = (x[:, c].astype(float) - centre) * factor + float(bias[c])
    return y.astype(x.dtype)


def _einsum(*operands, equation):
    """By the definition: over all values of all indices. ``...`` becomes capital letters that no sample uses."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = "ZYXWV"
    rank = max(
        (o.ndim - len(t.replace("...", "")) for t, o in zip(terms, operands, strict=True) if "..." in t), default=0
    )
    if "->" not in equation:
        letters = left.replace("...", "").replace(",", "")
        right = "..." * ("..." in left) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    filled = [
        t.replace("...", spare[rank - (o.ndim - len(t.replace("...", ""))) : rank])
        for t, o in zip(terms, operands, strict=True)
    ]
    right = right.replace("...", spare[:rank])
    sizes: dict[str, int] = {}
    for t, o in zip(filled, operands, strict=True):
        for letter, size in zip(t, o.shape, strict=True):
            sizes[letter] = max(size, sizes.get(letter, 0)) if 0 not in (size, sizes.get(letter)) else 0
    summed = [letter for letter in sizes if letter not in right]
    y = np.empty([sizes[letter] for letter in right])
    for at in np.ndindex(y.shape):
        fixed = dict(zip(right, at, strict=True))
        terms_of_sum = []
        for rest in itertools.product(*(range(sizes[letter]) for letter in summed)):
            place = {**fixed, **dict(zip(summed, rest, strict=True))}
            factors = [
                float(o[tuple(0 if n == 1 else place[c] for c, n in zip(t, o.shape, strict=True))])
                for t, o in zip(filled, operands, strict=True)
            ]
            terms_of_sum.append(math.prod(factors))
        y[at] = _fsum(terms_of_sum)
    return y.astype(operands[0].dtype)


def _dropout(x, mask=None, *, ratio, training):
    if not training:
        return x
    pairs = zip(x.ravel().tolist(), mask.ravel(), strict=True)
    return np.array([v / (1 - ratio) if kept else 0.0 for v, kept in pairs], x.dtype).reshape(x.shape)


NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "multiply": np.multiply,
    "matmul": _matmul,
    "sigmoid": _elements(lambda v: 1 / (1 + math.exp(-v)) if v > -700 else math.exp(max(v, -800)) if v == v else v),
    "log": _elements(_guarded(lambda v: -math.inf if v == 0 else math.log(v))),
    "exp": _elements(_guarded(math.exp)),
    "negative": np.negative,
    "inv": lambda x: np.divide(np.ones_like(x), x),
    "div": np.divide,
    "square": lambda x: np.multiply(x, x),
    "transpose": lambda x, *, perm: np.moveaxis(x, range(x.ndim)[::-1] if perm is None else perm, range(x.ndim)),
    "reshape": lambda x, *, shape: np.array(x.ravel().tolist(), x.dtype).reshape(shape),
    "reduce_sum": lambda x, *, axes, keepdims: _reduced(x, axes, keepdims, _fsum),
    "reduce_mean": lambda x, *, axes, keepdims: _reduced(
        x, axes, keepdims, lambda v: _fsum(v) / len(v) if v else math.nan
    ),
    "softmax": _softmax,
    "relu": _elements(lambda v: v if v > 0 or v != v else 0.0),
    "batch_norm": _batch_norm,
    "conv2d": _conv2d,
    "einsum": _einsum,
    "dropout": _dropout,
}


def _numpy(op, inputs, attrs, grad, wrt):
    with np.errstate(all="ignore"):
        y = NUMPY[op](*inputs, **attrs)
    return [np.asarray(y)], None
