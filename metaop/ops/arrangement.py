"""Arrangement: elements repeated, cut, turned round or moved between axes; and numbers in a row."""

import builtins
import math
from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain
from metaop.ops.rules import normalise_axes, normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import ANY, INDEX, NUMERIC, Ints, TensorType

# -- repeating and cutting ---------------------------------------------------------------------------------------------


def tiled(x, *, repeats):
    if any(r < 0 for r in repeats):
        raise AttributeValueError(f"repeats {repeats}: numbers of 0 or more")
    require_rank(f"repeats {repeats}: 'x'", x, len(repeats), len(repeats))
    sizes = (None,) * len(repeats) if x.shape is None else x.shape
    return x.with_shape(tuple(0 if r == 0 else s and s * r for s, r in zip(sizes, repeats, strict=True)))


@meta_op(rule=tiled, dtypes=ANY)
def tile(x, *, repeats: Ints):
    """``x`` so many times along each axis, one copy after the other."""
    return np.tile(x, repeats)


@tile.vjp
def tile_vjp(m, g, y, x, *, repeats):
    shape = m.shape(x)
    if 0 in m.shape(g):
        return (m.zeros_like(x),)
    for axis, count in enumerate(repeats):
        if count != 1:
            now = m.shape(g)
            rest = math.prod((shape[axis], *now[axis + 1 :]))
            copies = m.reshape(g, shape=(math.prod(now[:axis]), count, rest))
            g = m.reshape(m.reduce_sum(copies, axes=(1,)), shape=(*now[:axis], shape[axis], *now[axis + 1 :]))
    return (g,)


@tile.samples
def tile_samples(draw):
    yield draw(x=(2, 3), repeats=(2, 2))
    yield draw(x=(2, 3, 1, 2), repeats=(3, 1, 2, 2))
    yield draw(x=(3,), repeats=(1,))
    yield draw(x=(), repeats=())
    yield draw(x=(2, 3), repeats=(2, 0))
    yield draw(x=(0, 3), repeats=(2, 2))
    yield draw(x=[np.nan, -0.0], repeats=(2,), special=True)


@tile.rejects
def tile_rejects(reject):
    yield reject(x="float32[2, 3]", repeats=(2,), message="'x' must have rank 1")
    yield reject(x="float32[2, 3]", repeats=(2, -1), message="numbers of 0 or more")
    yield reject(x="float32[2, 3]", message="'repeats' is required")


def crop_axes(rank, shape, axes):
    found = tuple(builtins.range(len(shape))) if axes is None and rank is None else normalise_axes(axes, rank)
    if len(found) != len(shape):
        raise AttributeValueError(f"shape {shape} must have one size for each of the axes {found}")
    return found


def cropped(x, *, shape, axes):
    if any(s < 0 for s in shape):
        raise AttributeValueError(f"shape {shape}: sizes are 0 or more")
    if axes is not None and len(axes) != len(shape):
        raise AttributeValueError(f"shape {shape} must have one size for each of the axes {axes}")
    if x.shape is None:
        return x if axes is not None else x.with_shape(shape)
    sizes = list(x.shape)
    for axis, size in zip(crop_axes(len(sizes), shape, axes), shape, strict=True):
        sizes[axis] = size
    return x.with_shape(tuple(sizes))


@meta_op(rule=cropped, dtypes=ANY)
def center_crop_pad(x, *, shape: Ints, axes: Ints | None = None):
    """The middle of ``x`` along ``axes`` (``None``: all), in the sizes ``shape``, or ``x`` in the middle of zeros.

    Where the difference is odd, one element more is cut off, or added, at the end than at the beginning.
    """
    for axis, size in zip(crop_axes(x.ndim, shape, axes), shape, strict=True):
        before = (size - x.shape[axis]) // 2 if size > x.shape[axis] else -((x.shape[axis] - size) // 2)
        after = size - x.shape[axis] - before
        cut = [slice(None)] * x.ndim
        cut[axis] = slice(max(-before, 0), x.shape[axis] - max(-after, 0))
        widths = [(0, 0)] * x.ndim
        widths[axis] = (max(before, 0), max(after, 0))
        x = np.pad(x[tuple(cut)], widths)
    return x


