"""Resizing."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import NoKernel


@bind
def resize(
    o,
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
    if sizes is not None and scales is not None:
        raise NoKernel("ONNX's Resize takes either sizes or scales")
    # Counted from the front: old releases die of negative ones.
    axes = tuple(range(x.rank)) if axes is None else tuple(axis % x.rank for axis in axes)
    broken = scales is not None and any(scale * x.shape[axis] % 1 for scale, axis in zip(scales, axes))
    if coordinate_transformation_mode == "align_corners" and broken:
        o.no_kernel("its Resize aligns the corners of whole sizes, not of what the scales come to")
    single = np.dtype(np.float32)
    return o.Resize(
        x,
        None if roi is None else o.constant(roi, x.dtype),
        None if scales is None else o.constant(scales, single),
        sizes,
        axes=axes,
        mode=mode,
        coordinate_transformation_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        antialias=antialias,
        extrapolation_value=extrapolation_value,
        keep_aspect_ratio_policy="stretch",
    )
