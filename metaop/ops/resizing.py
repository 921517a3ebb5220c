"""Resizing: every element of the result is a weighted mean of neighbours along each resized axis.

The axes are independent of each other, so that all there is to know of one is a matrix ``[new size, old size]`` of
weights; the gradient is the product with its transpose.
"""

import math
from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.rules import normalise_axes, require_rank
from metaop.ops.spec import meta_op
from metaop.ops.windows import accumulator
from metaop.types import FLOATING, Ints

Floats = tuple[float, ...]

# -- shapes ------------------------------------------------------------------------------------------------------------


def _targets(shape, sizes, scales, axes):
    """For each resized axis: the axis, its new size and how many times larger that counts as."""
    axes = normalise_axes(axes, len(shape))
    for name, given in (("sizes", sizes), ("scales", scales)):
        if given is not None and len(given) != len(axes):
            raise AttributeValueError(f"{name} takes one number for each of the {len(axes)} axes; got {given}")
    found = []
    for i, axis in enumerate(axes):
        old = shape[axis]
        scale = None if scales is None else scales[i]
        new = sizes[i] if sizes is not None else None if old is None else int(old * scale)
        found.append((axis, new, new / old if scale is None and old else scale))
    return found


def _resize(x, *, sizes, scales, axes, mode, coordinate_transformation_mode, roi, **attrs):
    require_rank("x", x, 1)
    if sizes is None and scales is None:
        raise AttributeValueError("resize needs sizes or scales")
    if sizes is not None and min(sizes, default=1) < 1:
        raise AttributeValueError(f"sizes takes integers >= 1; got {sizes}")
    if scales is not None and not all(0 < scale < math.inf for scale in scales):
        raise AttributeValueError(f"scales takes numbers > 0; got {scales}")
    if attrs["antialias"] and mode == "nearest":
        raise AttributeValueError("antialias takes True with mode 'linear' or 'cubic' only")
    count = len(scales if sizes is None else sizes)
    if (roi is not None) != (coordinate_transformation_mode == "tf_crop_and_resize"):
        raise AttributeValueError(
            "roi is given with coordinate_transformation_mode 'tf_crop_and_resize', and only then"
        )
    if roi is not None and (len(roi) != 2 * count or not all(map(math.isfinite, roi))):
        raise AttributeValueError(f"roi takes {2 * count} numbers (all starts, then all ends); got {roi}")
    if x.shape is None:
        return x
    shape = list(x.shape)
    for axis, new, _ in _targets(x.shape, sizes, scales, axes):
        if shape[axis] == 0:
            raise ShapeError(f"x: axis {axis} of size 0 has nothing to be resized; got {x}")
        if new == 0:
            raise ShapeError(f"x: nothing would be left of axis {axis}; got {x} and scales {scales}")
        shape[axis] = new
    return x.with_shape(tuple(shape))


# -- weights -----------------------------------------------------------------------------------------------------------


def _origins(old, new, scale, transformation, start, end):
    """Where each new element lies among the old ones."""
    at = np.arange(new, dtype=np.float64)
    width = scale * old
    if transformation == "align_corners":
        return at * (old - 1) / (width - 1) if width != 1 else np.zeros(new)
    if transformation == "asymmetric":
        return at / scale
    if transformation == "tf_crop_and_resize":
        if width == 1:
            return np.full(new, 0.5 * (start + end) * (old - 1))
        return start * (old - 1) + at * (end - start) * (old - 1) / (width - 1)
    centred = (at + 0.5) / scale - 0.5
    if transformation == "half_pixel_symmetric":
        return centred + old / 2 * (1 - new / width)
    if transformation == "pytorch_half_pixel" and width == 1:
        return np.zeros(new)
    return centred


def _nearest(origins, nearest_mode):
    if nearest_mode == "floor":
        return np.floor(origins)
    if nearest_mode == "ceil":
        return np.ceil(origins)
    return np.ceil(origins - 0.5) if nearest_mode == "round_prefer_floor" else np.floor(origins + 0.5)


def _triangle(distance):
    return np.maximum(1 - np.abs(distance), 0)


