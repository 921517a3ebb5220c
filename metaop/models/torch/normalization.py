"""Normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op


def _channels(call: Call, x: Node) -> int:
    size = call.sizes(x)[1]
    if not isinstance(size, int):
        raise Refused("the number of channels must be known")
    return size


def _affine(call: Call, x: Node, weight: Node | None, bias: Node | None) -> tuple[Node, Node]:
    """Scale and shift per channel; where there are none, ones and zeros."""
    count = _channels(call, x)
    return (
        call.value(np.ones(count, call.dtype), "ones") if weight is None else weight,
        call.value(np.zeros(count, call.dtype), "zeros") if bias is None else bias,
    )


def _batch_norm(
    call: Call, x: Node, weight: Node | None, bias: Node | None, mean: Any, var: Any, training: bool, eps: float
) -> Any:
    count = _channels(call, x)
    if mean is None or var is None:
        if not training:
            raise Refused("without running statistics it must take those of the batch")
        mean, var = call.value(np.zeros(count, call.dtype), "mean"), call.value(np.ones(count, call.dtype), "var")
    scale, shift = _affine(call, x, weight, bias)
    return call.make("batch_norm", x, scale, shift, mean, var, epsilon=eps, training=training)


# What PyTorch keeps for the next batch (momentum) has no part in the result.


@aten_op("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    call: Call,
    input: Node,
    weight: Node | None,
    bias: Node | None,
    running_mean: Node,
    running_var: Node,
    momentum: float,
    eps: float,
) -> Any:
    return _batch_norm(call, input, weight, bias, running_mean, running_var, False, eps)


@aten_op("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional")
def batch_norm(
    call: Call,
    input: Node,
    weight: Node | None,
    bias: Node | None,
    running_mean: Node | None,
    running_var: Node | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    return _batch_norm(call, input, weight, bias, running_mean, running_var, training, eps)


@aten_op("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    call: Call, input: Node, weight: Node | None, bias: Node | None, training: bool, momentum: float, eps: float
) -> Any:
    return _batch_norm(call, input, weight, bias, None, None, training, eps)


@aten_op("layer_norm", "native_layer_norm")
def layer_norm(
    call: Call, input: Node, normalized_shape: Any, weight: Node | None, bias: Node | None, eps: float
) -> Any:
    return call.make("layer_norm", input, weight, bias, axis=-len(normalized_shape), epsilon=eps)


@aten_op("rms_norm")
def rms_norm(call: Call, input: Node, normalized_shape: Any, weight: Node | None, eps: float | None) -> Any:
    axes = tuple(range(-len(normalized_shape), 0))
    square = call.part("square", "square", input)
    mean = call.part("mean", "reduce_mean", square, axes=axes, keepdims=True)
    epsilon = call.cast(float(np.finfo(call.dtype).eps) if eps is None else float(eps), call.dtype, "epsilon")
    inverse = call.part("inverse", "rsqrt", call.part("shifted", "add", mean, epsilon))
    if weight is None:
        return call.make("multiply", input, inverse)
    return call.make("multiply", call.part("standard", "multiply", input, inverse), weight)


@aten_op("group_norm")
def group_norm(call: Call, input: Node, num_groups: int, weight: Node | None, bias: Node | None, eps: float) -> Any:
    return call.make("group_norm", input, *_affine(call, input, weight, bias), num_groups=num_groups, epsilon=eps)


@aten_op("instance_norm")
def instance_norm(
    call: Call,
    input: Node,
    weight: Node | None,
    bias: Node | None,
    running_mean: Node | None,
    running_var: Node | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Any:
    if use_input_stats:
        return call.make("instance_norm", input, *_affine(call, input, weight, bias), epsilon=eps)
    return _batch_norm(call, input, weight, bias, running_mean, running_var, False, eps)
