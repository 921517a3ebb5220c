"""Sampling at given places: the value of an image between its elements, and grids of places to look at.

A sample is a sum over a few neighbours along each axis, ``weight(distance) * x[neighbour]``, where neighbours beyond
the border are replaced as ``padding_mode`` says. Weights are polynomials of the coordinate's fractional part; their
derivatives give the gradient of the coordinate.
"""

import itertools
from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain, Draws
from metaop.ops.rules import require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, Ints, TensorType

CUBIC = -0.75
#: for each neighbour, its offset and the coefficients of its weight, a polynomial of the fractional part
TAPS = {
    "nearest": {0: (1.0,)},
    "linear": {0: (1.0, -1.0), 1: (0.0, 1.0)},
    "cubic": {
        -1: (0.0, CUBIC, -2 * CUBIC, CUBIC),
        0: (1.0, 0.0, -(CUBIC + 3), CUBIC + 2),
        1: (0.0, -CUBIC, 2 * CUBIC + 3, -(CUBIC + 2)),
        2: (0.0, 0.0, CUBIC, -CUBIC),
    },
}

# -- shapes ------------------------------------------------------------------------------------------------------------


def _grid_sample(x, grid, *, mode, padding_mode, align_corners):
    require_rank("x", x, 4, 5)
    require_rank("grid", grid, 4, 5)
    rank = grid.rank if x.rank is None else x.rank
    if rank is None:
        return TensorType(x.dtype)
    if grid.rank not in (None, rank):
        raise ShapeError(f"x and grid must have as many axes; got {x} and {grid}")
    sizes = x.shape or (None,) * rank
    places = grid.shape or (None,) * rank
    if places[-1] is not None:
        unify_size(places[-1], rank - 2, "the last axis of grid and the spatial axes of x")
    if 0 in sizes[2:]:
        raise ShapeError(f"x: there is nothing to sample along an axis of size 0; got {x}")
    batch = unify_size(sizes[0], places[0], "the batches of x and grid")
    return TensorType(x.dtype, (batch, sizes[1], *places[1:-1]))


# -- the reference -----------------------------------------------------------------------------------------------------


def _inside(at, size, padding_mode, align_corners):
    """The element that a neighbour stands for, and whether it counts."""
    if padding_mode == "reflection":
        if align_corners:
            period = max(2 * (size - 1), 1)
            at = np.abs(at) % period
            return np.minimum(at, period - at) if size > 1 else np.zeros_like(at), True
        at = at % (2 * size)
        return np.minimum(at, 2 * size - 1 - at), True
    return np.clip(at, 0, size - 1), True if padding_mode == "border" else (at >= 0) & (at < size)


def _coordinate(place, size, align_corners):
    return (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2


@meta_op(
    rule=_grid_sample,
    dtypes=FLOATING,
    domain={"grid": Domain(spread=(-1.3, 1.3), text="-1 to 1 inside the image")},
)
def grid_sample(
    x,
    grid,
    *,
    mode: Literal["linear", "nearest", "cubic"] = "linear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
):
    """``x [N, C, spatial...]`` at the places ``grid [N, places..., axes]``, as ``[N, C, places...]``.

    The last axis of ``grid`` holds coordinates, that of the last axis of ``x`` first. -1 and 1 are the borders of the
    image: the centres of its outermost elements with ``align_corners``, their outer edges without. Beyond lies, as
    ``padding_mode`` says, nothing but zeros, the outermost element, or the image reflected at its borders.
    """
    batch, sizes = np.arange(x.shape[0]).reshape(-1, *[1] * (grid.ndim - 2)), x.shape[2:]
    axes = []
    for size, place in zip(sizes, np.moveaxis(grid, -1, 0)[::-1], strict=True):
        at = _coordinate(place, size, align_corners)
        first = np.round(at) if mode == "nearest" else np.floor(at)
        rows = []
        for offset, polynomial in TAPS[mode].items():
            found, counts = _inside(first.astype(np.int64) + offset, size, padding_mode, align_corners)
            weight = np.polynomial.polynomial.polyval(at - first, np.array(polynomial, x.dtype))
            rows.append((found, np.where(counts, weight, x.dtype.type(0))))
        axes.append(rows)
    y = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]), x.dtype)
    for taps in itertools.product(*axes):
        weight = np.ones((), x.dtype)
        for _, factor in taps:
            weight = weight * factor
        # Indices on both sides of a slice put the channels last.
        y = y + weight[..., None] * x[(batch, slice(None), *(found for found, _ in taps))]
    return np.moveaxis(y, -1, 1)


# -- the gradient ------------------------------------------------------------------------------------------------------


def _polynomial(m, coefficients, t):
    """The polynomial and its derivative at ``t``."""

    def value(numbers):
        total = m.multiply(m.zeros_like(t), 0.0)
        for number in reversed(numbers):
            total = m.add(m.multiply(total, t), float(number))
        return total

    return value(coefficients), value([i * c for i, c in enumerate(coefficients)][1:] or [0.0])


