"""Attention and rotary embedding.

Where nothing but the result is asked for, ONNX's Attention is one node ``attention``; masks that depend on the data
(lengths of sequences) and windows are computed beside it. Where the scores are an output too, or the softmax has a
precision of its own, it is written out as the specification does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.read import DTYPES
from metaop.models.onnx.table import Call, Refused, onnx_op


def _size(x: Node, axis: int) -> int:
    """The size of an axis, which must be known; that of others need not."""
    size = (x.shape or (None,) * 4)[axis]
    if size is None:
        raise Refused(f"the size of axis {axis} of {x.name!r} ({x.type}) must be known")
    return size


def _heads(call: Call, x: Node, part: str, count: int) -> Any:
    """``[B, S, H * E]`` as ``[B, H, S, E]``; what has four axes stays."""
    rank = call.rank(x)
    if rank == 4:
        return x
    if rank != 3 or count < 1:
        raise Refused(f"{part} must have 4 axes, or 3 and a number of heads; got {x.type} and {count}")
    sizes = x.shape or ()
    if sizes[2] is None or sizes[2] % count:
        raise Refused(f"{x.type} cannot be cut into {count} heads")
    shape = _same_rows(call, x, f"{part}_sizes", (count, sizes[2] // count))
    return call.part(
        f"{part}_heads", "transpose", call.part(f"{part}_cut", "reshape", x, shape=shape), perm=(0, 2, 1, 3)
    )


def _flat(call: Call, x: Node) -> Any:
    """The shape of ``[B, S, H, E]`` with its last two axes joined."""
    return _same_rows(call, x, "sizes", (_size(x, 2) * _size(x, 3),))


def _same_rows(call: Call, x: Node, part: str, rest: tuple[int, ...]) -> Any:
    """The first two sizes of ``x`` and others behind them: numbers, or computed where both come with the data."""
    rows = (x.shape or (None, None))[:2]
    if rows != (None, None):
        return (*(-1 if s is None else s for s in rows), *rest)
    behind = call.value(np.array(rest, np.int64), f"{part}_behind")
    return call.part(part, "concat", call.part(f"{part}_rows", "shape_of", x, end=2), behind, axis=0)


def _padded(call: Call, mask: Node, keys: int) -> Any:
    """The mask as long as there are keys; those behind its end are left out."""
    length = (mask.shape or (None,))[-1]
    if length == keys:
        return mask
    if length is None or length > keys or length == 1:
        # ONNX lets a mask broadcast and lets it be too short; of one element it may be either.
        raise Refused(f"the mask {mask.type} must have a known length of at most {keys}, and not 1")
    rank = call.rank(mask)
    pads = (0,) * (2 * rank - 1) + (keys - length,)
    if mask.dtype != np.dtype(bool):
        return call.part("mask_padded", "pad", mask, pads=pads, value=-math.inf)
    numbers = call.part("mask_numbers", "cast", mask, to=np.dtype("float32"))
    longer = call.part("mask_padded", "pad", numbers, pads=pads)
    return call.part("mask_long", "cast", longer, to=np.dtype(bool))


def _allowed(call: Call, q: Node, k: Node, past: int | None, lengths: Node | None) -> tuple[bool, Node | None]:
    """Which keys causality, windows and lengths let through: whether plain causality, and a mask for the rest."""
    causal = call.flag("is_causal")
    left = call.attr("left_window_size", -1) if call.opset >= 25 else -1
    right = call.attr("right_window_size", -1) if call.opset >= 25 else -1
    if min(left, right) < -1:
        raise Refused("window sizes are -1 or more")
    if lengths is None and left < 0 and right < 0 and (past == 0 or not causal):
        return causal, None
    if past is None:
        raise Refused("how many keys are past must be known")
    queries, keys = _size(q, 2), _size(k, 2)
    right = 0 if causal else right
    #: how far a key lies behind its query, were both to start together
    behind = np.arange(queries)[:, None] - np.arange(keys)[None, :] + past
    if lengths is None:
        fine = np.ones((queries, keys), bool)
        fine &= (behind <= left) | (left < 0)
        fine &= (-behind <= right) | (right < 0)
        return False, None if fine.all() else call.value(fine, "allowed")
    column = call.part("lengths", "unsqueeze", lengths, axes=(1, 2, 3))
    places = call.value(np.arange(keys).reshape(1, 1, 1, keys), "places")
    mask = call.part("valid", "less", places, column)
    # Queries are the last of the valid keys: the distance grows by length - queries.
    if right >= 0:
        limit = call.value((queries - right - behind)[None, None], "right_limit")
        mask = call.part("not_after", "logical_and", mask, call.part("right", "greater_equal", column, limit))
    if left >= 0:
        limit = call.value((queries + left - behind)[None, None], "left_limit")
        mask = call.part("not_before", "logical_and", mask, call.part("left", "less_equal", column, limit))
    return False, mask


def _repeated(call: Call, x: Node, heads: int, part: str) -> Any:
    """Each head as often as it serves one of the queries' heads."""
    own = _size(x, 1)
    if own == heads:
        return x
    batch, _, length, size = x.shape or (None,) * 4
    if own < 1 or heads % own:
        raise Refused(f"{heads} heads cannot share {own} heads evenly")
    column = call.part(f"{part}_column", "unsqueeze", x, axes=(2,))
    wide = call.part(f"{part}_wide", "expand", column, shape=(1, 1, heads // own, 1, 1))
    if (batch, length, size).count(None) > 1:
        raise Refused(f"more than one size of {x.type} is open")
    shape = tuple(-1 if s is None else s for s in (batch, heads, length, size))
    return call.part(f"{part}_repeated", "reshape", wide, shape=shape)


@onnx_op("Attention", since=23)
def attention(call: Call) -> Any:
    q_heads, kv_heads = call.attr("q_num_heads", 0), call.attr("kv_num_heads", 0)
    rank = call.rank(call.input(0))
    if any(call.rank(call.input(i)) != rank for i in (1, 2)):
        raise Refused("Q, K and V must have as many axes")
    if rank == 4:
        q_heads = kv_heads = 0
    q = _heads(call, call.input(0), "q", q_heads)
    k, v = _heads(call, call.input(1), "k", kv_heads), _heads(call, call.input(2), "v", kv_heads)
    mask, lengths = call.optional(3), call.optional(6)
    past: int | None = 0
    if call.has(4) != call.has(5) or (call.has(4) and lengths is not None):
        raise Refused("past_key and past_value go together, and without nonpad_kv_seqlen")
    if call.has(4):
        past = (call.input(4).shape or (None,) * 4)[2]
        k = call.part("present_key", "concat", call.input(4), k, axis=2)
        v = call.part("present_value", "concat", call.input(5), v, axis=2)
    if mask is not None:
        mask = _padded(call, mask, _size(k, 2))
    causal, allowed = _allowed(call, q, k, past, lengths)
    bias = None
    if mask is not None and mask.dtype != np.dtype(bool):
        bias = mask
        if allowed is not None:
            bias = call.part("bias", "where", allowed, bias, call.number(-math.inf, bias, "-inf"))
        allowed = None
    elif mask is not None:
        allowed = mask if allowed is None else call.part("mask", "logical_and", mask, allowed)
    scale = call.attr("scale", 0.0) if call.given("scale") else 1 / math.sqrt(_size(q, 3))
    softcap, precision = call.attr("softcap", 0.0), DTYPES.get(call.attr("softmax_precision", 0), q.dtype)
    mode = call.attr("qk_matmul_output_mode", 0)
    name, scores = "attention" if rank == 3 else None, None
    if call.wants(3) or precision != q.dtype:
        y, scores = _written_out(call, name, (q, k, v), bias, allowed, causal, (scale, softcap, mode), precision)
    else:
        given = [q, k, v] + ([bias] if bias is not None else [None, allowed] if allowed is not None else [])
        y = _named(call, name, "attention", *given, scale=scale, softcap=softcap, is_causal=causal)
    if rank == 3:
        back = call.part("back", "transpose", y, perm=(0, 2, 1, 3))
        y = call.make("reshape", back, shape=_flat(call, back))
    return (y, k, v) if scores is None else (y, k, v, scores)


def _named(call: Call, part: str | None, op: str, *inputs: Any, **attrs: Any) -> Any:
    """The node with the ONNX name, or the part of it that ``part`` names."""
    return call.make(op, *inputs, **attrs) if part is None else call.part(part, op, *inputs, **attrs)


def _written_out(
    call: Call,
    name: str | None,
    tensors: tuple[Any, Any, Any],
    bias: Node | None,
    allowed: Node | None,
    causal: bool,
    numbers: tuple[float, float, int],
    precision: Any,
) -> tuple[Any, Any]:
    """Attention step by step, and the scores that ``qk_matmul_output_mode`` asks for."""
    (q, k, v), (scale, softcap, mode) = tensors, numbers
    if scale < 0 or mode not in (0, 1, 2, 3):
        raise Refused(f"scale {scale} and qk_matmul_output_mode {mode} make no sense")
    heads = _size(q, 1)
    k, v = _repeated(call, k, heads, "k"), _repeated(call, v, heads, "v")
    root = call.number(math.sqrt(scale), q, "root")
    columns = call.part("columns", "transpose", k, perm=(0, 1, 3, 2))
    left, right = call.part("q_scaled", "multiply", q, root), call.part("k_scaled", "multiply", columns, root)
    stages = [call.part("scores", "matmul", left, right)]
    if softcap:
        cap = call.number(softcap, q, "softcap")
        bent = call.part("bent", "tanh", call.part("over_cap", "div", stages[0], cap))
        stages.append(call.part("capped", "multiply", bent, cap))
    else:
        stages.append(stages[0])
    if causal:
        allowed_now = call.value(np.tri(_size(q, 2), _size(k, 2), dtype=bool), "causal")
        if bias is not None:
            bias = call.part("causal_bias", "where", allowed_now, bias, call.number(-math.inf, q, "-inf"))
        else:
            both = allowed is not None
            allowed = call.part("causal_mask", "logical_and", allowed, allowed_now) if both else allowed_now
    if allowed is not None:
        bias = call.part("bias", "where", allowed, call.number(0.0, q, "zero"), call.number(-math.inf, q, "-inf"))
    stages.append(stages[1] if bias is None else call.part("biased", "add", stages[1], bias))
    wide = stages[2] if precision == q.dtype else call.part("wide", "cast", stages[2], to=precision)
    weights = call.part("softmax", "softmax", wide, axis=-1)
    if bias is not None:
        most = call.part("most", "reduce_max", bias, axes=(-1,), keepdims=True)
        left_any = call.part("any_left", "greater", most, call.number(-math.inf, q, "least"))
        weights = call.part("weights", "where", left_any, weights, call.number(0.0, weights, "nothing"))
    if precision != q.dtype:
        weights = call.part("narrow", "cast", weights, to=q.dtype)
    stages.append(weights)
    return _named(call, name, "matmul", weights, v), stages[mode]


@onnx_op("RotaryEmbedding", since=23)
def rotary_embedding(call: Call) -> Any:
    x, cos, sin = call.input(0), call.input(1), call.input(2)
    attrs = {"interleaved": call.flag("interleaved"), "rotary_embedding_dim": call.attr("rotary_embedding_dim", 0)}
    count, rank = call.attr("num_heads", 0), call.rank(x)
    tensors = [_heads(call, x, "x", count), cos, sin] + ([call.input(3)] if call.has(3) else [])
    if rank == 4:
        return call.make("rotary_embedding", *tensors, **attrs)
    back = call.part("back", "transpose", call.part("turned", "rotary_embedding", *tensors, **attrs), perm=(0, 2, 1, 3))
    return call.make("reshape", back, shape=_flat(call, back))
