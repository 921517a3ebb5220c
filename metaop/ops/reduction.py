"""Reductions and running sums: one tensor in; the axes named are gone, or of size 1, in what comes out.

``axes=None`` means all axes, ``axes=()`` none: the tensor passes unchanged, as in NumPy. The dtype is kept; float16 is
accumulated in float32 and rounded once.
"""

import numpy as np

from metaop.errors import ShapeError
from metaop.ops.rules import normalise_axes, normalise_axis, reduced_shape
from metaop.ops.spec import meta_op
from metaop.types import ANY, FLOATING, NUMERIC, Ints


def reduction(x, *, axes, keepdims):
    """The rule of a reduction that is defined on empty axes too."""
    return x.with_shape(reduced_shape(x.shape, axes, keepdims))


def arg_selection(x, *, axis, keepdims, select_last_index):
    """The rule of the position of an extreme element, of which there must be one."""
    if axis is not None and x.shape is not None:
        normalise_axis(axis, len(x.shape))
    axes = None if axis is None else (axis,)
    result = reduction(x, axes=axes, keepdims=keepdims)
    if x.shape is not None:
        for gone in normalise_axes(axes, len(x.shape)):
            if x.shape[gone] == 0:
                raise ShapeError(f"'x' of type {x} has nothing along axis {gone}, and nothing has no extreme element")
    return result.with_dtype(np.dtype("int64"))


def scan(x, *, axis, exclusive, reverse):
    """The rule of a running reduction: the type is kept, the axis must exist."""
    if x.shape is not None:
        normalise_axis(axis, len(x.shape))
    return x


def accumulator(dtype):
    """The dtype in which sums and products are accumulated."""
    return np.dtype("float32") if dtype == np.float16 else dtype


def with_reduced_axes(m, tensor, x, axes):
    """What came out of reducing ``x``, with the reduced axes back at size 1, so that it broadcasts against ``x``."""
    shape = reduced_shape(m.shape(x), axes, True)
    return tensor if m.shape(tensor) == shape else m.reshape(tensor, shape=shape)


def reduction_samples(op):
    """Give a reduction the samples that all of them need."""

    @op.samples
    def reductions(draw):
        yield draw(x=(2, 3))
        yield draw(x=(2, 3, 4), axes=(1,))
        yield draw(x=(2, 3, 4), axes=(-1, 0), keepdims=True)
        yield draw(x=(2, 3), keepdims=True)
        yield draw(x=(2, 3), axes=())
        yield draw(x=(3, 1, 2), axes=(1,))
        yield draw(x=())
        yield draw(x=(0, 3), axes=(1,))
        yield draw(x=(0, 3), axes=(0,))
        yield draw(x=(2, 0), keepdims=True)

    @op.rejects
    def wrong_axes(reject):
        yield reject(x="float32[2, 3]", axes=(2,), message="axes 2 is out of range")
        yield reject(x="float32[?, ?]", axes=(-3,), message="axes -3 is out of range")
        yield reject(x="float32[2, 3]", axes=(0, -2), message="names an axis twice")
        if np.dtype("bool") not in op.dtypes:
            yield reject(x="bool[2, 3]", message="takes")