@center_crop_pad.vjp
def center_crop_pad_vjp(m, g, y, x, *, shape, axes):
    sizes = m.shape(x)
    return (m.center_crop_pad(g, shape=tuple(sizes[a] for a in crop_axes(len(sizes), shape, axes)), axes=axes),)


@center_crop_pad.samples
def center_crop_pad_samples(draw):
    yield draw(x=(6, 5, 3), shape=(3, 2, 3))
    yield draw(x=(3, 4), shape=(6, 7))
    yield draw(x=(6, 3, 2), shape=(3, 6, 2))
    yield draw(x=(6, 3, 2), shape=(3, 6), axes=(0, 1))
    yield draw(x=(2, 6, 3), shape=(5, 3), axes=(-1, 1))
    yield draw(x=(2, 3), shape=(), axes=())
    yield draw(x=(2, 3), shape=(0, 5))
    yield draw(x=(0, 3), shape=(2, 2))


@center_crop_pad.rejects
def center_crop_pad_rejects(reject):
    yield reject(x="float32[2, 3]", shape=(2,), message="one size for each of the axes (0, 1)")
    yield reject(x="float32[...]", shape=(2, 3), axes=(1,), message="one size for each of the axes (1,)")
    yield reject(x="float32[2, 3]", shape=(2, -1), message="sizes are 0 or more")
    yield reject(x="float32[2, 3]", shape=(2,), axes=(2,), message="axes 2 is out of range")
    yield reject(x="float32[2, 3]", shape=(2, 2), axes=(1, -1), message="names an axis twice")


# -- depth and space ---------------------------------------------------------------------------------------------------

Mode = Literal["DCR", "CRD"]


def check_blocksize(x, blocksize):
    if blocksize < 1:
        raise AttributeValueError(f"blocksize {blocksize} must be at least 1")
    require_rank("'x'", x, 4, 4)


