"""Matrices: operators on the last two axes."""

import numpy as np

from metaop.ops.rules import require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import ANY, FLOATING


def triangle(x, *, k, upper):
    require_rank("'x'", x, 2)
    return x


@meta_op(rule=triangle, dtypes=ANY)
def trilu(x, *, k: int = 0, upper: bool = True):
    """The upper triangle of the last two axes, from the ``k``-th diagonal on, or the lower one, up to it; 0 elsewhere.

    Diagonals above the main one have positive numbers.
    """
    rows, columns = x.shape[-2:]
    # NumPy's masks take small numbers only, and beyond the corners nothing changes.
    k = max(-rows - 1, min(k, columns + 1))
    return np.triu(x, k) if upper else np.tril(x, k)


@trilu.vjp
def trilu_vjp(m, g, y, x, *, k, upper):
    return (m.trilu(g, k=k, upper=upper),)


@trilu.samples
def trilu_samples(draw):
    yield draw(x=(4, 5))
    yield draw(x=(4, 5), upper=False)
    for upper in (True, False):
        yield draw(x=(4, 5), k=2, upper=upper)
        yield draw(x=(4, 5), k=-1, upper=upper)
        yield draw(x=(2, 3, 3), k=-9, upper=upper)
        yield draw(x=(2, 3, 3), k=2**40, upper=upper)
        yield draw(x=[[np.nan, np.inf], [-np.inf, -0.0]], upper=upper, special=True)
    yield draw(x=(3, 1, 5), k=1)
    yield draw(x=(0, 5), k=6)


@trilu.rejects
def trilu_rejects(reject):
    yield reject(x="float32[3]", message="'x' must have rank at least 2")
    yield reject(x="float32[3, 3]", k=0.5, message="'k' takes an integer")


def eye_type(x, *, k, dtype):
    require_rank("'x'", x, 2, 2)
    return x if dtype is None else x.with_dtype(dtype)


@meta_op(rule=eye_type, dtypes=ANY, types_only=True)
def eye_like(x, *, k: int = 0, dtype: np.dtype | None = None):
    """Ones on the ``k``-th diagonal and zeros elsewhere, of the shape of the matrix ``x``, and of its dtype if no other
    ``dtype`` is given.
    """
    rows, columns = x.shape
    k = max(-rows - 1, min(k, columns + 1))
    return np.eye(rows, columns, k, dtype=x.dtype if dtype is None else dtype)


@eye_like.vjp
def eye_like_vjp(m, g, y, x, *, k, dtype):
    return (m.zeros_like(x),)


@eye_like.samples
def eye_like_samples(draw):
    yield draw(x=(4, 4))
    yield draw(x=(3, 4), dtype="float64")
    yield draw(x=(4, 5), k=1, dtype="int32")
    yield draw(x=(4, 3), k=-2)
    yield draw(x=(2, 3), k=2**40)
    yield draw(x=(0, 3))


@eye_like.rejects
def eye_like_rejects(reject):
    yield reject(x="float32[2, 3, 4]", message="'x' must have rank 2")
    yield reject(x="float32[2, 3]", dtype="complex64", message="'dtype' takes a dtype or None")


def determinant(x):
    require_rank("'x'", x, 2)
    if x.shape is None:
        return x
    unify_size(x.shape[-1], x.shape[-2], "'x' must be square, the last two axes")
    return x.with_shape(x.shape[:-2])


@meta_op(rule=determinant, dtypes=FLOATING)
@np.errstate(all="ignore")
def det(x):
    """The determinant of each matrix of the last two axes."""
    # NumPy factorises no float16.
    return np.asarray(np.linalg.det(x.astype(np.float32) if x.dtype == np.float16 else x)).astype(x.dtype)


@det.vjp
def det_vjp(m, g, y, x):
    """Cofactors, which exist for singular matrices too: the determinants of all minors."""
    *batch, n, _ = m.shape(x)
    g = m.reshape(g, shape=(*batch, 1, 1))
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    if n == 1:
        return (g,)
    kept = np.array([[j for j in range(n) if j != i] for i in range(n)])
    minors = m.constant(kept[:, None, :, None] * n + kept[None, :, None, :], np.int64)
    signs = m.constant((-1.0) ** np.add.outer(np.arange(n), np.arange(n)), m.dtype(x))
    found = m.det(m.gather(m.reshape(x, shape=(*batch, n * n)), minors, axis=-1))
    return (m.multiply(g, m.multiply(found, signs)),)


@det.samples
def det_samples(draw):
    yield draw(x=(3, 3))
    yield draw(x=(2, 4, 4))
    yield draw(x=[[0.0, 2.0], [3.0, 4.0]])
    yield draw(x=(2, 1, 1, 1))
    yield draw(x=(0, 2, 2))


@det.rejects
def det_rejects(reject):
    yield reject(x="float32[2, 3]", message="sizes 3 and 2 differ")
    yield reject(x="float32[4]", message="'x' must have rank at least 2")
    yield reject(x="int64[2, 2]", message="'x' takes")