def _element(m, at, size, padding_mode, align_corners):
    """As :func:`_inside`, of whole numbers in floating point."""
    if padding_mode == "reflection":
        period = float(max(2 * (size - 1), 1) if align_corners else 2 * size)
        folded = m.subtract(at, m.multiply(m.floor(m.div(at, period)), period))
        found = m.minimum(folded, m.subtract(period if align_corners else period - 1, folded))
        return m.clip(found, min=0.0, max=float(size - 1)), None
    if padding_mode == "border":
        return m.clip(at, min=0.0, max=float(size - 1)), None
    counts = m.logical_and(m.greater_equal(at, 0.0), m.less_equal(at, float(size - 1)))
    return m.clip(at, min=0.0, max=float(size - 1)), counts


@grid_sample.vjp
def grid_sample_vjp(m, g, y, x, grid, *, mode, padding_mode, align_corners):
    shape, places = m.shape(x), m.shape(grid)
    if 0 in shape or 0 in places:
        return m.zeros_like(x), m.zeros_like(grid)
    batch, channels, *sizes = shape
    spatial, count = len(sizes), int(np.prod(places[1:-1]))
    int64 = np.dtype("int64")
    axes, slopes = [], []
    for i, size in enumerate(sizes):
        place = m.slice(grid, starts=(spatial - 1 - i,), ends=(spatial - i,), axes=(len(places) - 1,))
        place = m.reshape(place, shape=(batch, count))
        slope = (size - 1) / 2 if align_corners else size / 2
        at = m.add(m.multiply(place, slope), slope if align_corners else slope - 0.5)
        first = m.round(at) if mode == "nearest" else m.floor(at)
        rows = []
        for offset, polynomial in TAPS[mode].items():
            found, counts = _element(m, m.add(first, float(offset)), size, padding_mode, align_corners)
            parts = _polynomial(m, polynomial, m.subtract(at, first))
            parts = parts if counts is None else [m.where(counts, part, 0.0) for part in parts]
            rows.append((m.cast(found, to=int64), *parts))
        axes.append(rows)
        slopes.append(slope)
    rows_of = m.constant(np.arange(batch)[:, None] * np.ones((1, count)), int64)
    last = (0, *range(2, len(shape)), 1)
    flat = m.reshape(m.transpose(x, perm=last), shape=(batch * int(np.prod(sizes)), channels))
    given = m.reshape(m.transpose(g, perm=last), shape=(batch, count, channels))
    dx, dplaces = None, [None] * spatial

    def plus(total, term):
        return term if total is None else m.add(total, term)

    for taps in itertools.product(*axes):
        index = rows_of
        for size, (found, *_) in zip(sizes, taps, strict=True):
            index = m.add(m.multiply(index, m.constant(size, int64)), found)
        weight = taps[0][1]
        for _, factor, _ in taps[1:]:
            weight = m.multiply(weight, factor)
        spread = m.multiply(given, m.unsqueeze(weight, axes=(2,)))
        dx = plus(dx, m.scatter_add(index, spread, axis=0, size=batch * int(np.prod(sizes))))
        if mode == "nearest":
            continue
        seen = m.reduce_sum(m.multiply(given, m.gather(flat, index, axis=0)), axes=(2,))
        for i in range(spatial):
            slope = m.multiply(seen, slopes[i])
            for j, (_, factor, derivative) in enumerate(taps):
                slope = m.multiply(slope, derivative if i == j else factor)
            dplaces[i] = plus(dplaces[i], slope)
    dx = m.reshape(dx, shape=(batch, *sizes, channels))
    dx = m.transpose(dx, perm=(0, len(shape) - 1, *range(1, len(shape) - 1)))
    if mode == "nearest":
        return dx, m.zeros_like(grid)
    return dx, m.reshape(m.stack(*reversed(dplaces), axis=2), shape=places)


@grid_sample.samples
def grid_sample_samples(draw):
    for mode in ("linear", "nearest", "cubic"):
        for padding_mode in ("zeros", "border", "reflection"):
            for align_corners in (False, True):
                attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
                yield draw(x=(2, 2, 3, 4), grid=(2, 3, 2, 2), **attrs)
    yield draw(x=(1, 2, 3, 4, 2), grid=(1, 2, 3, 2, 3))
    yield draw(x=(1, 2, 3, 4, 2), grid=(1, 2, 3, 2, 3), align_corners=True, padding_mode="border")
    yield draw(x=(1, 2, 3, 4, 2), grid=(1, 2, 3, 2, 3), mode="nearest", padding_mode="reflection")
    yield draw(x=(1, 2, 1, 1), grid=(1, 3, 2, 2))
    far = Draws(Domain(spread=(-3.0, 3.0)), (1, 4, 4, 2))
    yield draw(x=(1, 1, 3, 4), grid=far, padding_mode="reflection")
    yield draw(x=(1, 1, 3, 4), grid=far, padding_mode="reflection", align_corners=True, mode="cubic")
    yield draw(x=(0, 2, 3, 4), grid=(0, 3, 2, 2))