def spread_out(x, *, blocksize, mode):
    check_blocksize(x, blocksize)
    if x.shape is None:
        return x.with_shape((None,) * 4)
    n, c, h, w = x.shape
    if c is not None and c % (blocksize * blocksize):
        raise ShapeError(f"blocksize {blocksize}: the channels of 'x' of type {x} must be a multiple of its square")
    return x.with_shape((n, c and c // (blocksize * blocksize), h and h * blocksize, w and w * blocksize))


@meta_op(rule=spread_out, dtypes=ANY)
def depth_to_space(x, *, blocksize: int, mode: Mode = "DCR"):
    """``x [N, C, H, W]`` with its channels laid out as squares of ``blocksize``, side by side.

    A channel's number is made of the square's row, its column, and the channel in the result: in this order
    (``"DCR"``), or the last one first (``"CRD"``).
    """
    n, c, h, w = x.shape
    b, deep = blocksize, c // (blocksize * blocksize)
    if mode == "DCR":
        squares = x.reshape(n, b, b, deep, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        squares = x.reshape(n, deep, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return squares.reshape(n, deep, h * b, w * b)


@depth_to_space.vjp
def depth_to_space_vjp(m, g, y, x, *, blocksize, mode):
    return (m.space_to_depth(g, blocksize=blocksize, mode=mode),)


@depth_to_space.samples
def depth_to_space_samples(draw):
    yield draw(x=(1, 8, 2, 3), blocksize=2)
    yield draw(x=(1, 8, 2, 3), blocksize=2, mode="CRD")
    yield draw(x=(2, 9, 1, 2), blocksize=3)
    yield draw(x=(2, 18, 1, 2), blocksize=3, mode="CRD")
    yield draw(x=(1, 3, 2, 2), blocksize=1)
    yield draw(x=(0, 4, 2, 2), blocksize=2)


@depth_to_space.rejects
def depth_to_space_rejects(reject):
    yield reject(x="float32[1, 6, 2, 2]", blocksize=2, message="must be a multiple of its square")
    yield reject(x="float32[1, 4, 2]", blocksize=2, message="'x' must have rank 4")
    yield reject(x="float32[1, 4, 2, 2]", blocksize=0, message="blocksize 0")
    yield reject(x="float32[1, 4, 2, 2]", blocksize=2, mode="RCD", message="'mode' takes")


def stacked_up(x, *, blocksize, mode):
    check_blocksize(x, blocksize)
    if x.shape is None:
        return x.with_shape((None,) * 4)
    n, c, h, w = x.shape
    if any(s is not None and s % blocksize for s in (h, w)):
        raise ShapeError(f"blocksize {blocksize}: height and width of 'x' of type {x} must be multiples of it")
    return x.with_shape((n, c and c * blocksize * blocksize, h and h // blocksize, w and w // blocksize))


@meta_op(rule=stacked_up, dtypes=ANY)
def space_to_depth(x, *, blocksize: int, mode: Mode = "DCR"):
    """``x [N, C, H, W]`` with the squares of ``blocksize`` that it consists of put into channels.

    A channel's number is made of the square's row, its column, and the channel of ``x``: in this order (``"DCR"``), or
    the last one first (``"CRD"``).
    """
    n, c, h, w = x.shape
    b = blocksize
    squares = x.reshape(n, c, h // b, b, w // b, b).transpose(
        (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    )
    return squares.reshape(n, c * b * b, h // b, w // b)


@space_to_depth.vjp
def space_to_depth_vjp(m, g, y, x, *, blocksize, mode):
    return (m.depth_to_space(g, blocksize=blocksize, mode=mode),)


@space_to_depth.samples
def space_to_depth_samples(draw):
    yield draw(x=(1, 2, 4, 6), blocksize=2)
    yield draw(x=(1, 2, 4, 6), blocksize=2, mode="CRD")
    yield draw(x=(2, 1, 3, 6), blocksize=3)
    yield draw(x=(2, 3, 3, 3), blocksize=3, mode="CRD")
    yield draw(x=(1, 3, 2, 2), blocksize=1)
    yield draw(x=(0, 1, 2, 2), blocksize=2)


@space_to_depth.rejects
def space_to_depth_rejects(reject):
    yield reject(x="float32[1, 1, 4, 3]", blocksize=2, message="must be multiples of it")
    yield reject(x="float32[4, 2]", blocksize=2, message="'x' must have rank 4")
    yield reject(x="float32[1, 1, 2, 2]", message="'blocksize' is required")


# -- sequences ---------------------------------------------------------------------------------------------------------


def turned(x, sequence_lens, *, batch_axis, time_axis):
    require_rank("'x'", x, 2)
    require_rank("'sequence_lens'", sequence_lens, 1, 1)
    if x.shape is None:
        return x
    batch = normalise_axis(batch_axis, len(x.shape), "batch_axis")
    if batch == normalise_axis(time_axis, len(x.shape), "time_axis"):
        raise AttributeValueError(f"batch_axis {batch_axis} and time_axis {time_axis} are the same")
    if sequence_lens.shape is not None:
        unify_size(x.shape[batch], sequence_lens.shape[0], "the batch of 'x' and 'sequence_lens'")
    return x


@meta_op(
    rule=turned,
    dtypes=ANY,
    also={"sequence_lens": INDEX},
    domain={"sequence_lens": Domain(low=0, spread=(0, 2), text="lengths")},
)
def reverse_sequence(x, sequence_lens, *, batch_axis: int = 1, time_axis: int = 0):
    """The first ``sequence_lens`` elements along ``time_axis`` in reverse order, the others as they are.

    There is one length, of 0 up to the size of ``time_axis``, for each index of ``batch_axis``.
    """
    rows = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    if ((sequence_lens < 0) | (sequence_lens > rows.shape[1])).any():
        raise IndexError(f"reverse_sequence: sequence_lens {sequence_lens.tolist()} for sequences of {rows.shape[1]}")
    result = rows.copy()
    for i, length in enumerate(sequence_lens):
        result[i, :length] = rows[i, :length][::-1]
    return np.moveaxis(result, (0, 1), (batch_axis, time_axis))


@reverse_sequence.vjp
def reverse_sequence_vjp(m, g, y, x, sequence_lens, *, batch_axis, time_axis):
    return m.reverse_sequence(g, sequence_lens, batch_axis=batch_axis, time_axis=time_axis), None


@reverse_sequence.samples
def reverse_sequence_samples(draw):
    yield draw(x=(4, 3), sequence_lens=[4, 1, 2])
    yield draw(x=(3, 4), sequence_lens=[1, 3, 4], batch_axis=0, time_axis=1)
    yield draw(x=(4, 3, 2), sequence_lens=[3, 2, 4])
    yield draw(x=(2, 3, 4), sequence_lens=[3, 2], batch_axis=0, time_axis=-1)
    yield draw(x=(3, 2), sequence_lens=[0, 3])
    yield draw(x=(3, 0), sequence_lens=(0,))


@reverse_sequence.rejects
def reverse_sequence_rejects(reject):
    yield reject(x="float32[4, 3]", sequence_lens="int64[4]", message="sizes 3 and 4 differ")
    yield reject(x="float32[4, 3]", sequence_lens="int64[3]", time_axis=-1, message="are the same")
    yield reject(x="float32[4, 3]", sequence_lens="int64[3]", time_axis=2, message="time_axis 2 is out of range")
    yield reject(x="float32[4]", sequence_lens="int64[4]", message="'x' must have rank at least 2")
    yield reject(x="float32[4, 3]", sequence_lens="float32[3]", message="'sequence_lens' takes int32 or int64")


def steps(start, limit, delta):
    """How many numbers there are from ``start`` up to, and not including, ``limit``."""
    if all(isinstance(v, int) for v in (start, limit, delta)):
        return len(builtins.range(start, limit, delta))
    return max(math.ceil((limit - start) / delta), 0)


def in_a_row(*, start, limit, delta, dtype):
    given = f"from {start} to {limit} by {delta}"
    if dtype not in NUMERIC:
        raise AttributeValueError(f"range: dtype {dtype} is not one of numbers")
    if delta == 0 or not all(math.isfinite(v) for v in (start, limit, delta)):
        raise AttributeValueError(f"range {given}: the numbers must be finite, and delta not 0")
    if dtype.kind != "f":
        low, high = (min(np.iinfo(dtype).max, max(np.iinfo(dtype).min, end)) for end in (-(2**63), 2**63 - 1))
        if not all(isinstance(v, int) for v in (start, limit, delta)) or not (low <= start <= high):
            raise AttributeValueError(f"range {given} does not consist of {dtype} numbers")
    return TensorType(dtype, (steps(start, limit, delta),))


@meta_op(
    rule=in_a_row, dtypes=frozenset([np.dtype("float32")]), nondifferentiable="there is no tensor to differentiate by"
)
def range(*, start: int | float = 0, limit: int | float, delta: int | float = 1, dtype: np.dtype = np.dtype("int64")):  # noqa: B008
    """The numbers from ``start`` up to, and not including, ``limit``, by ``delta``, as a vector of ``dtype``."""
    if dtype.kind != "f":
        return np.arange(start, limit, delta, dtype=np.int64).astype(dtype)
    return (start + np.arange(steps(start, limit, delta)) * float(delta)).astype(dtype)


@range.samples
def range_samples(draw):
    yield draw(limit=5)
    yield draw(start=10, limit=4, delta=-2, dtype="int32")
    yield draw(start=1, limit=6, delta=2, dtype="float32")
    yield draw(start=0.25, limit=2.0, delta=0.5, dtype="float32")
    yield draw(start=1.0, limit=-1.0, delta=-0.75, dtype="float64")
    yield draw(start=3, limit=3)
    yield draw(start=0.0, limit=-1.0, dtype="float32")


@range.rejects
def range_rejects(reject):
    yield reject(limit=5, delta=0, message="delta not 0")
    yield reject(limit=float("inf"), dtype="float32", message="must be finite")
    yield reject(limit=2.5, message="does not consist of int64 numbers")
    yield reject(start=-1, limit=2, dtype="uint8", message="does not consist of uint8 numbers")
    yield reject(limit=2, dtype="bool", message="dtype bool is not one of numbers")
    yield reject(message="'limit' is required")