@meta_op(rule=reduction, dtypes=NUMERIC)
@np.errstate(all="ignore")
def reduce_sum(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The sum over ``axes``; 0 where there is nothing to sum."""
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=accumulator(x.dtype)), dtype=x.dtype)


@reduce_sum.vjp
def reduce_sum_vjp(m, g, y, x, *, axes, keepdims):
    return (m.expand(with_reduced_axes(m, g, x, axes), shape=m.shape(x)),)


reduction_samples(reduce_sum)


@reduce_sum.samples
def reduce_sum_special(draw):
    yield draw(x=[[np.inf, -np.inf], [np.nan, 1.0], [np.inf, 1.0]], axes=(1,), special=True)


@meta_op(rule=reduction, dtypes=FLOATING)
@np.errstate(all="ignore")
def reduce_mean(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The arithmetic mean over ``axes``; NaN where there is nothing to average."""
    total = np.sum(x, axis=axes, keepdims=keepdims, dtype=accumulator(x.dtype))
    count = np.prod([x.shape[a] for a in normalise_axes(axes, x.ndim)], dtype=total.dtype)
    return np.asarray(total / count, dtype=x.dtype)


@reduce_mean.vjp
def reduce_mean_vjp(m, g, y, x, *, axes, keepdims):
    shape = m.shape(x)
    count = int(np.prod([shape[a] for a in normalise_axes(axes, len(shape))], dtype=np.int64))
    # Divided, not multiplied by the reciprocal, so that the gradient is rounded once.
    return (m.expand(m.div(with_reduced_axes(m, g, x, axes), float(max(count, 1))), shape=shape),)


reduction_samples(reduce_mean)


@reduce_mean.samples
def reduce_mean_special(draw):
    yield draw(x=[[np.inf, -np.inf], [np.nan, 1.0], [np.inf, 1.0]], axes=(1,), special=True)


def extremum_vjp(m, g, y, x, *, axes, keepdims):
    """The incoming gradient goes to the extreme element; several equal ones share it in equal parts."""
    chosen = m.cast(m.equal(x, with_reduced_axes(m, y, x, axes)), to=m.dtype(g))
    count = m.reduce_sum(chosen, axes=axes, keepdims=True)
    return (m.multiply(chosen, m.div(with_reduced_axes(m, g, x, axes), count)),)


def extremes(dtype):
    """The least and the greatest value of a dtype."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def extremum_samples(op):
    """Ties, and NaN, which an extremum passes on."""

    @op.samples
    def extremes(draw):
        yield draw(x=[[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]], axes=(1,), special=True)
        yield draw(x=[[1.0, np.nan, 2.0], [np.inf, -np.inf, 0.0]], axes=(1,), special=True)


@meta_op(rule=reduction, dtypes=ANY)
@np.errstate(all="ignore")
def reduce_max(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The largest element over ``axes``; NaN if there is a NaN. Of booleans, ``True`` is the larger.

    Where there is nothing it is -Inf, of integers the lowest one, of booleans ``False``. The gradient is shared
    equally between equal largest elements.
    """
    return np.asarray(np.max(x, axis=axes, keepdims=keepdims, initial=extremes(x.dtype)[0]))


reduce_max.vjp(extremum_vjp)
reduction_samples(reduce_max)
extremum_samples(reduce_max)


@meta_op(rule=reduction, dtypes=ANY)
@np.errstate(all="ignore")
def reduce_min(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The smallest element over ``axes``; NaN if there is a NaN. Of booleans, ``True`` is the larger.

    Where there is nothing it is Inf, of integers the highest one, of booleans ``True``. The gradient is shared
    equally between equal smallest elements.
    """
    return np.asarray(np.min(x, axis=axes, keepdims=keepdims, initial=extremes(x.dtype)[1]))


reduce_min.vjp(extremum_vjp)
reduction_samples(reduce_min)
extremum_samples(reduce_min)


@meta_op(rule=reduction, dtypes=NUMERIC)
@np.errstate(all="ignore")
def reduce_prod(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The product over ``axes``; 1 where there is nothing to multiply."""
    return np.asarray(np.prod(x, axis=axes, keepdims=keepdims, dtype=accumulator(x.dtype)), dtype=x.dtype)


def product_of_others(m, rows):
    """For each element of a matrix, the product of the other elements of its row.

    Dividing the row's product by the element fails at zeros. Instead the products of all elements before it and of all
    after it are multiplied; each takes log2(n) steps, in which the reach of the partial products doubles.
    """
    n = m.shape(rows)[1]

    def shifted(tensor, by):
        kept = m.slice(tensor, starts=(max(-by, 0),), ends=(n - max(by, 0),), axes=(1,))
        return m.pad(kept, pads=(0, max(by, 0), 0, max(-by, 0)), value=1.0)

    found = None
    for sign in (1, -1):
        products = shifted(rows, sign)
        reach = 1
        while reach < n:
            products = m.multiply(products, shifted(products, sign * reach))
            reach *= 2
        found = products if found is None else m.multiply(found, products)
    return found


@reduce_prod.vjp
def reduce_prod_vjp(m, g, y, x, *, axes, keepdims):
    shape = m.shape(x)
    gone = normalise_axes(axes, len(shape))
    perm = tuple(i for i in range(len(shape)) if i not in gone) + gone
    moved = tuple(shape[i] for i in perm)
    n = int(np.prod([shape[i] for i in gone], dtype=np.int64))
    height = int(np.prod(moved[: len(shape) - len(gone)], dtype=np.int64))
    if n == 0 or height == 0:
        return (m.zeros_like(x),)
    others = product_of_others(m, m.reshape(m.transpose(x, perm=perm), shape=(height, n)))
    others = m.transpose(m.reshape(others, shape=moved), perm=tuple(int(i) for i in np.argsort(perm)))
    return (m.multiply(with_reduced_axes(m, g, x, axes), others),)


reduction_samples(reduce_prod)


@reduce_prod.samples
def reduce_prod_zeros(draw):
    yield draw(x=[[2.0, 0.0, 3.0, -1.5], [0.0, 4.0, 0.0, 1.0], [1.5, 2.0, -1.0, 3.0], [0.0, 0.0, 0.0, 2.0]], axes=(1,))
    yield draw(x=[[4.0, 0.0], [1.0, 3.0]])
    yield draw(x=(2, 7, 2), axes=(1,), keepdims=True)
    yield draw(x=[[np.inf, 0.0], [np.nan, 1.0], [-np.inf, 2.0]], axes=(1,), special=True)


def arg_samples(op):
    """Give the position of an extreme element its samples."""

    @op.samples
    def positions(draw):
        yield draw(x=(2, 3))
        yield draw(x=(2, 3, 4), axis=1)
        yield draw(x=(2, 3, 4), axis=-1, keepdims=True)
        yield draw(x=(2, 3), keepdims=True)
        yield draw(x=(3, 1), axis=1)
        yield draw(x=())
        yield draw(x=(0, 3), axis=1)
        yield draw(x=(2, 3, 4), axis=1, keepdims=True, select_last_index=True)
        yield draw(x=(), select_last_index=True)
        for last in (False, True):
            yield draw(x=[[1.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]], axis=1, select_last_index=last)
            yield draw(x=[[1.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]], select_last_index=last)
            yield draw(
                x=[[1.0, np.nan, 2.0, np.nan], [np.inf, -np.inf, np.inf, -np.inf]],
                axis=1,
                select_last_index=last,
                special=True,
            )

    @op.rejects
    def wrong_axis(reject):
        yield reject(x="float32[2, 3]", axis=2, message="axis 2 is out of range")
        yield reject(x="float32[]", axis=0, message="axis 0 is out of range")
        yield reject(x="float32[2, 0]", axis=1, message="nothing along axis 1")
        yield reject(x="bool[2]", message="takes")


def position(find, x, axis, keepdims, last):
    """What ``find`` finds along ``axis``; the last of several, which is the first from the other end."""
    if not last:
        return np.asarray(find(x, axis=axis, keepdims=keepdims), dtype=np.int64)
    size = x.size if axis is None else x.shape[axis]
    return np.asarray(size - 1 - find(np.flip(x, axis), axis=axis, keepdims=keepdims), dtype=np.int64)


@meta_op(rule=arg_selection, dtypes=NUMERIC, nondifferentiable="its result is a position")
def argmax(x, *, axis: int | None = None, keepdims: bool = False, select_last_index: bool = False):
    """The position, as int64, of the largest element along ``axis``, or in the flattened tensor for ``None``.

    The first of several equal ones, or the last if ``select_last_index``; NaN goes before all numbers.
    """
    return position(np.argmax, x, axis, keepdims, select_last_index)


arg_samples(argmax)


@meta_op(rule=arg_selection, dtypes=NUMERIC, nondifferentiable="its result is a position")
def argmin(x, *, axis: int | None = None, keepdims: bool = False, select_last_index: bool = False):
    """The position, as int64, of the smallest element along ``axis``, or in the flattened tensor for ``None``.

    The first of several equal ones, or the last if ``select_last_index``; NaN goes before all numbers.
    """
    return position(np.argmin, x, axis, keepdims, select_last_index)


arg_samples(argmin)


@meta_op(rule=scan, dtypes=NUMERIC)
@np.errstate(all="ignore")
def cumsum(x, *, axis: int = 0, exclusive: bool = False, reverse: bool = False):
    """The running sum along ``axis``: element i is the sum of all up to i, without i itself if ``exclusive``.

    ``reverse`` sums from the far end.
    """
    ordered = np.flip(x, axis) if reverse else x
    sums = np.cumsum(ordered, axis=axis, dtype=accumulator(x.dtype)).astype(x.dtype)
    if exclusive:
        # Shifted, not diminished by x: inf - inf is not 0.
        sums = np.moveaxis(sums, axis, 0)
        sums = np.moveaxis(np.concatenate([np.zeros_like(sums[:1]), sums[:-1]]), 0, axis)
    return np.flip(sums, axis) if reverse else sums


@cumsum.vjp
def cumsum_vjp(m, g, y, x, *, axis, exclusive, reverse):
    return (m.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),)


@cumsum.samples
def cumsum_samples(draw):
    yield draw(x=(5,))
    yield draw(x=(2, 3, 4), axis=1)
    yield draw(x=(2, 3), axis=-1, exclusive=True)
    yield draw(x=(2, 3), axis=0, reverse=True)
    yield draw(x=(4, 3), exclusive=True, reverse=True)
    yield draw(x=(3, 1), axis=1, exclusive=True)
    yield draw(x=(0, 3))
    yield draw(x=(2, 0), axis=1, exclusive=True, reverse=True)
    yield draw(x=[1.0, np.inf, 2.0, np.nan, 1.0], exclusive=True, special=True)


@cumsum.rejects
def cumsum_rejects(reject):
    yield reject(x="float32[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[]", message="axis 0 is out of range")
    yield reject(x="bool[2]", message="takes")


@meta_op(rule=scan, dtypes=NUMERIC)
@np.errstate(all="ignore")
def cumprod(x, *, axis: int = 0, exclusive: bool = False, reverse: bool = False):
    """The running product along ``axis``: element i is the product of all up to i, without i itself if ``exclusive``.

    ``reverse`` multiplies from the far end. Integers wrap around.
    """
    ordered = np.flip(x, axis) if reverse else x
    products = np.cumprod(ordered, axis=axis, dtype=accumulator(x.dtype)).astype(x.dtype)
    if exclusive:
        # Shifted, not divided by x: there may be zeros.
        products = np.moveaxis(products, axis, 0)
        products = np.moveaxis(np.concatenate([np.ones_like(products[:1]), products[:-1]]), 0, axis)
    return np.flip(products, axis) if reverse else products


@cumprod.vjp
def cumprod_vjp(m, g, y, x, *, axis, exclusive, reverse):
    shape = m.shape(x)
    axis = normalise_axis(axis, len(shape))
    n = shape[axis]
    if 0 in shape:
        return (m.zeros_like(x),)

    def moved(tensor, by, fill):
        """What stands ``by`` places further on in the order of multiplication, ``fill`` where there is nothing."""
        if abs(by) >= n:
            return m.add(m.zeros_like(x), fill)
        by = -by if reverse else by
        kept = m.slice(tensor, starts=(max(by, 0),), ends=(n + min(by, 0),), axes=(axis,))
        pads = [0] * (2 * len(shape))
        pads[axis], pads[axis + len(shape)] = max(-by, 0), max(by, 0)
        return m.pad(kept, pads=tuple(pads), value=fill)

    factors = moved(x, -1, 1.0) if exclusive else x
    # Factor i is in every product from i on. With what was multiplied before it left out, those have the sum
    # s[i] = g[i] + factors[i + 1] * s[i + 1], which takes log2(n) steps, in which the reach of the sums doubles.
    before = m.cumprod(factors, axis=axis, exclusive=True, reverse=reverse)
    sums, links, reach = g, moved(factors, 1, 0.0), 1
    while reach < n:
        sums = m.add(sums, m.multiply(links, moved(sums, reach, 0.0)))
        links = m.multiply(links, moved(links, reach, 0.0))
        reach *= 2
    found = m.multiply(before, sums)
    return (moved(found, 1, 0.0) if exclusive else found,)


@cumprod.samples
def cumprod_samples(draw):
    yield draw(x=(5,))
    yield draw(x=(2, 3, 4), axis=1)
    yield draw(x=(2, 3), axis=-1, exclusive=True)
    yield draw(x=(2, 7), axis=1, reverse=True)
    yield draw(x=(4, 3), exclusive=True, reverse=True)
    yield draw(x=(3, 1), axis=1, exclusive=True)
    yield draw(x=(0, 3))
    yield draw(x=(2, 0), axis=1, exclusive=True, reverse=True)
    yield draw(x=[[2.0, 0.0, 3.0, -1.0], [0.0, 4.0, 0.0, 1.0], [0.0, 0.0, 0.0, 2.0]], axis=1)
    yield draw(x=[[2.0, 0.0, 3.0, -1.0], [0.0, 4.0, 0.0, 1.0]], axis=1, exclusive=True, reverse=True)
    yield draw(x=[1.0, np.inf, 2.0, np.nan, 1.0], exclusive=True, special=True)


@cumprod.rejects
def cumprod_rejects(reject):
    yield reject(x="float32[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[]", message="axis 0 is out of range")
    yield reject(x="bool[2]", message="takes")
