"""Attention, and the rotation that tells it positions.

Meanings follow ONNX's Attention and RotaryEmbedding on four axes, ``[batch, heads, sequence, size]``; what else ONNX's
operators do (joining caches, splitting heads out of the last axis) is data movement, for which there are operators.
"""

import math

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import integers
from metaop.ops.rules import broadcast_shapes, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import BOOL, FLOATING, INDEX, TensorType

# -- shapes ------------------------------------------------------------------------------------------------------------


def _four(name, tensor):
    require_rank(name, tensor, 4, 4)
    return (None,) * 4 if tensor.shape is None else tensor.shape


def _attention(q, k, v, bias=None, mask=None, *, scale, is_causal, softcap):
    if scale is not None and not math.isfinite(scale):
        raise AttributeValueError(f"scale takes a finite number; got {scale}")
    if not 0 <= softcap < math.inf:
        raise AttributeValueError(f"softcap takes a number >= 0, 0 for none; got {softcap}")
    if bias is not None and mask is not None:
        raise ShapeError("attention takes a bias or a mask, not both; join them: where(mask, bias, -inf)")
    (batch, heads, queries, size), keys, values = _four("q", q), _four("k", k), _four("v", v)
    batch = unify_size(unify_size(batch, keys[0], "the batches of q and k"), values[0], "the batches of q and v")
    groups = unify_size(keys[1], values[1], "the heads of k and v")
    count = unify_size(keys[2], values[2], "the sequences of k and v")
    if unify_size(size, keys[3], "the last axes of q and k") == 0:
        raise ShapeError("q: there is nothing to compare along an axis of size 0")
    if count == 0:
        raise ShapeError("k: there is nothing to attend to in a sequence of length 0")
    if heads is not None and groups is not None and (groups == 0 or heads % groups):
        raise ShapeError(f"q: {heads} heads cannot share the {groups} heads of k and v evenly")
    scores = (batch, heads, queries, count)
    for name, tensor in (("bias", bias), ("mask", mask)):
        if tensor is not None and tensor.shape is not None:
            joined = broadcast_shapes([tensor.shape, scores])
            if len(joined) > 4 or any(s == 1 and n not in (None, 1) for s, n in zip(scores, joined, strict=True)):
                wanted = str(list(scores)).replace("None", "?")
                raise ShapeError(f"{name} must broadcast to the scores {wanted}; got {tensor}")
    return TensorType(q.dtype, (batch, heads, queries, values[3]))


# -- attention ---------------------------------------------------------------------------------------------------------


@meta_op(rule=_attention, dtypes=FLOATING, also={"mask": BOOL})
def attention(
    q, k, v, bias=None, mask=None, *, scale: float | None = None, is_causal: bool = False, softcap: float = 0.0
):
    """The mean of ``v [B, G, S, F]``, weighted by ``softmax(q @ k.T * scale)``.

    ``q`` is ``[B, H, L, E]`` and ``k`` is ``[B, G, S, E]``; a head of ``k`` and ``v`` serves ``H / G`` heads of ``q``,
    in turn. ``scale`` is ``1 / sqrt(E)`` unless given. Scores are bounded by ``softcap * tanh(scores / softcap)`` if
    that is not 0; then ``bias`` is added, or keys are left out where ``mask`` is False. With ``is_causal`` query ``i``
    attends to keys up to ``i``. A query without any key left gives zeros.
    """
    root = q.dtype.type(math.sqrt(abs(_scale(scale, q.shape[3]))))
    sign = q.dtype.type(math.copysign(1.0, _scale(scale, q.shape[3])))
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    scores = np.matmul(q * (sign * root), np.swapaxes(k, 2, 3) * root)
    if softcap:
        cap = q.dtype.type(softcap)
        scores = np.tanh(scores / cap) * cap
    if bias is not None:
        scores = scores + bias
    left_out = np.zeros(scores.shape, bool) if bias is None else np.broadcast_to(np.isneginf(bias), scores.shape)
    if mask is not None:
        left_out = left_out | ~mask
    if is_causal:
        left_out = left_out | ~np.tri(*scores.shape[2:], dtype=bool)
    scores = np.where(left_out, q.dtype.type(-np.inf), scores)
    with np.errstate(invalid="ignore"):
        exps = np.exp(scores - np.max(scores, axis=3, keepdims=True))
        weights = exps / np.sum(exps, axis=3, keepdims=True)
    weights = np.where(np.all(left_out, axis=3, keepdims=True), q.dtype.type(0), weights)
    return np.matmul(weights, v)


