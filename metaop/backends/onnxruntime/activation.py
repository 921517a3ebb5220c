"""Activations."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import OPSET, RUNTIME, node

bind.rename(
    {
        "sigmoid": node("Sigmoid"),
        "tanh": node("Tanh"),
        "relu": node("Relu"),
        "softplus": node("Softplus"),
        "softsign": node("Softsign"),
        "selu": node("Selu", alpha="alpha", gamma="gamma"),
        "hard_swish": node("HardSwish"),
        "elu": node("Elu", alpha="alpha"),
        "leaky_relu": node("LeakyRelu", alpha="alpha"),
        "prelu": node("PRelu"),
        "hard_sigmoid": node("HardSigmoid", alpha="alpha", beta="beta"),
        "softmax": node("Softmax", axis="axis"),
        "log_softmax": node("LogSoftmax", axis="axis"),
        "hardmax": node("Hardmax", axis="axis"),
    }
)

if OPSET >= 20:
    bind.rename({"gelu": node("Gelu", approximate="approximate")})
else:
    bind.unsupported("gelu", reason="ONNX has Gelu from opset 20 on, onnxruntime {}.{} knows less".format(*RUNTIME))


@bind
def silu(o, x):
    # ONNX has Swish from opset 24 on, as a function with this same body.
    return o.Mul(x, o.Sigmoid(x))


@bind
def dropout(o, x, mask=None, *, ratio, training):
    if not training:
        return o.Dropout(x, ratio, o.constant(False, np.dtype(bool)))
    # ONNX's own Dropout draws its mask itself, so that no two backends could be compared.
    return o.Div(o.Where(mask, x, 0.0), 1.0 - ratio)
