"""Attention and rotary embedding, which came with opset 23."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import RUNTIME, knows


def attention(o, q, k, v, bias=None, mask=None, *, scale, is_causal, softcap):
    o.since(23)
    if q.dtype == np.float64:
        o.no_kernel("it has no float64 kernel of Attention; ONNX's function body takes the softmax in float32")
    if 0 in q.shape:
        o.no_kernel("its Attention takes no empty tensors")
    chosen, scores = mask if bias is None else bias, (q.shape[2], k.shape[2])
    if chosen is not None and chosen.shape[-2:] != scores:
        # The kernel broadcasts over batches and heads only.
        chosen = o.Expand(chosen, chosen.shape[:-2] + scores)
    return o.Attention(
        q,
        k,
        v,
        chosen,
        scale=1 / float(np.sqrt(q.shape[3])) if scale is None else scale,
        is_causal=is_causal,
        softcap=softcap,
        qk_matmul_output_mode=0,
    )


def rotary_embedding(o, x, cos, sin, position_ids=None, *, interleaved, rotary_embedding_dim):
    o.since(23)
    if position_ids is not None and position_ids.dtype != np.int64:
        position_ids = o.Cast(position_ids, to=np.dtype(np.int64))
    return o.RotaryEmbedding(
        x,
        cos,
        sin,
        position_ids,
        interleaved=interleaved,
        num_heads=0,
        rotary_embedding_dim=rotary_embedding_dim,
    )


if knows(23):
    bind(attention)
    bind(rotary_embedding)
else:
    bind.unsupported(
        "attention",
        "rotary_embedding",
        reason="ONNX has it from opset 23 on, onnxruntime {}.{} knows less".format(*RUNTIME),
    )
