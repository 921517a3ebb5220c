"""MXNet's resizing."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind, legacy
from metaop.errors import UnsupportedOpError

resized = legacy(mx.nd.contrib.BilinearResize2D)


@bind
def resize(
    x,
    *,
    sizes,
    scales,
    axes,
    mode,
    coordinate_transformation_mode,
    nearest_mode,
    cubic_coeff_a,
    exclude_outside,
    antialias,
    roi,
    extrapolation_value,
):
    rank = len(x.shape)
    order = list(range(rank) if axes is None else (a % rank for a in axes))
    if (
        (rank, order) != (4, [2, 3])
        or (mode, coordinate_transformation_mode) != ("linear", "align_corners")
        or scales is not None
        or antialias
        or exclude_outside
    ):
        raise UnsupportedOpError("mxnet: BilinearResize2D resizes the two axes of images linearly, corners aligned")
    return resized(x, height=sizes[0], width=sizes[1])
