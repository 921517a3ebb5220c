"""Products, lookups and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node, Variable
from metaop.models.torch.table import Call, Refused, aten_op


@aten_op("linear")
def linear(call: Call, input: Node, weight: Node, bias: Node | None) -> Any:
    return call.make("linear", input, weight, bias)


@aten_op("matmul")
def matmul(call: Call, self: Node, other: Node) -> Any:
    return call.make("matmul", self, other)


@aten_op("mm", "bmm")
def mm(call: Call, self: Node, mat2: Node) -> Any:
    return call.make("matmul", self, mat2)


@aten_op("mv")
def mv(call: Call, self: Node, vec: Node) -> Any:
    return call.make("matmul", self, vec)


@aten_op("addmm")
def addmm(call: Call, self: Node, mat1: Node, mat2: Node) -> Any:
    return call.make("add", call.part("product", "matmul", mat1, mat2), self)


@aten_op("baddbmm")
def baddbmm(call: Call, self: Node, batch1: Node, batch2: Node) -> Any:
    return call.make("add", call.part("product", "matmul", batch1, batch2), self)


@aten_op("einsum")
def einsum(call: Call, equation: str, tensors: tuple[Node, ...]) -> Any:
    return call.make("einsum", *tensors, equation=equation)


@aten_op("embedding")
def embedding(call: Call, weight: Node, indices: Node, padding_idx: int) -> Any:
    if padding_idx < 0:
        return call.make("embedding", indices, weight)
    # PyTorch never trains that row: no gradient reaches it.
    if not isinstance(weight, Variable):
        raise Refused(f"padding_idx={padding_idx} is supported for a parameter only")
    rows = call.part("rows", "embedding", indices, weight)
    hit = call.part("is_padding", "equal", indices, call.cast(padding_idx, call.dtype_of(indices), "padding_idx"))
    hit = call.part("hit", "unsqueeze", hit, axes=(-1,))
    return call.make("where", hit, call.value(weight.value[padding_idx], "padding"), rows)


@aten_op("scaled_dot_product_attention")
def attention(
    call: Call,
    query: Node,
    key: Node,
    value: Node,
    attn_mask: Node | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Any:
    rank = call.rank(query)
    if rank != call.rank(key) or rank != call.rank(value):
        raise Refused("query, key and value must have one rank")
    width = call.sizes(query)[-1]
    if scale is None:
        if not isinstance(width, int):
            raise Refused("the width of a head must be known")
        scale = 1 / math.sqrt(width)
    turned = call.part("key", "transpose", key, perm=(*range(rank - 2), rank - 1, rank - 2))
    scores = call.part("scores", "matmul", query, turned)
    scores = call.part("scaled", "multiply", scores, call.cast(float(scale), call.dtype, "scale"))
    allowed = None
    if is_causal:
        length, others = call.sizes(query)[-2], call.sizes(key)[-2]
        if not (isinstance(length, int) and isinstance(others, int)):
            raise Refused("is_causal needs sequences of known length")
        # Every row has at least its first element, so that none is left without weights.
        causal = call.value(np.tril(np.ones((length, others), bool)), "causal")
        scores = call.part("masked", "where", causal, scores, call.cast(-math.inf, call.dtype, "never"))
    elif attn_mask is not None:
        allowed = attn_mask
        if call.dtype_of(attn_mask) != np.bool_:
            scores = call.part("biased", "add", scores, call.cast(attn_mask, call.dtype, "mask"))
            allowed = call.part("allowed", "greater", attn_mask, call.cast(-math.inf, call.dtype, "never"))
        # PyTorch gives a row without any allowed element the weight 0 everywhere, where softmax alone says NaN. The
        # lowest number instead of -inf keeps such a row finite; all its weights are then put to 0.
        lowest = call.cast(float(np.finfo(call.dtype).min), call.dtype, "lowest")
        scores = call.part("masked", "where", allowed, scores, lowest)
    weights = call.part("weights", "softmax", scores, axis=-1)
    if allowed is not None:
        weights = call.part("kept", "where", allowed, weights, call.cast(0.0, call.dtype, "nothing"))
    if dropout_p:
        weights = call.part("dropout", "dropout", weights, ratio=float(dropout_p), training=True)
    return call.make("matmul", weights, value)
