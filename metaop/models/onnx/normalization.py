"""Normalisation."""

from __future__ import annotations

from typing import Any

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

direct("InstanceNormalization", "instance_norm", epsilon=1e-5)


@onnx_op("BatchNormalization")
def batch_norm(call: Call) -> Any:
    epsilon, momentum = call.attr("epsilon", 1e-5), call.attr("momentum", 0.9)
    if call.opset < 9:
        call.only("spatial", 1)
    training = call.opset >= 14 and call.flag("training_mode")
    tensors = [call.input(i) for i in range(5)]
    y = call.make("batch_norm", *tensors, epsilon=epsilon, training=training)
    if not training:
        return y
    x, mean, var = tensors[0], tensors[3], tensors[4]
    axes = (0, *range(2, call.rank(x)))
    now = call.part("mean", "reduce_mean", x, axes=axes, keepdims=True)
    spread = call.part("square", "square", call.part("centred", "subtract", x, now))
    news = (call.part("mean_now", "reduce_mean", x, axes=axes), call.part("var_now", "reduce_mean", spread, axes=axes))
    results = []
    for part, old, new in zip(("running_mean", "running_var"), (mean, var), news, strict=True):
        kept = call.part(f"{part}_kept", "multiply", old, call.number(momentum, old, "momentum"))
        came = call.part(f"{part}_new", "multiply", new, call.number(1 - momentum, old, "rest"))
        results.append(call.part(part, "add", kept, came))
    return (y, *results)


def _float32_only(call: Call, x: Node) -> None:
    call.only("stash_type", 1)
    if x.dtype is None or x.dtype.itemsize != 4:
        raise Refused(f"stash_type asks for float32 in between; {x.type} would be computed otherwise")


@onnx_op("LayerNormalization")
def layer_norm(call: Call) -> Any:
    x, scale, bias = call.input(0), call.input(1), call.optional(2)
    _float32_only(call, x)
    rank = call.rank(x)
    given, epsilon = call.attr("axis", -1), call.attr("epsilon", 1e-5)
    axis = call.axis(given, rank)
    own = (x.shape or ())[axis:]
    if scale.shape == own and (bias is None or bias.shape == own):
        y = call.make("layer_norm", x, scale, bias, axis=given, epsilon=epsilon)
    else:
        y = call.part("norm", "layer_norm", x, axis=axis, epsilon=epsilon)
        y = call.make("multiply", y, scale) if bias is None else call.part("scaled", "multiply", y, scale)
        y = y if bias is None else call.make("add", y, bias)
        if y.shape != x.shape:
            raise Refused("scale and bias must broadcast to the input")
    if not (call.wants(1) or call.wants(2)):
        return y
    axes = tuple(range(axis, rank))
    mean = call.part("mean", "reduce_mean", x, axes=axes, keepdims=True)
    spread = call.part("square", "square", call.part("centred", "subtract", x, mean))
    var = call.part("var", "reduce_mean", spread, axes=axes, keepdims=True)
    moved = call.part("moved", "add", var, call.number(epsilon, x, "epsilon"))
    return y, mean, call.part("inv_std_dev", "rsqrt", moved)


@onnx_op("RMSNormalization")
def rms_norm(call: Call) -> Any:
    x, scale = call.input(0), call.input(1)
    _float32_only(call, x)
    rank = call.rank(x)
    axis, epsilon = call.axis(call.attr("axis", -1), rank), call.attr("epsilon", 1e-5)
    if scale.shape == (x.shape or ())[axis:]:
        return call.make("rms_norm", x, scale, axis=axis, epsilon=epsilon)
    y = call.make("multiply", call.part("norm", "rms_norm", x, axis=axis, epsilon=epsilon), scale)
    if y.shape != x.shape:
        raise Refused("the scale must broadcast to the input")
    return y


@onnx_op("GroupNormalization", since=18)
def group_norm(call: Call) -> Any:
    x, scale, bias = call.input(0), call.input(1), call.input(2)
    groups, epsilon = call.attr("num_groups", 0), call.attr("epsilon", 1e-5)
    if call.opset >= 21:
        _float32_only(call, x)
    else:  # one scale per group
        channels = (x.shape or (None, None))[1]
        if channels is None or groups < 1 or channels % groups:
            raise Refused(f"{x.type} cannot be cut into {groups} groups")

        def spread(node: Node, part: str) -> Any:
            if node.shape != (groups,):
                raise Refused(f"{part} must have {groups} elements; got {node.type}")
            column = call.part(f"{part}_column", "unsqueeze", node, axes=(1,))
            wide = call.part(f"{part}_wide", "expand", column, shape=(groups, channels // groups))
            return call.part(part, "reshape", wide, shape=(channels,))

        scale, bias = spread(scale, "scale"), spread(bias, "bias")
    return call.make("group_norm", x, scale, bias, num_groups=groups, epsilon=epsilon)


@onnx_op("MeanVarianceNormalization", since=9)
def mean_variance_norm(call: Call) -> Any:
    x, axes = call.input(0), call.attr("axes", (0, 2, 3))
    mean = call.part("mean", "reduce_mean", x, axes=axes, keepdims=True)
    squares = call.part("squares", "reduce_mean", call.part("square", "square", x), axes=axes, keepdims=True)
    var = call.part("var", "subtract", squares, call.part("mean_square", "square", mean))
    std = call.part("moved", "add", call.part("std", "sqrt", var), call.number(1e-9, x, "epsilon"))
    return call.make("div", call.part("centred", "subtract", x, mean), std)


@onnx_op("LRN")
def local_response_norm(call: Call) -> Any:
    attrs = {"alpha": call.attr("alpha", 1e-4), "beta": call.attr("beta", 0.75), "bias": call.attr("bias", 1.0)}
    return call.make("lrn", call.input(0), size=call.attr("size", 0), **attrs)


@onnx_op("LpNormalization")
def lp_normalization(call: Call) -> Any:
    return call.make("lp_normalization", call.input(0), axis=call.attr("axis", -1), p=call.attr("p", 2))
