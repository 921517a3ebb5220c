"""Pooling over one, two and three spatial axes of ``[N, C, spatial...]``.

``pads`` never take part in a maximum; ``count_include_pad`` says whether they count in an average. With ``ceil_mode`` a
last window may reach beyond the padded input; that part of it is neither read nor counted.

Windows are products of intervals, so the references go axis by axis. The gradients work on tables of positions instead:
which elements each window reads, and which windows read each element.
"""

import functools

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.rules import require_rank
from metaop.ops.spec import meta_op
from metaop.ops.windows import accumulator, axes_of, extents, per_axis, window_count
from metaop.types import FLOATING, Ints, TensorType

# -- shapes ------------------------------------------------------------------------------------------------------------


def _counts(sizes, kernel, strides, pads, dilations, ceil_mode):
    """How many windows there are along each axis."""
    spatial = len(sizes)
    reach = extents(kernel, dilations)
    return tuple(
        window_count(f"axis {i + 2} of x", sizes[i], reach[i], strides[i], pads[i], pads[i + spatial], ceil_mode)
        for i in range(spatial)
    )


def _taps(kernel, strides, begin, dilations, counts):
    """For each axis the positions ``[tap, window]`` that windows read, counted from the start of the input."""
    return [
        np.arange(k)[:, None] * d + np.arange(n)[None, :] * s - p
        for k, d, n, s, p in zip(kernel, dilations, counts, strides, begin, strict=True)
    ]


def _reads_padding_only(size, stride, begin, dilation, count):
    """Whether some window lies in the padding altogether; pads are smaller than windows.

    By arithmetic, for a model's file may claim sizes that no table has room for.
    """
    if (count - 1) * stride - begin >= size:
        return True
    if dilation <= size:
        return False
    # A window that starts before the input reads it at the first multiple of the dilation, if that is not beyond it.
    early = min(count, -(-begin // stride))
    if early > 1 << 16:
        raise AttributeValueError(f"pads {begin}: too many windows start in the padding for a dilation of {dilation}")
    return any((j * stride - begin) % dilation >= size for j in range(early))


def _pool(spatial):
    """The rule of a pooling over ``spatial`` axes."""

    def rule(x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad=False):
        per_axis(spatial, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations)
        reach = extents(kernel_shape, dilations)
        if any(p >= extent for p, extent in zip(pads, reach * 2, strict=True)):
            raise AttributeValueError(
                f"pads must be smaller than the window, or some windows would hold nothing else; got pads={pads} "
                f"for windows that span {reach}"
            )
        sizes = axes_of("x", x, spatial)
        counts = _counts(sizes[2:], kernel_shape, strides, pads, dilations, ceil_mode)
        for i, (size, count) in enumerate(zip(sizes[2:], counts, strict=True)):
            if size is None:
                continue
            if _reads_padding_only(size, strides[i], pads[i], dilations[i], count):
                raise ShapeError(
                    f"axis {i + 2} of x: some window would hold nothing but padding (size {size}, pads {pads[i]} and "
                    f"{pads[i + spatial]}, kernel_shape {kernel_shape[i]}, dilation {dilations[i]})"
                )
        return TensorType(x.dtype, (*sizes[:2], *counts))

    return rule


def _global_pool(x):
    require_rank("x", x, 3)
    if x.shape is None:
        return x
    if 0 in x.shape[2:]:
        raise ShapeError(f"x: there is nothing to pool along an axis of size 0; got {x}")
    return x.with_shape((*x.shape[:2], *[1] * (len(x.shape) - 2)))


# -- references --------------------------------------------------------------------------------------------------------


def _slide(function, x, fill, kernel, strides, pads, dilations, counts):
    """``function`` between the elements of each window, with ``fill`` outside the input."""
    spatial = len(kernel)
    ends = [
        max(0, (n - 1) * s + extent - size - begin)
        for n, s, extent, size, begin in zip(
            counts, strides, extents(kernel, dilations), x.shape[2:], pads[:spatial], strict=True
        )
    ]
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], ends, strict=True)], constant_values=fill)
    for axis, (k, s, d, n) in enumerate(zip(kernel, strides, dilations, counts, strict=True), start=2):
        before = (slice(None),) * axis
        parts = (x[(*before, slice(t * d, t * d + (n - 1) * s + 1, s))] for t in range(k))
        x = functools.reduce(function, parts)
    return x


