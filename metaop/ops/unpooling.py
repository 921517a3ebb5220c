"""Where the elements of windows lie: maxima with their positions, and windows put back into an image."""

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.pooling import _counts, _pool, _positions, _text
from metaop.ops.rules import require_rank, unify_size
from metaop.ops.scaling import _filled
from metaop.ops.spec import meta_op
from metaop.ops.windows import accumulator, extents, per_axis, window_count
from metaop.types import FLOATING, Ints, TensorType


def _with_indices(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    spatial = len(kernel_shape)
    if not 1 <= spatial <= 3:
        raise AttributeValueError(f"kernel_shape takes 1 to 3 integers; got {kernel_shape}")
    strides, pads, dilations = _filled(spatial, strides, pads, dilations)
    y = _pool(spatial)(
        x, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil_mode
    )
    return y, y.with_dtype(np.dtype("int64"))


@meta_op(rule=_with_indices, dtypes=FLOATING, outputs=("y", "indices"))
def max_pool_with_indices(
    x,
    *,
    kernel_shape: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    ceil_mode: bool = False,
):
    """The largest element of each window of ``x [N, C, spatial...]``, and its position among all elements of ``x``.

    Of equal elements the first counts.
    """
    strides, pads, dilations = _filled(len(kernel_shape), strides, pads, dilations)
    sizes = x.shape[2:]
    counts = _counts(sizes, kernel_shape, strides, pads, dilations, ceil_mode)
    at = _positions(sizes, kernel_shape, strides, pads, dilations, counts)
    planes = x.reshape(x.shape[0] * x.shape[1], int(np.prod(sizes)))
    read = np.where(at < 0, x.dtype.type(-np.inf), planes[:, np.maximum(at, 0)])
    top = read.max(axis=1, keepdims=True)
    hit = ((read == top) | np.isnan(read)) & (at >= 0)
    found = np.take_along_axis(np.broadcast_to(at, read.shape), np.argmax(hit, axis=1)[:, None], 1)[:, 0]
    shape = (*x.shape[:2], *counts)
    values = np.take_along_axis(planes, found, axis=1).reshape(shape)
    return values, (found + np.arange(len(planes))[:, None] * planes.shape[1]).reshape(shape).astype(np.int64)


@max_pool_with_indices.vjp
def max_pool_with_indices_vjp(m, g, y, x, **attrs):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    count = int(np.prod(m.shape(y[0])))
    places, given = m.reshape(y[1], shape=(count,)), m.reshape(g[0], shape=(count,))
    spread = m.scatter_add(places, given, axis=0, size=int(np.prod(m.shape(x))))
    return (m.reshape(spread, shape=m.shape(x)),)


@max_pool_with_indices.samples
def max_pool_with_indices_samples(draw):
    yield draw(x=(2, 3, 6, 7), kernel_shape=(3, 2))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(2, 2), strides=(2, 2))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(3, 3), strides=(2, 3), pads=(1, 1, 1, 1))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(2, 2), dilations=(2, 3))
    yield draw(x=(1, 2, 6, 7), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=True)
    yield draw(x=(2, 2, 7), kernel_shape=(3,), strides=(2,))
    yield draw(x=(1, 2, 3, 4, 3), kernel_shape=(2, 2, 2))
    yield draw(x=(0, 2, 6, 7), kernel_shape=(3, 2))


@max_pool_with_indices.rejects
def max_pool_with_indices_rejects(reject):
    x = _text(2, 3, 6, 7)
    yield reject(x=x, message="'kernel_shape' is required")
    yield reject(x=x, kernel_shape=(2,), message="x must have rank 3")
    yield reject(x=x, kernel_shape=(1, 1, 1, 1), message="1 to 3 integers")
    yield reject(x=x, kernel_shape=(2, 2), pads=(2, 0, 0, 0), message="pads must be smaller")
    yield reject(x="int32[2, 3, 6, 7]", kernel_shape=(2, 2), message="takes float16")


# -- windows put back --------------------------------------------------------------------------------------------------