def _keys(distance, a):
    """Keys' cubic convolution kernel."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _weights(old, new, scale, span, attrs):
    """The matrix of one axis, and which rows lie outside the input (where a crop does)."""
    transformation = attrs["coordinate_transformation_mode"]
    origins = _origins(old, new, scale, transformation, *span)
    outside = np.zeros(new, bool)
    if transformation == "tf_crop_and_resize":
        outside = (origins < 0) | (origins > old - 1)
    if attrs["mode"] == "nearest":
        taps = _nearest(origins, attrs["nearest_mode"])[:, None]
        values = np.ones(taps.shape)
    else:
        stretch = min(scale, 1.0) if attrs["antialias"] else 1.0
        reach = math.ceil((2 if attrs["mode"] == "cubic" else 1) / stretch)
        taps = np.floor(origins)[:, None] + np.arange(-reach, reach + 2)
        distance = (taps - origins[:, None]) * stretch
        values = _triangle(distance) if attrs["mode"] == "linear" else _keys(distance, attrs["cubic_coeff_a"])
        if attrs["antialias"]:
            values /= values.sum(axis=1, keepdims=True)
        if attrs["exclude_outside"]:
            values = np.where((taps >= 0) & (taps < old), values, 0.0)
            values /= values.sum(axis=1, keepdims=True)
    matrix = np.zeros((new, old))
    np.add.at(matrix, (np.arange(new)[:, None], np.clip(taps, 0, old - 1).astype(int)), values)
    matrix[outside] = 0.0
    return matrix, outside


def _matrices(shape, sizes, scales, axes, roi, attrs):
    targets = _targets(shape, sizes, scales, axes)
    for i, (axis, new, scale) in enumerate(targets):
        span = (0.0, 1.0) if roi is None else (roi[i], roi[i + len(targets)])
        yield (axis, *_weights(shape[axis], new, scale, span, attrs))


# -- the operator ------------------------------------------------------------------------------------------------------


@meta_op(rule=_resize, dtypes=FLOATING)
def resize(
    x,
    *,
    sizes: Ints | None = None,
    scales: Floats | None = None,
    axes: Ints | None = None,
    mode: Literal["nearest", "linear", "cubic"] = "linear",
    coordinate_transformation_mode: Literal[
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ] = "half_pixel",
    nearest_mode: Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    roi: Floats | None = None,
    extrapolation_value: float = 0.0,
):
    """``x`` with other ``sizes`` along ``axes`` (all of them, if ``None``), interpolated.

    Given ``scales`` instead, the new sizes are the old ones times these, rounded down, and coordinates are scaled by
    them; given both, each does its part. Neighbours beyond the border count as the border, or not at all with
    ``exclude_outside``. With ``antialias`` the kernel is as much wider as the result is smaller. ``roi`` (starts, then
    ends, 0 to 1) is what ``tf_crop_and_resize`` cuts out; what of it lies outside becomes ``extrapolation_value``.
    """
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": coordinate_transformation_mode,
        "nearest_mode": nearest_mode,
        "cubic_coeff_a": cubic_coeff_a,
        "exclude_outside": exclude_outside,
        "antialias": antialias,
    }
    work = x.dtype if mode == "nearest" else accumulator(x.dtype)
    y = x.astype(work)
    cut = np.zeros((1,) * x.ndim, bool)
    for axis, matrix, outside in _matrices(x.shape, sizes, scales, axes, roi, attrs):
        if mode == "nearest":
            y = np.take(y, np.argmax(matrix, axis=1), axis=axis)
        else:
            y = np.moveaxis(np.tensordot(y, matrix.astype(work), (axis, 1)), -1, axis)
        cut = cut | outside.reshape(-1, *[1] * (x.ndim - 1 - axis))
    return np.where(cut, work.type(extrapolation_value), y).astype(x.dtype)


@resize.vjp
def resize_vjp(m, g, y, x, *, sizes, scales, axes, roi, extrapolation_value, **attrs):
    if 0 in m.shape(x):
        return (m.zeros_like(x),)
    rank = len(m.shape(x))
    matrices = list(_matrices(m.shape(x), sizes, scales, axes, roi, attrs))
    if any(outside.any() for *_, outside in matrices):
        inside = np.ones((1,) * rank, bool)
        for axis, _, outside in matrices:
            inside = inside & ~outside.reshape(-1, *[1] * (rank - 1 - axis))
        g = m.where(m.constant(inside, bool), g, 0.0)
    for axis, matrix, _ in reversed(matrices):
        turn = tuple(i for i in range(rank) if i != axis) + (axis,)
        back = tuple(int(i) for i in np.argsort(turn))
        moved = g if axis == rank - 1 else m.transpose(g, perm=turn)
        spread = m.matmul(moved, m.constant(matrix, m.dtype(g)))
        g = spread if axis == rank - 1 else m.transpose(spread, perm=back)
    return (g,)


@resize.samples
def resize_samples(draw):
    image, both = (1, 2, 4, 5), {"axes": (2, 3)}
    yield draw(x=image, sizes=(8, 10), **both)
    yield draw(x=image, sizes=(7, 3), **both)
    yield draw(x=image, sizes=(8, 15), mode="nearest", **both)
    yield draw(
        x=image,
        sizes=(8, 10),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
        **both,
    )
    yield draw(x=image, sizes=(3, 7), mode="nearest", nearest_mode="round_prefer_ceil", **both)
    yield draw(
        x=image,
        sizes=(7, 9),
        mode="nearest",
        nearest_mode="round_prefer_ceil",
        coordinate_transformation_mode="align_corners",
        **both,
    )
    yield draw(x=image, sizes=(8, 10), mode="nearest", nearest_mode="ceil", **both)
    yield draw(x=image, sizes=(8, 9), mode="cubic", **both)
    yield draw(x=image, sizes=(8, 9), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=True, **both)
    yield draw(x=image, sizes=(3, 4), mode="cubic", coordinate_transformation_mode="align_corners", **both)
    yield draw(x=image, sizes=(7, 9), coordinate_transformation_mode="align_corners", **both)
    yield draw(x=image, sizes=(7, 1), coordinate_transformation_mode="pytorch_half_pixel", **both)
    yield draw(x=image, sizes=(9, 4), coordinate_transformation_mode="asymmetric", **both)
    yield draw(x=image, scales=(1.5, 0.6), **both)
    yield draw(x=image, scales=(2.0, 2.0), mode="nearest", **both)
    yield draw(x=image, scales=(0.7, 1.3), coordinate_transformation_mode="half_pixel_symmetric", **both)
    yield draw(x=image, sizes=(2, 3), antialias=True, **both)
    yield draw(x=image, sizes=(2, 3), antialias=True, exclude_outside=True, **both)
    yield draw(x=image, sizes=(2, 3), antialias=True, mode="cubic", cubic_coeff_a=-0.5, exclude_outside=True, **both)
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 0.5}
    yield draw(x=image, sizes=(3, 4), roi=(0.2, -0.3, 0.8, 0.9), **crop, **both)
    yield draw(x=(2, 3, 6), sizes=(4,), axes=(2,))
    yield draw(
        x=(2, 3, 6),
        sizes=(9,),
        axes=(-1,),
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    yield draw(x=(1, 1, 2, 3, 4), sizes=(4, 2, 5), axes=(2, 3, 4))
    yield draw(x=(3, 4), sizes=(5, 2))
    yield draw(x=(3, 4, 2), sizes=(5, 6), axes=(1, 0))
    yield draw(x=(0, 2, 4, 5), sizes=(8, 10), **both)


@resize.rejects
def resize_rejects(reject):
    x = "float32[1, 2, 4, 5]"
    yield reject(x=x, message="sizes or scales")
    yield reject(x=x, sizes=(8, 10), message="one number for each of the 4 axes")
    yield reject(x=x, sizes=(0, 10), axes=(2, 3), message="sizes takes integers >= 1")
    yield reject(x=x, sizes=(8, 10), axes=(2, 4), message="axes 4 is out of range")
    yield reject(x=x, sizes=(8, 10), axes=(2, -2), message="names an axis twice")
    yield reject(x=x, scales=(0.0, 1.0), axes=(2, 3), message="scales takes numbers > 0")
    yield reject(x=x, scales=(0.1, 1.0), axes=(2, 3), message="nothing would be left")
    yield reject(x="float32[1, 2, 0, 5]", sizes=(8, 10), axes=(2, 3), message="nothing to be resized")
    yield reject(x=x, sizes=(8, 10), axes=(2, 3), mode="nearest", antialias=True, message="antialias takes")
    yield reject(x=x, sizes=(8, 10), axes=(2, 3), roi=(0.0, 0.0, 1.0, 1.0), message="roi is given with")
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    yield reject(x=x, sizes=(8, 10), axes=(2, 3), roi=(0.0, 1.0), **crop, message="roi takes 4 numbers")
    yield reject(x="float32[]", sizes=(), message="x must have rank at least 1")
    yield reject(x="int32[4]", sizes=(8,), message="takes float16")
