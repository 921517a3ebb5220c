"""Two networks, each written twice over the same weights: as a metaop graph, and by hand in plain PyTorch.

The hand-written functions call for each operator what a PyTorch user would call, one call per operator, on tensors
that were converted beforehand. ``mobilenet`` is MobileNetV1 at width 1.0 (Howard et al., 2017), with batch
normalization as in inference; ``transformer`` is an encoder of four layers (Vaswani et al., 2017) with normalization
after each sum.

``python -m benchmarks.models`` measures networks that were not written twice but imported: see ``benchmarks.imported``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import metaop as mo

__all__ = ["MODELS", "Model", "mobilenet", "transformer"]

Arrays = dict[str, np.ndarray]

#: channels and stride of each separable block
BLOCKS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
LAYERS, WIDTH, HEADS, LENGTH, HIDDEN = 4, 256, 4, 64, 1024
EPSILON = 1e-5


@dataclass
class Model:
    """A network as a graph and as a function; ``feed`` has one batch of data and targets."""

    feed: Arrays
    #: trained weights, and those that are not (running statistics)
    weights: Arrays
    fixed: Arrays
    inputs: dict[str, mo.Node]
    variables: dict[str, mo.Node]
    output: mo.Node
    loss: mo.Node
    #: from tensors of ``feed`` and of all weights, to the output and to the loss
    by_hand: Callable[[dict[str, Any], dict[str, Any]], Any]
    loss_by_hand: Callable[[dict[str, Any], dict[str, Any]], Any]


# -- MobileNetV1 ------------------------------------------------------------------------------------------------------


def mobilenet(size: int = 224, classes: int = 1000, seed: int = 0) -> Model:
    """MobileNetV1 on one image of ``size`` by ``size``; the loss is the cross-entropy of one label."""
    rng = np.random.default_rng(seed)
    weights: Arrays = {}
    fixed: Arrays = {}

    def convolution(name: str, outputs: int, inputs: int, kernel: int) -> None:
        fan = inputs * kernel * kernel
        weights[f"{name}.w"] = _normal(rng, (outputs, inputs, kernel, kernel), math.sqrt(2 / fan))
        weights[f"{name}.scale"] = _normal(rng, outputs, 0.1) + np.float32(1)
        weights[f"{name}.bias"] = _normal(rng, outputs, 0.1)
        fixed[f"{name}.mean"] = _normal(rng, outputs, 0.1)
        fixed[f"{name}.var"] = np.square(_normal(rng, outputs, 0.1)) + np.float32(1)

    convolution("stem", 32, 3, 3)
    channels = 32
    for number, (outputs, _) in enumerate(BLOCKS):
        convolution(f"depthwise{number}", channels, 1, 3)
        convolution(f"pointwise{number}", outputs, channels, 1)
        channels = outputs
    weights["classifier.w"] = _normal(rng, (channels, classes), math.sqrt(1 / channels))
    weights["classifier.b"] = _normal(rng, classes, 0.1)
    feed = {"x": _normal(rng, (1, 3, size, size)), "label": rng.integers(0, classes, 1)}

    inputs = _placeholders(feed)
    variables: dict[str, mo.Node] = {name: mo.Variable(array, name=name) for name, array in weights.items()}
    nodes = {**variables, **{name: mo.Constant(array, name=name) for name, array in fixed.items()}}

    def normalized(y: mo.Node, name: str) -> mo.Node:
        statistics = (nodes[f"{name}.{part}"] for part in ("scale", "bias", "mean", "var"))
        return mo.relu(mo.batch_norm(y, *statistics, epsilon=EPSILON))

    y = normalized(mo.conv2d(inputs["x"], nodes["stem.w"], strides=(2, 2), pads=(1, 1, 1, 1)), "stem")
    for number, (_, stride) in enumerate(BLOCKS):
        name = f"depthwise{number}"
        y = mo.depthwise_conv2d(y, nodes[f"{name}.w"], strides=(stride, stride), pads=(1, 1, 1, 1))
        y = normalized(y, name)
        name = f"pointwise{number}"
        y = normalized(mo.conv2d(y, nodes[f"{name}.w"]), name)
    y = mo.flatten(mo.global_average_pool(y))
    output = mo.matmul(y, nodes["classifier.w"]) + nodes["classifier.b"]
    loss = mo.sparse_softmax_cross_entropy(output, inputs["label"])
    return Model(feed, weights, fixed, inputs, variables, output, loss, mobilenet_by_hand, mobilenet_loss_by_hand)


def mobilenet_by_hand(feed: dict[str, Any], w: dict[str, Any]) -> Any:
    """The logits."""
    import torch
    import torch.nn.functional as F

    def normalized(y: Any, name: str) -> Any:
        mean, var, scale, bias = w[f"{name}.mean"], w[f"{name}.var"], w[f"{name}.scale"], w[f"{name}.bias"]
        return torch.relu(F.batch_norm(y, mean, var, scale, bias, eps=EPSILON))

    y = normalized(F.conv2d(feed["x"], w["stem.w"], stride=2, padding=1), "stem")
    for number, (_, stride) in enumerate(BLOCKS):
        name = f"depthwise{number}"
        y = normalized(F.conv2d(y, w[f"{name}.w"], stride=stride, padding=1, groups=y.shape[1]), name)
        name = f"pointwise{number}"
        y = normalized(F.conv2d(y, w[f"{name}.w"]), name)
    y = torch.flatten(F.adaptive_avg_pool2d(y, 1), 1)
    return torch.matmul(y, w["classifier.w"]) + w["classifier.b"]


def mobilenet_loss_by_hand(feed: dict[str, Any], w: dict[str, Any]) -> Any:
    """The cross-entropy."""
    import torch.nn.functional as F

    return F.cross_entropy(mobilenet_by_hand(feed, w), feed["label"])


# -- a transformer's encoder ------------------------------------------------------------------------------------------


def transformer(seed: int = 0) -> Model:
    """An encoder on one sequence; the loss is the mean squared error to a random target."""
    rng = np.random.default_rng(seed)
    weights: Arrays = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        weights[f"{name}.w"] = _normal(rng, (inputs, outputs), math.sqrt(1 / inputs))
        weights[f"{name}.b"] = _normal(rng, outputs, 0.1)

    for layer in range(LAYERS):
        for name in ("query", "key", "value", "merge"):
            linear(f"{layer}.{name}", WIDTH, WIDTH)
        linear(f"{layer}.expand", WIDTH, HIDDEN)
        linear(f"{layer}.contract", HIDDEN, WIDTH)
        for name in ("norm1", "norm2"):
            weights[f"{layer}.{name}.scale"] = _normal(rng, WIDTH, 0.1) + np.float32(1)
            weights[f"{layer}.{name}.bias"] = _normal(rng, WIDTH, 0.1)
    feed = {"x": _normal(rng, (1, LENGTH, WIDTH)), "target": _normal(rng, (1, LENGTH, WIDTH))}

    inputs = _placeholders(feed)
    nodes: dict[str, mo.Node] = {name: mo.Variable(array, name=name) for name, array in weights.items()}

    def dense(y: mo.Node, name: str) -> mo.Node:
        return mo.matmul(y, nodes[f"{name}.w"]) + nodes[f"{name}.b"]

    def heads(y: mo.Node, perm: tuple[int, ...]) -> mo.Node:
        return mo.transpose(mo.reshape(y, shape=(1, LENGTH, HEADS, WIDTH // HEADS)), perm=perm)

    def normalized(y: mo.Node, name: str) -> mo.Node:
        return mo.layer_norm(y, nodes[f"{name}.scale"], nodes[f"{name}.bias"], epsilon=EPSILON)

    y = inputs["x"]
    for layer in range(LAYERS):
        query = heads(dense(y, f"{layer}.query"), (0, 2, 1, 3))
        key = heads(dense(y, f"{layer}.key"), (0, 2, 3, 1))
        value = heads(dense(y, f"{layer}.value"), (0, 2, 1, 3))
        scores = mo.softmax(mo.matmul(query, key) / math.sqrt(WIDTH // HEADS), axis=-1)
        mixed = mo.reshape(mo.transpose(mo.matmul(scores, value), perm=(0, 2, 1, 3)), shape=(1, LENGTH, WIDTH))
        y = normalized(y + dense(mixed, f"{layer}.merge"), f"{layer}.norm1")
        inner = mo.gelu(dense(y, f"{layer}.expand"))
        y = normalized(y + dense(inner, f"{layer}.contract"), f"{layer}.norm2")
    loss = mo.mse(y, inputs["target"])
    return Model(feed, weights, {}, inputs, nodes, y, loss, transformer_by_hand, transformer_loss_by_hand)


def transformer_by_hand(feed: dict[str, Any], w: dict[str, Any]) -> Any:
    """The encoded sequence."""
    import torch
    import torch.nn.functional as F

    def dense(y: Any, name: str) -> Any:
        return torch.matmul(y, w[f"{name}.w"]) + w[f"{name}.b"]

    def heads(y: Any) -> Any:
        return y.reshape(1, LENGTH, HEADS, WIDTH // HEADS)

    def normalized(y: Any, name: str) -> Any:
        return F.layer_norm(y, (WIDTH,), w[f"{name}.scale"], w[f"{name}.bias"], EPSILON)

    y = feed["x"]
    for layer in range(LAYERS):
        query = heads(dense(y, f"{layer}.query")).permute(0, 2, 1, 3)
        key = heads(dense(y, f"{layer}.key")).permute(0, 2, 3, 1)
        value = heads(dense(y, f"{layer}.value")).permute(0, 2, 1, 3)
        scores = torch.softmax(torch.matmul(query, key) / math.sqrt(WIDTH // HEADS), dim=-1)
        mixed = torch.matmul(scores, value).permute(0, 2, 1, 3).reshape(1, LENGTH, WIDTH)
        y = normalized(y + dense(mixed, f"{layer}.merge"), f"{layer}.norm1")
        inner = F.gelu(dense(y, f"{layer}.expand"))
        y = normalized(y + dense(inner, f"{layer}.contract"), f"{layer}.norm2")
    return y


def transformer_loss_by_hand(feed: dict[str, Any], w: dict[str, Any]) -> Any:
    """The mean squared error."""
    import torch.nn.functional as F

    return F.mse_loss(transformer_by_hand(feed, w), feed["target"])


MODELS = {"mobilenet": mobilenet, "transformer": transformer}


def _normal(rng: np.random.Generator, shape: Any, deviation: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * deviation).astype(np.float32)


def _placeholders(feed: Arrays) -> dict[str, mo.Node]:
    return {name: mo.Placeholder(array.shape, array.dtype, name=name) for name, array in feed.items()}


if __name__ == "__main__":
    import sys

    from benchmarks.imported import main

    sys.exit(main())