def _col2im(x, *, image_shape, block_shape, strides, pads, dilations):
    spatial = len(image_shape)
    if not 1 <= spatial <= 3 or min(image_shape) < 1:
        raise AttributeValueError(f"image_shape takes 1 to 3 integers >= 1; got {image_shape}")
    strides, pads, dilations = _filled(spatial, strides, pads, dilations)
    per_axis(spatial, block_shape=block_shape, strides=strides, pads=pads, dilations=dilations)
    require_rank("x", x, 3, 3)
    counts = _windows(image_shape, block_shape, strides, pads, dilations)
    batch, rows, columns = (None,) * 3 if x.shape is None else x.shape
    taps = int(np.prod(block_shape))
    unify_size(columns, int(np.prod(counts)), "the last axis of x and the number of blocks")
    if rows is not None and rows % taps:
        raise ShapeError(f"x: its axis 1 must be a multiple of the {taps} elements of a block; got {x}")
    return TensorType(x.dtype, (batch, None if rows is None else rows // taps, *image_shape))


def _windows(sizes, block, strides, pads, dilations):
    spatial, reach = len(sizes), extents(block, dilations)
    return [
        window_count(f"axis {i} of the image", sizes[i], reach[i], strides[i], pads[i], pads[i + spatial])
        for i in range(spatial)
    ]


def _places(image_shape, block_shape, strides, pads, dilations):
    strides, pads, dilations = _filled(len(image_shape), strides, pads, dilations)
    counts = _windows(image_shape, block_shape, strides, pads, dilations)
    return _positions(image_shape, block_shape, strides, pads, dilations, counts)


@meta_op(rule=_col2im, dtypes=FLOATING)
def col2im(
    x,
    *,
    image_shape: Ints,
    block_shape: Ints,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
):
    """The image of ``image_shape`` whose blocks are the columns of ``x [N, C * block, blocks]``; overlaps are added."""
    at = _places(image_shape, block_shape, strides, pads, dilations).reshape(-1)
    channels, work = x.shape[1] // int(np.prod(block_shape)), accumulator(x.dtype)
    total = np.zeros((x.shape[0] * channels, int(np.prod(image_shape)) + 1), work)
    # What falls into the padding goes to a place behind the image.
    np.add.at(total, (slice(None), at), x.reshape(len(total), at.size).astype(work))
    return total[:, :-1].reshape(x.shape[0], channels, *image_shape).astype(x.dtype)


@col2im.vjp
def col2im_vjp(m, g, y, x, *, image_shape, block_shape, strides, pads, dilations):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    at = _places(image_shape, block_shape, strides, pads, dilations).reshape(-1)
    size = int(np.prod(image_shape))
    flat = m.pad(m.reshape(g, shape=(int(np.prod(m.shape(g)[:2])), size)), pads=(0, 0, 0, 1))
    return (m.reshape(m.gather(flat, m.constant(np.where(at < 0, size, at), np.int64), axis=1), shape=m.shape(x)),)


@col2im.samples
def col2im_samples(draw):
    yield draw(x=(2, 6, 12), image_shape=(4, 5), block_shape=(2, 3), pads=(0, 0, 0, 1))
    yield draw(x=(1, 12, 6), image_shape=(3, 4), block_shape=(2, 2))
    yield draw(x=(1, 9, 4), image_shape=(5, 5), block_shape=(3, 3), strides=(2, 2))
    yield draw(x=(1, 8, 16), image_shape=(4, 5), block_shape=(2, 2), pads=(1, 1, 1, 1), dilations=(2, 3))
    yield draw(x=(1, 10, 12), image_shape=(3, 4, 5), block_shape=(1, 1, 5))
    yield draw(x=(0, 12, 6), image_shape=(3, 4), block_shape=(2, 2))


@col2im.rejects
def col2im_rejects(reject):
    shapes = {"image_shape": (3, 4), "block_shape": (2, 2)}
    yield reject(x="float32[1, 12, 6]", message="'image_shape' is required")
    yield reject(x="float32[1, 12, 5]", **shapes, message="the number of blocks")
    yield reject(x="float32[1, 11, 6]", **shapes, message="a multiple of the 4 elements")
    yield reject(x="float32[12, 6]", **shapes, message="x must have rank 3")
    yield reject(x="float32[1, 12, 6]", **shapes, strides=(1,), message="strides takes")
    yield reject(x="float32[1, 12, 6]", image_shape=(1, 4), block_shape=(2, 2), message="the window spans 2")
    yield reject(x="float32[1, 12, 6]", image_shape=(0, 4), block_shape=(2, 2), message="image_shape takes")
