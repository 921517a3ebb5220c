"""TensorFlow's resizing of images: two axes, to whole sizes, computed in float32."""

import tensorflow as tf

from metaop.backends.resizing import changing, has_ties
from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last
from metaop.errors import UnsupportedOpError

PLACES = {"half_pixel": (False, True), "align_corners": (True, False), "asymmetric": (False, False)}


def refuse(why):
    raise UnsupportedOpError("tensorflow: " + why)


def check_nearest(place, rounding, sizes, new):
    fits = {
        "asymmetric": rounding == "floor",
        "align_corners": rounding == "round_prefer_ceil",
        "half_pixel": rounding == "round_prefer_ceil"
        or (rounding == "round_prefer_floor" and not has_ties(sizes, new)),
    }
    if not fits[place]:
        refuse("it takes the nearest element by other rules than {} and {}".format(place, rounding))


def cropped(x, roi, new, mode, nearest_mode, extrapolation_value):
    if mode == "cubic" or (mode == "nearest" and nearest_mode != "round_prefer_ceil") or x.dtype == tf.float64:
        refuse("crop_and_resize is linear, or rounds half up, in float32")
    y = tf.image.crop_and_resize(
        channels_last(x),
        boxes=[list(roi)] * x.shape[0],
        box_indices=list(range(x.shape[0])),
        crop_size=new,
        method="bilinear" if mode == "linear" else "nearest",
        extrapolation_value=extrapolation_value,
    )
    return channels_first(tf.cast(y, x.dtype))


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
    rank, place = len(x.shape), coordinate_transformation_mode
    order, sizes, scales, roi = changing(x.shape, sizes, scales, axes, roi)
    if rank != 4 or order != [2, 3]:
        refuse("it resizes the two axes of images only")
    old = x.shape[2:]
    new = sizes if scales is None else [s * n for s, n in zip(scales, old)]
    if any(n != int(n) for n in new) or (sizes is not None and tuple(new) != tuple(sizes)):
        refuse("its resizing takes whole sizes, and no scales beside them")
    new = [int(n) for n in new]
    if place == "tf_crop_and_resize":
        return cropped(x, roi, new, mode, nearest_mode, extrapolation_value)
    if place == "half_pixel_symmetric" or (place == "pytorch_half_pixel" and 1 not in new):
        place = "half_pixel"
    if place not in PLACES or (place == "align_corners" and 1 in new):
        refuse("its resizing has no coordinates by {!r}".format(place))
    if x.dtype == tf.float64 and mode != "nearest":
        refuse("its resizing computes in float32")
    corners, centres = PLACES[place]
    given = {"images": channels_last(x), "size": new, "align_corners": corners, "half_pixel_centers": centres}
    if mode == "nearest":
        check_nearest(place, nearest_mode, old, new)
        return channels_first(tf.raw_ops.ResizeNearestNeighbor(**given))
    if antialias:
        if not (exclude_outside and place == "half_pixel" and (mode == "linear" or cubic_coeff_a == -0.5)):
            refuse("its antialias has half pixels, the cubic coefficient -0.5 and nothing beyond the border")
        method = "bilinear" if mode == "linear" else "bicubic"
        y = tf.image.resize(channels_last(x), new, method=method, antialias=True)
    elif mode == "linear":
        if exclude_outside:
            refuse("its linear resizing repeats the border")
        y = tf.raw_ops.ResizeBilinear(**given)
    else:
        if not (centres and exclude_outside and cubic_coeff_a == -0.5):
            refuse("its cubic resizing has half pixels, the coefficient -0.5 and nothing beyond the border")
        y = tf.raw_ops.ResizeBicubic(**given)
    return channels_first(tf.cast(y, x.dtype))