def _max_pool(x, kernel, strides, pads, dilations, ceil_mode):
    counts = _counts(x.shape[2:], kernel, strides, pads, dilations, ceil_mode)
    return np.ascontiguousarray(_slide(np.maximum, x, -np.inf, kernel, strides, pads, dilations, counts))


def _divisors(sizes, kernel, strides, pads, dilations, counts, count_include_pad):
    """How many elements each window averages, as ``[1, 1, windows...]``."""
    spatial = len(kernel)
    result = np.ones((1,) * (spatial + 2))
    for i, at in enumerate(_taps(kernel, strides, pads[:spatial], dilations, counts)):
        first, last = (-pads[i], sizes[i] + pads[i + spatial]) if count_include_pad else (0, sizes[i])
        inside = ((at >= first) & (at < last)).sum(axis=0)
        result = result * inside.reshape(-1, *[1] * (spatial - 1 - i))
    return result


def _average_pool(x, kernel, strides, pads, dilations, ceil_mode, count_include_pad):
    counts = _counts(x.shape[2:], kernel, strides, pads, dilations, ceil_mode)
    work = accumulator(x.dtype)
    sums = _slide(np.add, x.astype(work), 0, kernel, strides, pads, dilations, counts)
    divisors = _divisors(x.shape[2:], kernel, strides, pads, dilations, counts, count_include_pad)
    return (sums / divisors.astype(work)).astype(x.dtype)


# -- gradients ---------------------------------------------------------------------------------------------------------


def _positions(sizes, kernel, strides, pads, dilations, counts):
    """The flat position ``[tap, window]`` in the input that each tap of each window reads; -1 in the padding."""
    spatial = len(sizes)
    flat, inside = np.zeros((1,) * (2 * spatial), np.int64), True
    for i, at in enumerate(_taps(kernel, strides, pads[:spatial], dilations, counts)):
        shape = [1] * (2 * spatial)
        shape[i], shape[i + spatial] = at.shape
        at = at.reshape(shape)
        flat, inside = flat * sizes[i] + at, inside & (at >= 0) & (at < sizes[i])
    return np.where(inside, flat, -1).reshape(int(np.prod(kernel)), int(np.prod(counts)))


def _collect(m, values, sources, targets, x):
    """For each element of ``x`` the sum of the ``values [N*C, L]`` at those ``sources`` whose ``targets`` name it."""
    shape = m.shape(x)
    batch, size, nowhere = shape[0] * shape[1], int(np.prod(shape[2:])), m.shape(values)[1]
    order = np.argsort(targets, kind="stable")
    order = order[targets[order] >= 0]
    sources, targets = sources[order], targets[order]
    rank = np.arange(len(targets)) - np.searchsorted(targets, targets)
    # Elements that fewer windows read are filled up from a zero put behind the values.
    table = np.full((int(rank.max()) + 1, size), nowhere, np.int64)
    table[rank, targets] = sources
    padded = m.pad(values, pads=(0, 0, 0, 1))
    found = m.gather(padded, m.constant(table.reshape(-1), np.int64), axis=1)
    found = m.reshape(found, shape=(batch, *table.shape))
    return m.reshape(m.reduce_sum(found, axes=(1,)), shape=shape)


def _to_first(m, hit, g):
    """``g`` at the first hit along axis 1, zero elsewhere: among equal maxima, frameworks choose one."""
    earlier = m.cumsum(m.cast(hit, to=np.dtype("float32")), axis=1, exclusive=True)
    return m.where(m.logical_and(hit, m.less(earlier, 0.5)), g, 0.0)


