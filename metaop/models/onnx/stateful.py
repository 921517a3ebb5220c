"""Operators that hand a state from one step to the next: linear attention and causal convolution.

No framework has them as operators, so they are written out, step by step, in those that every framework has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op

#: more steps than this are not written out
LONGEST = 64
_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


def _steps(call: Call, x: Node, part: str, heads: int, to: np.dtype) -> list[Any]:
    """``[B, T, H * D]`` as one ``[B, H, 1, D]`` for each of the ``T`` steps."""
    batch, length, width = call.shape(x)
    if heads < 1 or width % heads:
        raise Refused(f"{part} {x.type} cannot be cut into {heads} heads")
    if x.dtype != to:
        x = call.part(f"{part}_wide", "cast", x, to=to)
    cut = call.part(f"{part}_heads", "reshape", x, shape=(batch, length, heads, width // heads))
    split = call.part(f"{part}_steps", "split", cut, axis=1, num_outputs=length)
    found = split if isinstance(split, tuple) else (split,)
    return [call.part(part, "transpose", step, perm=(0, 2, 1, 3)) for step in found]


@onnx_op("LinearAttention", since=27)
def linear_attention(call: Call) -> Any:
    call.attr("chunk_size", 64)  # a hint that does not change the result
    heads, groups = call.attr("q_num_heads", 0), call.attr("kv_num_heads", 0)
    rule = call.attr("update_rule", "gated_delta")
    query, key, value = call.input(0), call.input(1), call.input(2)
    past, decay, beta = call.optional(3), call.optional(4), call.optional(5)
    batch, length, width = call.shape(query)
    if rule not in _RULES or _RULES[rule] != (decay is not None, beta is not None):
        raise Refused(f"update_rule={rule!r} does not go with the inputs decay and beta that are given")
    if groups < 1 or heads < 1 or heads % groups or not 1 <= length <= LONGEST:
        raise Refused(f"{heads} heads must share {groups} evenly, and there may be 1 to {LONGEST} steps; got {length}")
    size, shared = width // heads, heads // groups
    own, work = query.dtype, np.result_type(query.dtype or np.float32, np.float32)
    scale = call.attr("scale", 0.0) or 1 / math.sqrt(size)
    queries = _steps(call, query, "q", heads, work)
    keys, values = _steps(call, key, "k", groups, work), _steps(call, value, "v", groups, work)
    decays = None if decay is None else _steps(call, decay, "decay", groups, work)
    rates = None if beta is None else _steps(call, beta, "beta", call.shape(beta)[2], work)
    kept = own if past is None else past.dtype
    if past is None:
        state: Any = call.value(np.zeros((batch, groups, size, call.shape(value)[2] // groups), work), "start")
    else:
        state = past if past.dtype == work else call.part("start", "cast", past, to=work)
    factor, outputs = call.value(np.asarray(scale, work), "scale"), []
    for i in range(length):
        if decays is not None:
            fade = call.part("fade", "transpose", call.part("exp", "exp", decays[i]), perm=(0, 1, 3, 2))
            state = call.part("faded", "multiply", state, fade)
        new = values[i]
        if rates is not None:
            error = call.part("error", "subtract", new, call.part("recalled", "matmul", keys[i], state))
            new = call.part("correction", "multiply", error, rates[i])
        column = call.part("column", "transpose", keys[i], perm=(0, 1, 3, 2))
        state = call.part("state", "add", state, call.part("outer", "multiply", column, new))
        # The heads that share a state are so many rows of one matrix.
        rows = call.part("rows", "reshape", queries[i], shape=(batch, groups, shared, size))
        read = call.part("scaled", "multiply", call.part("read", "matmul", rows, state), factor)
        outputs.append(call.part("out", "reshape", read, shape=(batch, 1, heads * call.shape(read)[3])))
    last = state if kept == work else call.part("present_state", "cast", state, to=kept)
    if own != work:
        return call.make("cast", call.part("joined", "concat", *outputs, axis=1), to=own), last
    return call.make("concat", *outputs, axis=1), last


@onnx_op("CausalConvWithState", since=27)
def causal_conv(call: Call) -> Any:
    x, w, past = call.input(0), call.input(1), call.optional(3)
    batch, channels, _ = call.shape(x)
    kernel, activation = call.shape(w)[2], call.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise Refused(f"activation={activation!r} is unknown")
    if past is None:
        past = call.value(np.zeros((batch, channels, kernel - 1), x.dtype), "past")
    padded = call.part("padded", "concat", past, x, axis=2) if kernel > 1 else x
    tensors = [padded, w] + ([call.input(2)] if call.has(2) else [])
    length = call.shape(padded)[2]
    state = call.part("present_state", "slice", padded, starts=(length - kernel + 1,), ends=(length,), axes=(2,))
    if activation == "none":
        return call.make("conv1d", *tensors, group=channels), state
    return call.make("silu", call.part("conv", "conv1d", *tensors, group=channels)), state