def _scale(scale, size):
    return 1 / math.sqrt(size) if scale is None else scale


@attention.vjp
def attention_vjp(m, g, y, q, k, v, *given, scale, is_causal, softcap):
    bias, mask = (*given, None, None)[:2]
    (batch, heads, queries, size), (groups, count) = m.shape(q), m.shape(v)[1:3]
    if 0 in (batch, heads, queries):
        return tuple(None if t is None or t is mask else m.zeros_like(t) for t in (q, k, v, *given))
    factor = float(_scale(scale, size))
    grouped = (batch, groups, heads // groups * queries)

    def transposed(x):
        return m.transpose(x, perm=(0, 1, 3, 2))

    def split(x):
        return m.reshape(x, shape=(*grouped, m.shape(x)[3]))

    def joined(x):
        return m.reshape(x, shape=(batch, heads, queries, m.shape(x)[3]))

    # The heads of q that share one of k are so many more queries of it.
    raw = m.multiply(joined(m.matmul(split(q), transposed(k))), factor)
    bent = m.tanh(m.div(raw, softcap)) if softcap else None
    scores = raw if bent is None else m.multiply(bent, softcap)
    scores = scores if bias is None else m.add(scores, bias)
    allowed = mask
    if is_causal:
        earlier = m.constant(np.tri(queries, count, dtype=bool), bool)
        allowed = earlier if mask is None else m.logical_and(mask, earlier)
    if allowed is not None:
        scores = m.where(allowed, scores, -np.inf)
    weights = m.softmax(scores, axis=3)
    if bias is not None or allowed is not None:
        weights = m.where(m.greater(m.reduce_max(scores, axes=(3,), keepdims=True), -np.inf), weights, 0.0)
    dweights = joined(m.matmul(split(g), transposed(v)))
    dv = m.matmul(transposed(split(weights)), split(g))
    mean = m.reduce_sum(m.multiply(dweights, weights), axes=(3,), keepdims=True)
    dscores = m.multiply(weights, m.subtract(dweights, mean))
    dbias = None if bias is None else m.sum_to(dscores, bias)
    if bent is not None:
        dscores = m.multiply(dscores, m.subtract(1.0, m.square(bent)))
    dscores = split(m.multiply(dscores, factor))
    dq, dk = joined(m.matmul(dscores, k)), m.matmul(transposed(dscores), split(q))
    return (dq, dk, dv, *(dbias, None)[: len(given)])


@attention.samples
def attention_samples(draw):
    same = {"q": (2, 3, 4, 5), "k": (2, 3, 4, 5), "v": (2, 3, 4, 5)}
    cross = {"q": (2, 4, 3, 4), "k": (2, 2, 5, 4), "v": (2, 2, 5, 6)}
    some = np.arange(15).reshape(3, 5) % 4 != 1
    yield draw(**same)
    yield draw(**cross)
    yield draw(**same, scale=0.3)
    yield draw(**same, is_causal=True)
    yield draw(**cross, is_causal=True)
    yield draw(**cross, bias=(3, 5))
    yield draw(**cross, bias=(2, 1, 3, 5), scale=1.0)
    yield draw(**cross, mask=some)
    yield draw(**cross, mask=np.tile(some[:1, None, None], (2, 1, 1, 1)))
    yield draw(**same, bias=(4, 4), is_causal=True)
    yield draw(**same, mask=np.arange(16).reshape(4, 4) % 5 != 2, is_causal=True)
    yield draw(**cross, softcap=1.5)
    yield draw(**cross, softcap=0.7, bias=(4, 3, 5), is_causal=True)
    yield draw(q=(1, 6, 1, 3), k=(1, 1, 7, 3), v=(1, 1, 7, 2))
    # A query with nothing to attend to.
    none = some & (np.arange(3)[:, None] != 1)
    yield draw(**cross, mask=none)
    yield draw(**cross, bias=np.where(none, 0.5, -np.inf), special=True)
    yield draw(q=(0, 2, 3, 4), k=(0, 2, 3, 4), v=(0, 2, 3, 4))


@attention.rejects
def attention_rejects(reject):
    q, k, v = "float32[2, 4, 3, 8]", "float32[2, 2, 5, 8]", "float32[2, 2, 5, 6]"
    yield reject(q="float32[4, 3, 8]", k=k, v=v, message="q must have rank 4")
    yield reject(q=q, k="float32[3, 2, 5, 8]", v=v, message="the batches of q and k")
    yield reject(q=q, k="float32[2, 3, 5, 8]", v="float32[2, 3, 5, 6]", message="4 heads cannot share the 3")
    yield reject(q=q, k="float32[2, 2, 5, 7]", v=v, message="the last axes of q and k")
    yield reject(q=q, k=k, v="float32[2, 2, 4, 6]", message="the sequences of k and v")
    yield reject(q=q, k=k, v="float32[2, 4, 5, 6]", message="the heads of k and v")
    yield reject(q=q, k="float32[2, 2, 0, 8]", v="float32[2, 2, 0, 6]", message="nothing to attend to")
    yield reject(q=q, k=k, v=v, bias="float32[4, 5]", message="do not broadcast")
    yield reject(q=q, k=k, v=v, mask="bool[1, 2, 4, 3, 5]", message="mask must broadcast to the scores")
    yield reject(q=q, k=k, v=v, mask="float32[3, 5]", message="'mask' takes bool")
    yield reject(q=q, k=k, v=v, bias="float32[3, 5]", mask="bool[3, 5]", message="not both")
    yield reject(q=q, k=k, v=v, softcap=-1.0, message="softcap takes")
    yield reject(q=q, k=k, v=v, scale=float("nan"), message="scale takes")


# -- rotation ----------------------------------------------------------------------------------------------------------


def _rotary(x, cos, sin, position_ids=None, *, interleaved, rotary_embedding_dim):
    batch, _, sequence, size = _four("x", x)
    if rotary_embedding_dim < 0 or rotary_embedding_dim % 2:
        raise AttributeValueError(f"rotary_embedding_dim takes an even number >= 0; got {rotary_embedding_dim}")
    turned = rotary_embedding_dim or size
    if size is not None and (turned > size or turned % 2):
        raise ShapeError(f"x: {turned} elements are to be rotated in pairs, of {size}")
    rank = 3 if position_ids is None else 2
    for name, table in (("cos", cos), ("sin", sin)):
        require_rank(name, table, rank, rank)
        if table.shape is None:
            continue
        if turned is not None:
            unify_size(table.shape[-1], turned // 2, f"the last axis of {name} and the pairs to rotate")
        if position_ids is None:
            batch = unify_size(batch, table.shape[0], f"the batches of x and {name}")
            sequence = unify_size(sequence, table.shape[1], f"the sequences of x and {name}")
    if cos.shape is not None and sin.shape is not None:
        for a, b in zip(cos.shape, sin.shape, strict=True):
            unify_size(a, b, "cos and sin")
    if position_ids is not None:
        require_rank("position_ids", position_ids, 2, 2)
        if position_ids.shape is not None:
            batch = unify_size(batch, position_ids.shape[0], "the batches of x and position_ids")
            sequence = unify_size(sequence, position_ids.shape[1], "the sequences of x and position_ids")
    return x if x.shape is None else x.with_shape((batch, x.shape[1], sequence, size))


@meta_op(rule=_rotary, dtypes=FLOATING, also={"position_ids": INDEX}, domain={"position_ids": integers(0, 4)})
def rotary_embedding(x, cos, sin, position_ids=None, *, interleaved: bool = False, rotary_embedding_dim: int = 0):
    """Pairs of elements of the last axis of ``x [B, H, S, E]``, turned by angles that depend on the position in ``S``.

    The angles' ``cos`` and ``sin`` are ``[B, S, D / 2]``, or tables ``[positions, D / 2]`` with a row for each of the
    ``position_ids [B, S]``. ``D`` is ``rotary_embedding_dim``, or all of ``E`` where that is 0; elements from ``D`` on
    stay as they are. Pairs are neighbours if ``interleaved``, else the two halves of the ``D`` elements.
    """
    turned = rotary_embedding_dim or x.shape[3]
    if position_ids is not None:
        cos, sin = cos[position_ids], sin[position_ids]
    cos, sin = cos[:, None], sin[:, None]
    first = slice(0, turned, 2) if interleaved else slice(0, turned // 2)
    second = slice(1, turned, 2) if interleaved else slice(turned // 2, turned)
    y = x.copy()
    y[..., first] = cos * x[..., first] - sin * x[..., second]
    y[..., second] = sin * x[..., first] + cos * x[..., second]
    return y


@rotary_embedding.vjp
def rotary_embedding_vjp(m, g, y, x, cos, sin, *given, interleaved, rotary_embedding_dim):
    shape, position_ids = m.shape(x), (*given, None)[0]
    if 0 in shape:
        return (*map(m.zeros_like, (x, cos, sin)), *(None for _ in given))
    turned = rotary_embedding_dim or shape[3]

    def part(tensor, start, end, step=1):
        return m.slice(tensor, starts=(start,), ends=(end,), axes=(3,), steps=(step,))

    def halves(tensor):
        if interleaved:
            return part(tensor, 0, turned, 2), part(tensor, 1, turned, 2)
        return part(tensor, 0, turned // 2), part(tensor, turned // 2, turned)

    def table(tensor):
        rows = tensor if position_ids is None else m.gather(tensor, position_ids, axis=0)
        return m.unsqueeze(rows, axes=(1,))

    (a, b), (ga, gb), c, s = halves(x), halves(g), table(cos), table(sin)
    # Back by the same angles.
    da = m.add(m.multiply(ga, c), m.multiply(gb, s))
    db = m.subtract(m.multiply(gb, c), m.multiply(ga, s))
    if interleaved:
        dx = m.reshape(m.stack(da, db, axis=4), shape=(*shape[:3], turned))
    else:
        dx = m.concat(da, db, axis=3)
    if turned < shape[3]:
        dx = m.concat(dx, part(g, turned, shape[3]), axis=3)

    def summed(products, like):
        rows = m.reduce_sum(products, axes=(1,))
        if position_ids is None:
            return rows
        return m.scatter_add(position_ids, rows, axis=0, size=m.shape(like)[0])

    dcos = summed(m.add(m.multiply(ga, a), m.multiply(gb, b)), cos)
    dsin = summed(m.subtract(m.multiply(gb, a), m.multiply(ga, b)), sin)
    return (dx, dcos, dsin, *(None for _ in given))


@rotary_embedding.samples
def rotary_embedding_samples(draw):
    for interleaved in (False, True):
        yield draw(x=(2, 3, 4, 6), cos=(2, 4, 3), sin=(2, 4, 3), interleaved=interleaved)
        yield draw(x=(2, 3, 4, 6), cos=(5, 3), sin=(5, 3), position_ids=(2, 4), interleaved=interleaved)
        yield draw(x=(1, 2, 3, 8), cos=(1, 3, 2), sin=(1, 3, 2), rotary_embedding_dim=4, interleaved=interleaved)
    yield draw(x=(1, 2, 1, 6), cos=(4, 1), sin=(4, 1), position_ids=[[3]], rotary_embedding_dim=2)
    yield draw(x=(0, 2, 3, 4), cos=(0, 3, 2), sin=(0, 3, 2))


@rotary_embedding.rejects
def rotary_embedding_rejects(reject):
    x = "float32[2, 3, 4, 6]"
    rows = {"cos": "float32[2, 4, 3]", "sin": "float32[2, 4, 3]"}
    yield reject(x="float32[2, 4, 6]", **rows, message="x must have rank 4")
    yield reject(x="float32[2, 3, 4, 5]", **rows, message="in pairs")
    yield reject(x=x, **rows, rotary_embedding_dim=8, message="8 elements are to be rotated in pairs, of 6")
    yield reject(x=x, **rows, rotary_embedding_dim=3, message="rotary_embedding_dim takes")
    yield reject(x=x, **rows, rotary_embedding_dim=4, message="the last axis of cos")
    yield reject(x=x, cos="float32[4, 3]", sin="float32[4, 3]", message="cos must have rank 3")
    yield reject(x=x, cos="float32[2, 5, 3]", sin="float32[2, 5, 3]", message="the sequences of x and cos")
    yield reject(x=x, **rows, position_ids="int64[2, 4]", message="cos must have rank 2")
    table = {"cos": "float32[9, 3]", "sin": "float32[9, 3]"}
    yield reject(x=x, **table, position_ids="int64[2, 5]", message="the sequences of x and position_ids")
    yield reject(x=x, **table, position_ids="float32[2, 4]", message="'position_ids' takes int32")
