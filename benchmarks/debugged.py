"""Networks to debug: graphs with a scalar loss, data for it, and as many operators as one likes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import metaop as mo
from metaop.graph.nodes import Operator
from metaop.graph.order import execution_order

__all__ = ["NETWORKS", "Build", "Network", "cnn", "lstm", "mlp", "resnet18", "transformer"]


@dataclass(frozen=True)
class Network:
    """A loss and what it is fed."""

    name: str
    loss: mo.Node
    feeds: dict[Any, np.ndarray]

    @property
    def operators(self) -> list[Operator]:
        """In order of execution."""
        return [n for n in execution_order([self.loss]) if isinstance(n, Operator)]

    def node(self, name: str) -> Operator:
        """An operator by name."""
        return next(n for n in self.operators if n.name == name)


class Build:
    """Seeded leaves of a graph, and what they are fed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.feeds: dict[Any, np.ndarray] = {}

    def weight(self, name: str, *shape: int, fan: int | None = None) -> mo.Node:
        scale = np.sqrt(2.0 / (fan or shape[0]))
        return mo.Variable((scale * self.rng.standard_normal(shape)).astype(np.float32), name=name)

    def vector(self, name: str, size: int, centre: float = 0.0) -> mo.Node:
        return mo.Variable((centre + 0.1 * self.rng.standard_normal(size)).astype(np.float32), name=name)

    def feed(self, name: str, array: np.ndarray) -> mo.Node:
        node = mo.Placeholder(shape=array.shape, dtype=array.dtype, name=name)
        self.feeds[node] = array
        return node

    def normal(self, name: str, *shape: int) -> mo.Node:
        return self.feed(name, self.rng.standard_normal(shape).astype(np.float32))

    def classes(self, name: str, rows: int, classes: int) -> mo.Node:
        return self.feed(name, self.rng.dirichlet(np.ones(classes), rows).astype(np.float32))


def mlp(layers: int = 6, width: int = 64, batch: int = 16, seed: int = 0) -> Network:
    """Dense layers with a tanh each."""
    b = Build(seed)
    h = b.normal("x", batch, width)
    for i in range(layers):
        h = mo.matmul(h, b.weight(f"w{i}", width, width), name=f"dense{i}")
        h = mo.add(h, b.vector(f"b{i}", width), name=f"bias{i}")
        h = mo.tanh(h, name=f"tanh{i}") if i % 2 else mo.relu(h, name=f"relu{i}")
    loss = mo.softmax_cross_entropy(h, b.classes("target", batch, width), name="loss")
    return Network("mlp", loss, b.feeds)


def cnn(blocks: int = 8, channels: int = 8, size: int = 12, batch: int = 2, seed: int = 0) -> Network:
    """Residual blocks of two convolutions; seven operators each, and a pooling after the first half of them."""
    b = Build(seed)
    h = mo.conv2d(b.normal("x", batch, 3, size, size), b.weight("stem.w", channels, 3, 3, 3, fan=27), pads=(1,) * 4)

    def normalized(x: mo.Node, name: str) -> mo.Node:
        mean, var = (b.vector(f"{name}.{what}", channels, centre) for what, centre in (("mean", 0.0), ("var", 1.0)))
        mean, var = mo.Constant(mean.value, name=mean.name), mo.Constant(np.abs(var.value), name=var.name)
        scale, bias = b.vector(f"{name}.scale", channels, 1.0), b.vector(f"{name}.bias", channels)
        return mo.batch_norm(x, scale, bias, mean, var, epsilon=1e-5, training=False, name=name)

    for i in range(blocks):
        y = h
        for j in range(2):
            w = b.weight(f"block{i}.w{j}", channels, channels, 3, 3, fan=9 * channels)
            y = mo.conv2d(y, w, pads=(1, 1, 1, 1), name=f"block{i}.conv{j}")
            y = normalized(y, f"block{i}.norm{j}")
            if j == 0:
                y = mo.relu(y, name=f"block{i}.relu0")
        h = mo.relu(mo.add(h, y, name=f"block{i}.sum"), name=f"block{i}.relu1")
        if i == blocks // 2:
            h = mo.max_pool2d(h, kernel_shape=(2, 2), strides=(2, 2), name="pool")
    h = mo.flatten(mo.global_average_pool(h, name="average"), axis=1, name="flatten")
    logits = mo.matmul(h, b.weight("dense.w", channels, 10), name="dense")
    loss = mo.softmax_cross_entropy(logits, b.classes("target", batch, 10), name="loss")
    return Network("cnn", loss, b.feeds)


