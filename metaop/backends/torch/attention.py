"""PyTorch's attention, which chooses its own kernel, and the rotation as PyTorch's users write it."""

import math

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

if VERSION >= (2, 5):

    @bind
    def attention(q, k, v, bias=None, mask=None, *, scale, is_causal, softcap):
        if softcap:
            raise UnsupportedOpError("torch: scaled_dot_product_attention has no softcap")
        chosen = mask if bias is None else bias
        if is_causal and chosen is not None:
            # It takes one of the two only.
            earlier = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
            chosen = chosen & earlier if bias is None else bias.masked_fill(~earlier, -math.inf)
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=chosen,
            dropout_p=0.0,
            is_causal=is_causal and chosen is None,
            scale=1 / math.sqrt(q.shape[3]) if scale is None else scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )

else:
    bind.unsupported(
        "attention", reason="scaled_dot_product_attention has a scale and shared heads from PyTorch 2.5 on"
    )


@bind
def rotary_embedding(x, cos, sin, position_ids=None, *, interleaved, rotary_embedding_dim):
    turned = rotary_embedding_dim or x.shape[3]
    if position_ids is not None:
        cos, sin = F.embedding(position_ids, cos), F.embedding(position_ids, sin)
    head, rest = x[..., :turned], x[..., turned:]
    if interleaved:
        cos, sin = (torch.repeat_interleave(t, 2, dim=-1) for t in (cos, sin))
        pairs = head.reshape(head.shape[:-1] + (turned // 2, 2))
        crossed = torch.stack((-pairs[..., 1], pairs[..., 0]), dim=-1).reshape(head.shape)
    else:
        cos, sin = (torch.cat((t, t), dim=-1) for t in (cos, sin))
        first, second = torch.split(head, turned // 2, dim=-1)
        crossed = torch.cat((-second, first), dim=-1)
    return torch.cat((head * cos.unsqueeze(1) + crossed * sin.unsqueeze(1), rest), dim=-1)
