"""Norms of windows and axes, and what is divided by them: Lp pooling and normalization, RMS and local response."""

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.normalization import _check_epsilon, _layer_norm
from metaop.ops.pooling import _collect, _counts, _global_pool, _pool, _positions, _slide, _text, _with_nan
from metaop.ops.rules import normalise_axis, require_rank
from metaop.ops.spec import meta_op
from metaop.ops.windows import accumulator
from metaop.types import FLOATING, Ints

# -- Lp pooling --------------------------------------------------------------------------------------------------------


def _check_order(p):
    if p < 1:
        raise AttributeValueError(f"p takes an integer >= 1; got {p}")


def _filled(count, strides, pads, dilations):
    """The attributes of a window over ``count`` axes, defaults filled in."""
    ones = (1,) * count
    return (
        ones if strides is None else strides,
        (0,) * (2 * count) if pads is None else pads,
        ones if dilations is None else dilations,
    )


def _lp_pool(x, *, kernel_shape, p, strides, pads, dilations, ceil_mode):
    _check_order(p)
    spatial = len(kernel_shape)
    if not 1 <= spatial <= 3:
        raise AttributeValueError(f"kernel_shape takes 1 to 3 integers; got {kernel_shape}")
    strides, pads, dilations = _filled(spatial, strides, pads, dilations)
    return _pool(spatial)(
        x, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil_mode
    )


@meta_op(rule=_lp_pool, dtypes=FLOATING)
def lp_pool(
    x,
    *,
    kernel_shape: Ints,
    p: int = 2,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
):
    """The Lp norm ``sum(abs(x) ** p) ** (1 / p)`` of each window of ``x [N, C, spatial...]``, 1 to 3 spatial axes."""
    strides, pads, dilations = _filled(len(kernel_shape), strides, pads, dilations)
    counts = _counts(x.shape[2:], kernel_shape, strides, pads, dilations, ceil_mode)
    powers = np.abs(x.astype(accumulator(x.dtype))) ** p
    sums = _slide(np.add, powers, 0, kernel_shape, strides, pads, dilations, counts)
    return _root(sums, p).astype(x.dtype)


def _root(sums, p):
    return sums if p == 1 else np.sqrt(sums) if p == 2 else sums ** sums.dtype.type(1 / p)


def _slope(m, x, p):
    """The derivative of ``abs(x) ** p / p``."""
    if p == 1:
        return m.sign(x)
    return x if p == 2 else m.multiply(m.sign(x), m.pow(m.abs(x), float(p - 1)))


def _over_norm(m, g, norm, p):
    """``g * norm ** (1 - p)``; where the norm is zero there is no slope, and frameworks take zero."""
    if p == 1:
        return g
    zero = m.equal(norm, 0.0)
    return m.where(zero, 0.0, m.div(g, m.pow(m.where(zero, 1.0, norm), float(p - 1))))


@lp_pool.vjp
def lp_pool_vjp(m, g, y, x, *, kernel_shape, p, strides, pads, dilations, ceil_mode):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    strides, pads, dilations = _filled(len(kernel_shape), strides, pads, dilations)
    (n, c, *sizes), counts = m.shape(x), m.shape(y)[2:]
    at = _positions(sizes, kernel_shape, strides, pads, dilations, counts)
    taps, windows = at.shape
    shares = m.reshape(_over_norm(m, g, y, p), shape=(n * c, windows))
    return (m.multiply(_collect(m, shares, np.tile(np.arange(windows), taps), at.reshape(-1), x), _slope(m, x, p)),)


@lp_pool.samples
def lp_pool_samples(draw):
    yield draw(x=(2, 3, 6, 7), kernel_shape=(3, 2))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(3, 2), p=1)
    yield draw(x=(1, 2, 6, 7), kernel_shape=(2, 2), p=3, strides=(2, 3))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(2, 2), p=4, strides=(2, 2))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(3, 2), pads=(2, 0, 0, 1))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(2, 2), dilations=(2, 3))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True)
    yield draw(x=(1, 2, 7), kernel_shape=(3,), strides=(2,))
    yield draw(x=(1, 2, 3, 4, 3), kernel_shape=(2, 2, 2))
    yield draw(x=(0, 2, 6, 7), kernel_shape=(3, 2))
    yield draw(x=_with_nan(1, 2, 5, 5), kernel_shape=(2, 2), special=True)


@lp_pool.rejects
def lp_pool_rejects(reject):
    x = _text(2, 3, 6, 7)
    yield reject(x=x, message="'kernel_shape' is required")
    yield reject(x=x, kernel_shape=(2, 2), p=0, message="p takes")
    yield reject(x=x, kernel_shape=(2,), message="x must have rank 3")
    yield reject(x=x, kernel_shape=(1, 1, 1, 1), message="1 to 3 integers")
    yield reject(x=x, kernel_shape=(2, 2), strides=(0, 1), message="strides takes")
    yield reject(x=x, kernel_shape=(2, 2), pads=(2, 0, 0, 0), message="pads must be smaller")
    yield reject(x=x, kernel_shape=(7, 2), message="the window spans 7")