def transformer(
    layers: int = 2, width: int = 32, heads: int = 4, tokens: int = 16, batch: int = 2, seed: int = 0
) -> Network:
    """An encoder with normalization before each part; seventeen operators a layer."""
    b = Build(seed)
    h = b.normal("x", batch, tokens, width)
    size = width // heads

    def norm(x: mo.Node, name: str) -> mo.Node:
        return mo.layer_norm(x, b.vector(f"{name}.g", width, 1.0), b.vector(f"{name}.b", width), axis=-1, name=name)

    def dense(x: mo.Node, name: str, inputs: int, outputs: int) -> mo.Node:
        product = mo.matmul(x, b.weight(f"{name}.w", inputs, outputs, fan=2 * inputs), name=name)
        return mo.add(product, b.vector(f"{name}.b", outputs), name=f"{name}.bias")

    def split(x: mo.Node, name: str) -> mo.Node:
        x = mo.reshape(x, shape=(batch, tokens, heads, size), name=f"{name}.split")
        return mo.transpose(x, perm=(0, 2, 1, 3), name=f"{name}.first")

    for i in range(layers):
        n = norm(h, f"layer{i}.norm0")
        q, k, v = (split(dense(n, f"layer{i}.{what}", width, width), f"layer{i}.{what}") for what in "qkv")
        scores = mo.einsum(q, k, equation="bhid,bhjd->bhij", name=f"layer{i}.scores")
        scores = mo.multiply(scores, size**-0.5, name=f"layer{i}.scaled")
        mixed = mo.matmul(mo.softmax(scores, axis=-1, name=f"layer{i}.softmax"), v, name=f"layer{i}.mixed")
        mixed = mo.transpose(mixed, perm=(0, 2, 1, 3), name=f"layer{i}.merge")
        mixed = mo.reshape(mixed, shape=(batch, tokens, width), name=f"layer{i}.merged")
        h = mo.add(h, dense(mixed, f"layer{i}.out", width, width), name=f"layer{i}.sum0")
        n = norm(h, f"layer{i}.norm1")
        n = mo.gelu(dense(n, f"layer{i}.up", width, 2 * width), name=f"layer{i}.gelu")
        h = mo.add(h, dense(n, f"layer{i}.down", 2 * width, width), name=f"layer{i}.sum1")
    loss = mo.mse(norm(h, "norm"), b.normal("target", batch, tokens, width), name="loss")
    return Network("transformer", loss, b.feeds)


def lstm(steps: int = 6, width: int = 12, batch: int = 3, seed: int = 0) -> Network:
    """An embedding, a recurrent layer over the words, and a label for each."""
    b = Build(seed)
    words = b.feed("words", b.rng.integers(0, 50, (steps, batch)).astype(np.int64))
    h = mo.gather(b.weight("embedding", 50, width), words, axis=0, name="embedding.rows")
    w, r = b.weight("w", 1, 4 * width, width, fan=width), b.weight("r", 1, 4 * width, width, fan=2 * width)
    bias = mo.Variable(b.rng.standard_normal((1, 8 * width)).astype(np.float32) * np.float32(0.1), name="bias")
    h = mo.lstm(h, w, r, bias, name="lstm")[0]
    h = mo.reshape(h, shape=(steps * batch, width), name="rows")
    logits = mo.add(mo.matmul(h, b.weight("tags.w", width, 5), name="tags"), b.vector("tags.b", 5), name="tags.bias")
    weights = mo.log_softmax(logits, axis=-1, name="log_softmax")
    loss = mo.reduce_mean(mo.multiply(weights, b.classes("target", steps * batch, 5), name="chosen"), name="mean")
    return Network("lstm", mo.negative(loss, name="loss"), b.feeds)


def resnet18(width: int = 8, size: int = 32, batch: int = 2, seed: int = 0) -> Network:
    """The network of that name, imported from PyTorch."""
    import torch

    from benchmarks import torch_zoo

    module = torch_zoo.seeded(torch_zoo.resnet18(width, 10), seed)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((batch, 3, size, size)).astype(np.float32)
    model = mo.from_torch(module.eval(), (torch.from_numpy(x),))
    target = mo.Placeholder(shape=(batch, 10), dtype="float32", name="target")
    loss = mo.softmax_cross_entropy(model.outputs[0], target, name="loss")
    feeds = {model.inputs[0]: x, target: rng.dirichlet(np.ones(10), batch).astype(np.float32)}
    return Network("resnet18", loss, feeds)


NETWORKS: dict[str, Callable[..., Network]] = {
    "mlp": mlp,
    "cnn": cnn,
    "resnet18": resnet18,
    "lstm": lstm,
    "transformer": transformer,
}
