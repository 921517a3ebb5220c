"""Activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op, renamed

renamed(
    sigmoid="sigmoid",
    tanh="tanh",
    relu="relu",
    silu="silu",
    hardswish="hard_swish",
    selu="selu",
    mish="mish",
)


@aten_op("gelu")
def gelu(call: Call, self: Node, approximate: str) -> Any:
    return call.make("gelu", self, approximate=approximate)


@aten_op("softmax.int", "_softmax")
def softmax(call: Call, self: Node, dim: int) -> Any:
    return call.make("softmax", call.cast(self, call.dtype), axis=dim)


@aten_op("log_softmax.int", "_log_softmax")
def log_softmax(call: Call, self: Node, dim: int) -> Any:
    return call.make("log_softmax", call.cast(self, call.dtype), axis=dim)


@aten_op("leaky_relu")
def leaky_relu(call: Call, self: Node, negative_slope: float) -> Any:
    return call.make("leaky_relu", self, alpha=float(negative_slope))


@aten_op("elu")
def elu(call: Call, self: Node, alpha: float, scale: float) -> Any:
    if scale == 1:
        return call.make("elu", self, alpha=float(alpha))
    return call.make("selu", self, alpha=float(alpha), gamma=float(scale))


@aten_op("softplus")
def softplus(call: Call, self: Node, beta: float, threshold: float) -> Any:
    if beta != 1 or math.exp(-threshold) > np.finfo(call.dtype).eps:
        raise Refused(f"beta={beta} and threshold={threshold} are not those of log(1 + exp(x)) in {call.dtype}")
    return call.make("softplus", self)


@aten_op("log_sigmoid")
def log_sigmoid(call: Call, self: Node) -> Any:
    return call.make("negative", call.part("softplus", "softplus", call.part("negative", "negative", self)))


@aten_op("celu")
def celu(call: Call, self: Node, alpha: float) -> Any:
    return call.make("celu", self, alpha=float(alpha))


@aten_op("softshrink")
def softshrink(call: Call, self: Node, lambd: float) -> Any:
    return call.make("shrink", self, lambd=float(lambd), bias=float(lambd))


@aten_op("hardshrink")
def hardshrink(call: Call, self: Node, lambd: float) -> Any:
    return call.make("shrink", self, lambd=float(lambd), bias=0.0)


@aten_op("rrelu")
def rrelu(call: Call, self: Node, lower: float, upper: float, training: bool) -> Any:
    if training:
        raise Refused("it draws random slopes while it runs")
    return call.make("leaky_relu", self, alpha=(lower + upper) / 2)


@aten_op("hardsigmoid")
def hardsigmoid(call: Call, self: Node) -> Any:
    return call.make("hard_sigmoid", self, alpha=1 / 6, beta=0.5)


@aten_op("hardtanh")
def hardtanh(call: Call, self: Node, min_val: float, max_val: float) -> Any:
    return call.make("clip", self, min=float(min_val), max=float(max_val))


@aten_op("relu6")
def relu6(call: Call, self: Node) -> Any:
    return call.make("clip", self, min=0.0, max=6.0)


@aten_op("prelu", "_prelu_kernel")
def prelu(call: Call, self: Node, weight: Node) -> Any:
    slope = weight
    if call.rank(weight) == 1 and call.rank(self) > 2 and call.static(weight) != (1,):
        shape = (*call.static(weight), *[1] * (call.rank(self) - 2))
        slope = call.part("slope", "reshape", weight, shape=shape)
    return call.make("prelu", self, slope)


@aten_op("dropout", "native_dropout")
def dropout(call: Call, input: Node, p: float, train: bool | None) -> Any:
    if not train or p == 0:
        return input
    if p == 1:
        return call.make("multiply", input, call.cast(0.0, call.dtype, "nothing"))
    return call.make("dropout", input, ratio=float(p), training=True)
