"""JAX's attention, whose heads stand behind the sequence, and the rotation as JAX's users write it."""

import math

import jax
import jax.numpy as jnp

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.contraction import FULL
from metaop.backends.jax.indices import within


@bind
def attention(q, k, v, bias=None, mask=None, *, scale, is_causal, softcap):
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    allowed, left = mask, None
    if is_causal:
        earlier = jnp.tri(q.shape[2], k.shape[2], dtype=bool)
        allowed = earlier if mask is None else mask & earlier
    if bias is not None:
        finite = bias > -math.inf
        allowed = finite if allowed is None else allowed & finite
    if allowed is not None:
        # A query with no key left would attend to all of them alike, or to NaN.
        left = jnp.any(allowed, axis=-1, keepdims=True)
        bias = None if bias is None else jnp.where(left, bias, 0)
    attend = own if is_own(q, v, softcap) else composed
    y = attend(q, k, v, bias, allowed, scale, softcap)
    return y if left is None else jnp.where(left, y, 0)


def is_own(q, v, softcap):
    """Whether ``jax.nn.dot_product_attention`` does it.

    Its softmax is in float32, also of float64, and it asks for products of float16 that do not compile for CPUs.
    """
    known = hasattr(jax.nn, "dot_product_attention") and q.dtype not in (jnp.float16, jnp.float64)
    return known and q.shape[3] == v.shape[3] and not softcap


def own(q, k, v, bias, allowed, scale, softcap):
    def turned(x):
        return jnp.swapaxes(x, 1, 2)

    with jax.default_matmul_precision("highest"):
        y = jax.nn.dot_product_attention(
            turned(q), turned(k), turned(v), bias=bias, mask=allowed, scale=scale, is_causal=False
        )
    return turned(y)


def composed(q, k, v, bias, allowed, scale, softcap):
    shared = q.shape[1] // k.shape[1]
    k, v = jnp.repeat(k, shared, axis=1), jnp.repeat(v, shared, axis=1)
    scores = jnp.einsum("bhle,bhse->bhls", q, k, precision=FULL) * scale
    if softcap:
        scores = softcap * jnp.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        # Not -Inf, of which a softmax makes NaN where there is nothing else.
        scores = jnp.where(allowed, scores, jnp.finfo(scores.dtype).min)
    return jnp.einsum("bhls,bhsf->bhlf", jax.nn.softmax(scores, axis=-1), v, precision=FULL)


@before("rotary_embedding")
def positions_exist(x, cos, sin, position_ids=None, *, interleaved, rotary_embedding_dim):
    if position_ids is not None:
        within("position_ids", position_ids, 0, cos.shape[0])


@bind
def rotary_embedding(x, cos, sin, position_ids=None, *, interleaved, rotary_embedding_dim):
    turned = rotary_embedding_dim or x.shape[3]
    if position_ids is not None:
        cos, sin = (jnp.take(table, position_ids, axis=0, mode="fill") for table in (cos, sin))
    head, rest = jnp.split(x, [turned], axis=-1)
    if interleaved:
        cos, sin = jnp.repeat(cos, 2, axis=-1), jnp.repeat(sin, 2, axis=-1)
        crossed = jnp.reshape(jnp.stack([-head[..., 1::2], head[..., ::2]], axis=-1), head.shape)
    else:
        cos, sin = jnp.concatenate([cos, cos], axis=-1), jnp.concatenate([sin, sin], axis=-1)
        first, second = jnp.split(head, 2, axis=-1)
        crossed = jnp.concatenate([-second, first], axis=-1)
    y = head * jnp.expand_dims(cos, 1) + crossed * jnp.expand_dims(sin, 1)
    return jnp.concatenate([y, rest], axis=-1)