def _global_lp_pool(x, *, p):
    _check_order(p)
    return _global_pool(x)


@meta_op(rule=_global_lp_pool, dtypes=FLOATING)
def global_lp_pool(x, *, p: int = 2):
    """The Lp norm over all spatial axes of ``x [N, C, spatial...]``; those axes stay, with size 1."""
    powers = np.abs(x.astype(accumulator(x.dtype))) ** p
    return _root(np.sum(powers, axis=tuple(range(2, x.ndim)), keepdims=True), p).astype(x.dtype)


@global_lp_pool.vjp
def global_lp_pool_vjp(m, g, y, x, *, p):
    return (m.multiply(_over_norm(m, g, y, p), _slope(m, x, p)),)


@global_lp_pool.samples
def global_lp_pool_samples(draw):
    yield draw(x=(2, 3, 4, 5))
    yield draw(x=(2, 3, 4), p=1)
    yield draw(x=(1, 2, 3, 2, 2), p=3)
    yield draw(x=(2, 3, 1, 1), p=4)
    yield draw(x=(0, 3, 4, 5))
    yield draw(x=_with_nan(1, 2, 3, 3), special=True)


@global_lp_pool.rejects
def global_lp_pool_rejects(reject):
    yield reject(x="float32[2, 3]", message="x must have rank at least 3")
    yield reject(x="float32[?, 3, 0, 4]", message="nothing to pool")
    yield reject(x="float32[2, 3, 4]", p=-1, message="p takes")


# -- divided by a norm -------------------------------------------------------------------------------------------------


def _lp_normalization(x, *, axis, p):
    if p not in (1, 2):
        raise AttributeValueError(f"p takes 1 or 2; got {p}")
    require_rank("x", x, 1)
    if x.shape is not None:
        normalise_axis(axis, len(x.shape))
    return x


@meta_op(rule=_lp_normalization, dtypes=FLOATING)
def lp_normalization(x, *, axis: int = -1, p: int = 2):
    """``x`` over its Lp norm along ``axis``, for ``p`` of 1 or 2; zeros where the norm is zero."""
    work = x.astype(accumulator(x.dtype))
    norm = _root(np.sum(np.abs(work) ** p, axis=axis, keepdims=True), p)
    return np.where(norm == 0, 0, work / np.where(norm == 0, 1, norm)).astype(x.dtype)


@lp_normalization.vjp
def lp_normalization_vjp(m, g, y, x, *, axis, p):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    size = m.abs(x) if p == 1 else m.square(x)
    norm = m.reduce_sum(size, axes=(axis,), keepdims=True)
    norm = norm if p == 1 else m.sqrt(norm)
    zero = m.equal(norm, 0.0)
    along = m.reduce_sum(m.multiply(g, y), axes=(axis,), keepdims=True)
    slope = m.subtract(g, m.multiply(along, m.sign(x) if p == 1 else y))
    return (m.where(zero, 0.0, m.div(slope, m.where(zero, 1.0, norm))),)


@lp_normalization.samples
def lp_normalization_samples(draw):
    for p in (1, 2):
        yield draw(x=(2, 3, 5), p=p)
        yield draw(x=(2, 3, 5), axis=0, p=p)
        yield draw(x=(2, 3, 5), axis=1, p=p)
        yield draw(x=(4,), p=p)
        yield draw(x=[[0.0, 0.0, 0.0], [1.0, -2.0, 3.0]], p=p, special=True)
    yield draw(x=(0, 3))


@lp_normalization.rejects
def lp_normalization_rejects(reject):
    yield reject(x="float32[2, 3]", p=3, message="p takes 1 or 2")
    yield reject(x="float32[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[]", message="x must have rank at least 1")


def _rms_norm(x, scale=None, *, axis, epsilon):
    return _layer_norm(x, scale, axis=axis, epsilon=epsilon)


@meta_op(rule=_rms_norm, dtypes=FLOATING)
def rms_norm(x, scale=None, *, axis: int = -1, epsilon: float = 1e-5):
    """``x`` over the root of its mean square over the axes from ``axis`` on, times ``scale`` (these axes only)."""
    work = x.astype(accumulator(x.dtype))
    axes = tuple(range(normalise_axis(axis, x.ndim), x.ndim))
    with np.errstate(invalid="ignore"):
        mean = np.sum(np.square(work), axis=axes, keepdims=True) / max(np.prod([x.shape[a] for a in axes]), 1)
    y = work / np.sqrt(mean + work.dtype.type(epsilon))
    return (y if scale is None else y * scale).astype(x.dtype)


