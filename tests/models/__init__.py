"""Small models for tests: seeded weights and feeds, and an explicit name on every operator.

Sizes are chosen so that some operators can take their arguments the other way round (square matrices), that no weight
is invisible (no bias before a softmax over the same axis), and that a fault of a few per cent at any node moves the
target or a gradient by far more than the thresholds of a debug session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import metaop as mo
from metaop.graph.nodes import Node, Operator
from metaop.graph.order import execution_order


@dataclass(frozen=True)
class Model:
    """A scalar ``loss``, the ``prediction`` (not a scalar) that it is computed from, and data for the placeholders."""

    name: str
    loss: Node
    prediction: Node
    feeds: dict[Any, np.ndarray]

    @property
    def operators(self) -> list[Operator]:
        """In order of execution."""
        return [n for n in execution_order([self.loss]) if isinstance(n, Operator)]

    def node(self, name: str) -> Operator:
        return next(n for n in self.operators if n.name == name)


class _Draw:
    """Named leaves with data from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.feeds: dict[Any, np.ndarray] = {}

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * self.rng.standard_normal(shape)).astype(np.float32)

    def weight(self, name: str, *shape: int) -> Node:
        fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        return mo.Variable(self.normal(*shape, scale=1.2 / np.sqrt(fan_in)), name=name)

    def vector(self, name: str, size: int, centre: float = 0.0) -> Node:
        return mo.Variable(centre + self.normal(size, scale=0.3), name=name)

    def data(self, name: str, *shape: int) -> Node:
        return self.feed(name, self.normal(*shape))

    def feed(self, name: str, array: np.ndarray) -> Node:
        node = mo.Placeholder(shape=array.shape, dtype=array.dtype, name=name)
        self.feeds[node] = array
        return node

    def probabilities(self, name: str, rows: int, classes: int) -> Node:
        return self.feed(name, self.rng.dirichlet(np.ones(classes), rows).astype(np.float32))


def mlp(seed: int = 0) -> Model:
    """Centred data, two dense layers, softmax cross-entropy from logits; batch and first layer are square."""
    draw = _Draw(seed)
    x, target = draw.data("x", 6, 6), draw.probabilities("target", 6, 5)
    # No parameter lies above this node: its gradient serves nobody.
    centred = mo.subtract(x, mo.Constant(draw.normal(6, 6)), name="centre")
    hidden = mo.matmul(centred, draw.weight("w1", 6, 6), name="dense1")
    hidden = mo.add(hidden, draw.vector("b1", 6), name="bias1")
    hidden = mo.tanh(hidden, name="tanh")
    logits = mo.matmul(hidden, draw.weight("w2", 6, 5), name="dense2")
    logits = mo.add(logits, draw.vector("b2", 5), name="bias2")
    loss = mo.softmax_cross_entropy(logits, target, axis=-1, reduction="sum", name="loss")
    return Model("mlp", loss, logits, draw.feeds)


def cnn(seed: int = 0, training: bool = False) -> Model:
    """Convolution, batch normalisation, relu, both poolings, a dense layer and softmax cross-entropy."""
    draw = _Draw(seed)
    x, target = draw.data("x", 2, 3, 8, 8), draw.probabilities("target", 2, 5)
    h = mo.conv2d(x, draw.weight("kernel", 4, 3, 3, 3), draw.vector("offset", 4), pads=(1, 1, 1, 1), name="conv")
    mean = mo.Constant(draw.normal(4, scale=0.2), name="mean")
    variance = mo.Constant(np.exp(draw.normal(4, scale=0.2)), name="variance")
    scale, shift = draw.vector("scale", 4, centre=1.0), draw.vector("shift", 4)
    h = mo.batch_norm(h, scale, shift, mean, variance, epsilon=1e-3, training=training, name="norm")
    h = mo.relu(h, name="relu")
    h = mo.max_pool2d(h, kernel_shape=(2, 2), strides=(2, 2), name="max_pool")
    h = mo.average_pool2d(h, kernel_shape=(2, 2), strides=(2, 2), name="average_pool")
    h = mo.flatten(h, axis=1, name="flatten")
    logits = mo.matmul(h, draw.weight("w", 16, 5), name="dense")
    logits = mo.add(logits, draw.vector("b", 5), name="bias")
    loss = mo.softmax_cross_entropy(logits, target, axis=-1, reduction="sum", name="loss")
    return Model("cnn", loss, logits, draw.feeds)