def _max_pool_vjp(m, g, y, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    (n, c, *sizes), counts = m.shape(x), m.shape(y)[2:]
    at = _positions(sizes, kernel_shape, strides, pads, dilations, counts)
    taps, windows = at.shape
    flat = m.reshape(x, shape=(n * c, int(np.prod(sizes))))
    read = m.gather(flat, m.constant(np.maximum(at, 0).reshape(-1), np.int64), axis=1)
    read = m.reshape(read, shape=(n * c, taps, windows))
    hit = m.equal(read, m.reshape(y, shape=(n * c, 1, windows)))
    if (at < 0).any():
        hit = m.logical_and(hit, m.constant(at[None] >= 0, bool))
    given = m.reshape(_to_first(m, hit, m.reshape(g, shape=(n * c, 1, windows))), shape=(n * c, taps * windows))
    return (_collect(m, given, np.arange(at.size), at.reshape(-1), x),)


def _average_pool_vjp(m, g, y, x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    (n, c, *sizes), counts = m.shape(x), m.shape(y)[2:]
    divisors = _divisors(sizes, kernel_shape, strides, pads, dilations, counts, count_include_pad)
    at = _positions(sizes, kernel_shape, strides, pads, dilations, counts)
    taps, windows = at.shape
    shares = m.reshape(m.div(g, m.constant(divisors, m.dtype(g))), shape=(n * c, windows))
    return (_collect(m, shares, np.tile(np.arange(windows), taps), at.reshape(-1), x),)


# -- samples that every rank needs -------------------------------------------------------------------------------------


def _with_nan(*shape):
    """NaN in one corner, a region of -inf in the other."""
    values = np.linspace(-1.0, 1.0, int(np.prod(shape))).reshape(shape)
    values[(0,) * len(shape)] = np.nan
    values[(0, 0, *[slice(2, None)] * (len(shape) - 2))] = -np.inf
    return values


def _text(*sizes):
    return f"float32[{', '.join(str(s) for s in sizes)}]"


def _shared_samples(op, spatial):
    sizes, kernel, strides = (6, 7, 5)[:spatial], (3, 2, 2)[:spatial], (2, 3, 2)[:spatial]
    uneven, ones = (2, 0, 1)[:spatial] + (0, 1, 1)[:spatial], (1,) * spatial

    @op.samples
    def pooling(draw):
        yield draw(x=(2, 3, *sizes), kernel_shape=kernel)
        yield draw(x=(1, 2, *sizes), kernel_shape=kernel, strides=strides)
        yield draw(x=(1, 2, *sizes), kernel_shape=kernel, pads=uneven)
        yield draw(x=(2, 1, *sizes), kernel_shape=kernel, strides=strides, pads=uneven)
        yield draw(x=(1, 2, *sizes), kernel_shape=kernel, strides=strides, ceil_mode=True)
        yield draw(x=(1, 2, *sizes), kernel_shape=kernel, strides=strides, pads=uneven, ceil_mode=True)
        # The last window would start behind the input, so there is none.
        yield draw(x=(1, 1, *[4] * spatial), kernel_shape=(2,) * spatial, strides=(3,) * spatial, ceil_mode=True)
        yield draw(
            x=(1, 1, *[5] * spatial),
            kernel_shape=(2,) * spatial,
            strides=(3,) * spatial,
            pads=(1,) * (2 * spatial),
            ceil_mode=True,
        )
        yield draw(x=(1, 2, *sizes), kernel_shape=ones, strides=(2,) * spatial)
        yield draw(x=(2, 3, *ones), kernel_shape=ones)
        yield draw(x=(0, 3, *sizes), kernel_shape=kernel)
        yield draw(x=_with_nan(1, 2, *[5] * spatial), kernel_shape=(2,) * spatial, special=True)

    @op.rejects
    def do_not_fit(reject):
        x = _text(2, 3, *sizes)
        yield reject(x=_text(2, 3), kernel_shape=kernel, message="x must have rank")
        yield reject(x=x, message="kernel_shape")
        yield reject(x=x, kernel_shape=kernel + (1,), message="kernel_shape takes")
        yield reject(x="float32[...]", kernel_shape=(0,) * spatial, message="kernel_shape takes")
        yield reject(x=x, kernel_shape=kernel, strides=(0,) * spatial, message="strides takes")
        yield reject(x=x, kernel_shape=kernel, strides=ones + (1,), message="strides takes")
        yield reject(x=x, kernel_shape=kernel, pads=(0,) * spatial, message="pads takes")
        yield reject(x=x, kernel_shape=kernel, pads=(-1,) * (2 * spatial), message="pads takes")
        yield reject(x=x, kernel_shape=ones, pads=(1,) * (2 * spatial), message="pads must be smaller")
        yield reject(x=_text("?", "?", *[2] * spatial), kernel_shape=(3,) * spatial, message="the window spans 3")
        yield reject(
            x=_text(1, 1, *[0] * spatial),
            kernel_shape=(2,) * spatial,
            pads=(1,) * (2 * spatial),
            message="nothing but padding",
        )
        yield reject(x="int32" + x[7:], kernel_shape=kernel, message="takes float16")


def _max_pool_samples(op, spatial):
    _shared_samples(op, spatial)
    sizes, kernel, dilations = (6, 7, 5)[:spatial], (3, 2, 2)[:spatial], (2, 3, 2)[:spatial]
    uneven = (2, 0, 1)[:spatial] + (0, 1, 1)[:spatial]

    @op.samples
    def dilated(draw):
        yield draw(x=(1, 2, *sizes), kernel_shape=kernel, dilations=dilations)
        yield draw(
            x=(1, 2, *sizes),
            kernel_shape=kernel,
            dilations=dilations,
            strides=(2,) * spatial,
            pads=uneven,
            ceil_mode=True,
        )
        yield draw(x=np.full((1, 1, *[3] * spatial), -np.inf), kernel_shape=(2,) * spatial, special=True)

    @op.rejects
    def only_padding(reject):
        yield reject(x=_text(2, 3, *sizes), kernel_shape=kernel, dilations=(0,) * spatial, message="dilations takes")
        yield reject(
            x=_text(2, 3, *[1] * spatial),
            kernel_shape=(2,) * spatial,
            dilations=(2,) * spatial,
            pads=(1,) * (2 * spatial),
            message="nothing but padding",
        )


def _average_pool_samples(op, spatial):
    _shared_samples(op, spatial)
    sizes, kernel, strides = (6, 7, 5)[:spatial], (3, 2, 2)[:spatial], (2, 3, 2)[:spatial]
    uneven = (2, 0, 1)[:spatial] + (0, 1, 1)[:spatial]

    @op.samples
    def counting_pads(draw):
        counted = {"kernel_shape": kernel, "pads": uneven, "count_include_pad": True}
        yield draw(x=(1, 2, *sizes), **counted)
        yield draw(x=(1, 2, *sizes), strides=strides, **counted)
        yield draw(x=(1, 2, *sizes), strides=(2,) * spatial, ceil_mode=True, **counted)
        yield draw(
            x=(1, 1, *[5] * spatial),
            kernel_shape=(3,) * spatial,
            strides=(2,) * spatial,
            pads=(0,) * spatial + (1,) * spatial,
            ceil_mode=True,
            count_include_pad=True,
        )

    @op.samples
    def dilated(draw):
        dilations = (2, 3, 2)[:spatial]
        yield draw(x=(1, 2, *sizes), kernel_shape=kernel, dilations=dilations)
        for counted in (False, True):
            yield draw(
                x=(1, 2, *sizes),
                kernel_shape=kernel,
                dilations=dilations,
                strides=(2,) * spatial,
                pads=uneven,
                ceil_mode=True,
                count_include_pad=counted,
            )


# -- declarations ------------------------------------------------------------------------------------------------------


@meta_op(rule=_pool(1), dtypes=FLOATING)
def max_pool1d(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints = (1,),
    pads: Ints = (0, 0),
    dilations: Ints = (1,),
    ceil_mode: bool = False,
):
    """The largest element of each window of ``x [N, C, L]``; NaN if the window holds one."""
    return _max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode)


max_pool1d.vjp(_max_pool_vjp)
_max_pool_samples(max_pool1d, 1)


@meta_op(rule=_pool(2), dtypes=FLOATING)
def max_pool2d(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    dilations: Ints = (1, 1),
    ceil_mode: bool = False,
):
    """The largest element of each window of ``x [N, C, H, W]``; NaN if the window holds one."""
    return _max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode)