@grid_sample.rejects
def grid_sample_rejects(reject):
    x = "float32[2, 3, 4, 5]"
    yield reject(x="float32[2, 3, 4]", grid="float32[2, 6, 1]", message="x must have rank 4 to 5")
    yield reject(x=x, grid="float32[2, 6, 7, 8, 3]", message="as many axes")
    yield reject(x=x, grid="float32[2, 6, 7, 3]", message="the last axis of grid")
    yield reject(x=x, grid="float32[1, 6, 7, 2]", message="the batches of x and grid")
    yield reject(x="float32[2, 3, 0, 5]", grid="float32[2, 6, 7, 2]", message="nothing to sample")
    yield reject(x=x, grid="float64[2, 6, 7, 2]", message="one dtype")
    yield reject(x=x, grid="float32[2, 6, 7, 2]", mode="bilinear", message="'mode' takes")


# -- grids -------------------------------------------------------------------------------------------------------------


def _affine_grid(theta, *, size, align_corners):
    if len(size) not in (4, 5) or min(size) < 1:
        raise AttributeValueError(f"size takes the sizes [N, C, spatial...] of an image, all >= 1; got {size}")
    if align_corners and 1 in size[2:]:
        raise AttributeValueError(f"size takes spatial sizes >= 2 where corners are aligned; got {size}")
    require_rank("theta", theta, 3, 3)
    spatial = len(size) - 2
    if theta.shape is not None:
        unify_size(theta.shape[0], size[0], "the batches of theta and size")
        unify_size(theta.shape[1], spatial, "the rows of theta and the spatial axes")
        unify_size(theta.shape[2], spatial + 1, "the columns of theta and the spatial axes and one")
    return TensorType(theta.dtype, (size[0], *size[2:], spatial))


def _base(size, align_corners):
    """``[places, axes + 1]``: the untransformed places, the last axis of the image first, and ones."""
    steps = []
    for n in size[2:]:
        at = np.arange(n, dtype=np.float64)
        steps.append(2 * at / (n - 1) - 1 if align_corners else (2 * at + 1) / n - 1)
    grids = np.meshgrid(*steps, indexing="ij")
    return np.stack([*(g.reshape(-1) for g in reversed(grids)), np.ones(grids[0].size)], axis=1)


@meta_op(rule=_affine_grid, dtypes=FLOATING)
def affine_grid(theta, *, size: Ints, align_corners: bool = False):
    """Where an affine map takes the elements of an image of ``size [N, C, spatial...]``, for ``grid_sample``.

    ``theta`` holds the maps, ``[N, 2, 3]`` for images and ``[N, 3, 4]`` for volumes; ``align_corners`` says whether the
    outermost elements lie on the borders -1 and 1 or just inside.
    """
    places = np.matmul(_base(size, align_corners).astype(theta.dtype), np.swapaxes(theta, 1, 2))
    return places.reshape(size[0], *size[2:], len(size) - 2)


@affine_grid.vjp
def affine_grid_vjp(m, g, y, theta, *, size, align_corners):
    spatial = len(size) - 2
    rows = m.transpose(m.reshape(g, shape=(size[0], int(np.prod(size[2:])), spatial)), perm=(0, 2, 1))
    return (m.matmul(rows, m.constant(_base(size, align_corners), m.dtype(g))),)


@affine_grid.samples
def affine_grid_samples(draw):
    for align_corners in (False, True):
        yield draw(theta=(2, 2, 3), size=(2, 3, 4, 5), align_corners=align_corners)
        yield draw(theta=(2, 3, 4), size=(2, 1, 2, 3, 4), align_corners=align_corners)
    yield draw(theta=(1, 2, 3), size=(1, 1, 1, 3))


@affine_grid.rejects
def affine_grid_rejects(reject):
    yield reject(theta="float32[2, 2, 3]", message="'size' is required")
    yield reject(theta="float32[2, 2, 3]", size=(2, 3, 4), message="size takes")
    yield reject(theta="float32[2, 2, 3]", size=(2, 3, 0, 5), message="size takes")
    yield reject(theta="float32[2, 2, 3]", size=(2, 3, 1, 5), align_corners=True, message="where corners are aligned")
    yield reject(theta="float32[2, 3]", size=(2, 3, 4, 5), message="theta must have rank 3")
    yield reject(theta="float32[2, 2, 3]", size=(3, 3, 4, 5), message="the batches of theta and size")
    yield reject(theta="float32[2, 2, 3]", size=(2, 3, 4, 5, 6), message="the rows of theta")
    yield reject(theta="float32[2, 2, 4]", size=(2, 3, 4, 5), message="the columns of theta")