def attention(seed: int = 0) -> Model:
    """A transformer block: multi-head attention, with as many tokens as features per head, and a gelu layer."""
    draw = _Draw(seed)
    batch, tokens, heads, size = 2, 4, 2, 4
    width = heads * size
    x, target = draw.data("x", batch, tokens, width), draw.data("target", batch, tokens, width)
    normal = mo.layer_norm(x, draw.vector("g1", width, 1.0), draw.vector("s1", width), axis=-1, name="norm1")

    def split_heads(what: str) -> Node:
        h = mo.matmul(normal, draw.weight(f"w_{what}", width, width), name=what)
        h = mo.reshape(h, shape=(batch, tokens, heads, size), name=f"{what}_heads")
        return mo.transpose(h, perm=(0, 2, 1, 3), name=f"{what}_first")

    q, k, v = split_heads("query"), split_heads("key"), split_heads("value")
    scores = mo.einsum(q, k, equation="bhid,bhjd->bhij", name="scores")
    scores = mo.multiply(scores, mo.Constant(np.float32(size**-0.5)), name="scaled")
    weights = mo.softmax(scores, axis=-1, name="softmax")
    mixed = mo.matmul(weights, v, name="mixed")
    mixed = mo.transpose(mixed, perm=(0, 2, 1, 3), name="tokens_first")
    mixed = mo.reshape(mixed, shape=(batch, tokens, width), name="merged")
    mixed = mo.matmul(mixed, draw.weight("w_out", width, width), name="out")
    residual = mo.add(x, mixed, name="residual1")
    normal2 = mo.layer_norm(residual, draw.vector("g2", width, 1.0), draw.vector("s2", width), axis=-1, name="norm2")
    hidden = mo.matmul(normal2, draw.weight("w_up", width, 12), name="up")
    hidden = mo.gelu(hidden, name="gelu")
    hidden = mo.matmul(hidden, draw.weight("w_down", 12, width), name="down")
    result = mo.add(residual, hidden, name="residual2")
    loss = mo.mse(result, target, reduction="mean", name="loss")
    return Model("attention", loss, result, draw.feeds)


def branching(seed: int = 0) -> Model:
    """Values with three and more consumers, weights used twice, an operator with several outputs, and a comparison."""
    draw = _Draw(seed)
    x, target = draw.data("x", 5, 6), draw.data("target", 5, 6)
    w, u = draw.weight("w", 6, 6), draw.weight("u", 6, 6)
    b, threshold = draw.vector("b", 6), draw.vector("threshold", 6)
    trunk = mo.tanh(mo.matmul(x, w, name="in"), name="trunk")
    left = mo.sigmoid(mo.add(trunk, b, name="left_bias"), name="left")
    middle = mo.matmul(trunk, u, name="middle")
    right = mo.multiply(middle, b, name="right")
    # The threshold decides, but no gradient reaches it.
    gated = mo.where(mo.greater(middle, threshold, name="above"), left, right, name="gate")
    first, second = mo.split(mo.concat(gated, trunk, axis=1, name="both"), axis=1, num_outputs=2, name="halves")
    again = mo.matmul(first, w, name="again")
    total = mo.add(mo.subtract(again, second, name="difference"), trunk, name="total")
    spread = mo.reduce_mean(mo.square(total, name="squared"), axes=(1,), keepdims=True, name="spread")
    prediction = mo.multiply(total, spread, name="prediction")
    loss = mo.huber(prediction, target, delta=1.0, reduction="sum", name="loss")
    return Model("branching", loss, prediction, draw.feeds)


MODELS: dict[str, Callable[[int], Model]] = {"mlp": mlp, "cnn": cnn, "attention": attention, "branching": branching}