max_pool2d.vjp(_max_pool_vjp)
_max_pool_samples(max_pool2d, 2)


@max_pool2d.samples
def max_pool2d_samples(draw):
    # Only with ceil_mode may a window be larger than the input.
    yield draw(x=(1, 2, 2, 4), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True)


@meta_op(rule=_pool(3), dtypes=FLOATING)
def max_pool3d(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints = (1, 1, 1),
    pads: Ints = (0, 0, 0, 0, 0, 0),
    dilations: Ints = (1, 1, 1),
    ceil_mode: bool = False,
):
    """The largest element of each window of ``x [N, C, D, H, W]``; NaN if the window holds one."""
    return _max_pool(x, kernel_shape, strides, pads, dilations, ceil_mode)


max_pool3d.vjp(_max_pool_vjp)
_max_pool_samples(max_pool3d, 3)


@meta_op(rule=_pool(1), dtypes=FLOATING)
def average_pool1d(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints = (1,),
    pads: Ints = (0, 0),
    dilations: Ints = (1,),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
):
    """The mean of each window of ``x [N, C, L]``."""
    return _average_pool(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


average_pool1d.vjp(_average_pool_vjp)
_average_pool_samples(average_pool1d, 1)


@meta_op(rule=_pool(2), dtypes=FLOATING)
def average_pool2d(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    dilations: Ints = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
):
    """The mean of each window of ``x [N, C, H, W]``."""
    return _average_pool(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


average_pool2d.vjp(_average_pool_vjp)
_average_pool_samples(average_pool2d, 2)


@average_pool2d.samples
def average_pool2d_samples(draw):
    # Only with ceil_mode may a window be larger than the input.
    yield draw(x=(1, 2, 2, 4), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True)


@meta_op(rule=_pool(3), dtypes=FLOATING)
def average_pool3d(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints = (1, 1, 1),
    pads: Ints = (0, 0, 0, 0, 0, 0),
    dilations: Ints = (1, 1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
):
    """The mean of each window of ``x [N, C, D, H, W]``."""
    return _average_pool(x, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad)


average_pool3d.vjp(_average_pool_vjp)
_average_pool_samples(average_pool3d, 3)


@meta_op(rule=_global_pool, dtypes=FLOATING)
def global_average_pool(x):
    """The mean over all spatial axes of ``x [N, C, spatial...]``; those axes stay, with size 1."""
    axes = tuple(range(2, x.ndim))
    return np.mean(x, axis=axes, keepdims=True, dtype=accumulator(x.dtype)).astype(x.dtype)


@global_average_pool.vjp
def global_average_pool_vjp(m, g, y, x):
    shape = m.shape(x)
    return (m.expand(m.div(g, float(np.prod(shape[2:]))), shape=shape),)


@meta_op(rule=_global_pool, dtypes=FLOATING)
def global_max_pool(x):
    """The largest element over all spatial axes of ``x [N, C, spatial...]``; those axes stay, with size 1."""
    return np.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@global_max_pool.vjp
def global_max_pool_vjp(m, g, y, x):
    shape = m.shape(x)
    if 0 in shape:
        return (m.zeros_like(x),)
    n = shape[0] * shape[1]
    hit = m.equal(m.reshape(x, shape=(n, int(np.prod(shape[2:])))), m.reshape(y, shape=(n, 1)))
    return (m.reshape(_to_first(m, hit, m.reshape(g, shape=(n, 1))), shape=shape),)


@global_average_pool.samples
@global_max_pool.samples
def global_pool_samples(draw):
    yield draw(x=(2, 3, 4, 5))
    yield draw(x=(2, 3, 4))
    yield draw(x=(1, 2, 3, 2, 2))
    yield draw(x=(2, 3, 1, 1))
    yield draw(x=(0, 3, 4, 5))
    yield draw(x=_with_nan(1, 2, 3, 3), special=True)


@global_average_pool.rejects
@global_max_pool.rejects
def global_pool_rejects(reject):
    yield reject(x="float32[2, 3]", message="x must have rank at least 3")
    yield reject(x="float32[?, 3, 0, 4]", message="nothing to pool")
    yield reject(x="int64[2, 3, 4]", message="takes float16")
