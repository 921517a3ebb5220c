"""Products, lookups and attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Constant, Node, Variable
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


@aten_op("dot", "vdot")
def dot(call: Call, self: Node, tensor: Node = None, other: Node = None) -> Any:  # type: ignore[assignment]
    return call.make("matmul", self, tensor if other is None else other)


@aten_op("bilinear")
def bilinear(call: Call, input1: Node, input2: Node, weight: Node, bias: Node | None) -> Any:
    rows = "abcdefgh"[: call.rank(input1) - 1]
    equation = f"{rows}i,oij,{rows}j->{rows}o"
    if bias is None:
        return call.make("einsum", input1, weight, input2, equation=equation)
    return call.make("add", call.part("product", "einsum", input1, weight, input2, equation=equation), bias)


@aten_op("embedding_bag", "embedding_bag.padding_idx")
def embedding_bag(
    call: Call,
    weight: Node,
    indices: Node,
    offsets: Node,
    mode: int,
    per_sample_weights: Node | None,
    scale_grad_by_freq: bool,
    sparse: bool,
    include_last_offset: bool,
    padding_idx: int | None = None,
) -> Any:
    """Bags of one size, as a matrix of indices makes them."""
    count, total = call.sizes(offsets)[0], call.sizes(indices)[0]
    if not isinstance(offsets, Constant) or not isinstance(total, int) or not count:
        raise Refused("bags of sizes that are not known are not supported")
    if total % count or not np.array_equal(offsets.value, np.arange(count) * (total // count)):
        raise Refused("bags of different sizes are not supported")
    if padding_idx not in (None, -1) or scale_grad_by_freq or sparse or include_last_offset:
        raise Refused("padding_idx, scale_grad_by_freq, sparse and include_last_offset are not supported")
    shape = (count, total // count)
    rows = call.part("rows", "embedding", call.part("bags", "reshape", indices, shape=shape), weight)
    if per_sample_weights is not None:
        factors = call.part("factors", "reshape", per_sample_weights, shape=(*shape, 1))
        rows = call.part("weighted", "multiply", rows, factors)
    return call.make(("reduce_sum", "reduce_mean", "reduce_max")[mode], rows, axes=(1,))


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