@rms_norm.vjp
def rms_norm_vjp(m, g, y, x, *given, axis, epsilon):
    scale, shape = (*given, None)[0], m.shape(x)
    if 0 in shape:
        return tuple(None if t is None else m.zeros_like(t) for t in (x, *given))
    first = normalise_axis(axis, len(shape))
    axes = tuple(range(first, len(shape)))
    inverse = m.rsqrt(m.add(m.reduce_mean(m.square(x), axes=axes, keepdims=True), epsilon))
    unit = m.multiply(x, inverse)
    scaled = g if scale is None else m.multiply(g, scale)
    slope = m.reduce_mean(m.multiply(scaled, unit), axes=axes, keepdims=True)
    dx = m.multiply(inverse, m.subtract(scaled, m.multiply(unit, slope)))
    if scale is None:
        return (dx, *(None for _ in given))
    products = m.multiply(g, unit)
    return dx, m.reduce_sum(products, axes=tuple(range(first))) if first else products


@rms_norm.samples
def rms_norm_samples(draw):
    yield draw(x=(2, 3, 5), scale=(5,))
    yield draw(x=(2, 3, 5), scale=(3, 5), axis=1)
    yield draw(x=(2, 3, 4), scale=(2, 3, 4), axis=-3)
    yield draw(x=(2, 3, 5))
    yield draw(x=(4,), scale=(4,), epsilon=0.1)
    yield draw(x=(0, 4), scale=(4,))
    yield draw(x=[[np.nan, 1.0, 2.0], [1.0, 2.0, 4.0]], scale=(3,), special=True)


@rms_norm.rejects
def rms_norm_rejects(reject):
    yield reject(x="float32[]", message="x must have rank at least 1")
    yield reject(x="float32[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[2, 3]", scale="float32[2]", message="scale and the axes of x")
    yield reject(x="float32[2, 3]", epsilon=-1e-5, message="epsilon takes")
    yield reject(x="int32[2, 3]", message="takes float16")


# -- local response ----------------------------------------------------------------------------------------------------


def _lrn(x, *, size, alpha, beta, bias):
    if size < 1:
        raise AttributeValueError(f"size takes an integer >= 1; got {size}")
    _check_epsilon(bias)
    if not all(np.isfinite(v) for v in (alpha, beta)):
        raise AttributeValueError(f"alpha and beta take finite numbers; got {alpha} and {beta}")
    require_rank("x", x, 3)
    if x.shape is not None and x.shape[1] == 0:
        raise ShapeError(f"x: there are no channels to sum over; got {x}")
    return x


def _neighbours(channels, size):
    """``[channels, channels]``: one where a channel counts in the sum of another."""
    gap = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    return (gap >= -((size - 1) // 2)) & (gap <= size // 2)


@meta_op(rule=_lrn, dtypes=FLOATING)
def lrn(x, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0):
    """``x [N, C, spatial...]`` over ``(bias + alpha / size * sums) ** beta``.

    The sums are those of the squares of ``size`` channels around; if that is even, one more after than before.
    """
    work = x.astype(accumulator(x.dtype))
    near = _neighbours(x.shape[1], size).astype(work.dtype)
    sums = np.moveaxis(np.tensordot(near, np.square(work), (1, 1)), 0, 1)
    return (work / (bias + work.dtype.type(alpha / size) * sums) ** work.dtype.type(beta)).astype(x.dtype)


@lrn.vjp
def lrn_vjp(m, g, y, x, *, size, alpha, beta, bias):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    (n, c), rest = m.shape(x)[:2], m.shape(x)[2:]
    near = _neighbours(c, size)

    def summed(matrix, values):
        rows = m.reshape(values, shape=(n, c, int(np.prod(rest))))
        return m.reshape(m.matmul(m.constant(matrix, m.dtype(x)), rows), shape=(n, c, *rest))

    base = m.add(m.multiply(summed(near, m.square(x)), alpha / size), bias)
    fall = m.div(m.multiply(m.multiply(g, x), m.pow(base, -beta)), base)
    back = m.multiply(m.multiply(x, summed(near.T, fall)), 2 * alpha * beta / size)
    return (m.subtract(m.multiply(g, m.pow(base, -beta)), back),)


@lrn.samples
def lrn_samples(draw):
    yield draw(x=(2, 5, 3, 4), size=3)
    yield draw(x=(2, 5, 3, 4), size=5, alpha=0.5, beta=0.6, bias=2.0)
    yield draw(x=(1, 4, 2, 3), size=4, alpha=1.0)
    yield draw(x=(1, 3, 2, 2), size=1, alpha=0.7)
    yield draw(x=(1, 3, 5), size=3, alpha=0.3)
    yield draw(x=(1, 3, 2, 2, 2), size=9, alpha=0.9)
    yield draw(x=(0, 3, 2, 2), size=3)


@lrn.rejects
def lrn_rejects(reject):
    yield reject(x="float32[2, 5, 3, 4]", message="'size' is required")
    yield reject(x="float32[2, 5, 3, 4]", size=0, message="size takes")
    yield reject(x="float32[2, 5]", size=3, message="x must have rank at least 3")
    yield reject(x="float32[2, 0, 3]", size=3, message="no channels")
    yield reject(x="float32[2, 5, 3]", size=3, alpha=float("inf"), message="finite")
    yield reject(x="int32[2, 5, 3]", size=3, message="takes float16")
