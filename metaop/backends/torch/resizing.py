"""PyTorch's ``interpolate``: of all spatial axes at once, by one of two ways to place the coordinates."""

import torch.nn.functional as F

from metaop.backends.resizing import changing, has_ties
from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

KINDS = {("linear", 1): "linear", ("linear", 2): "bilinear", ("linear", 3): "trilinear", ("cubic", 2): "bicubic"}


def refuse(why):
    raise UnsupportedOpError("torch: interpolate " + why)


def nearest_kind(place, rounding, sizes, new):
    if place == "asymmetric" and rounding == "floor":
        return "nearest"
    ties = new is None or has_ties(sizes, new)
    fits = rounding == "round_prefer_ceil" or (rounding == "round_prefer_floor" and not ties)
    if place == "half_pixel" and fits and VERSION >= (1, 11):
        return "nearest-exact"
    return refuse("takes the nearest element by other rules than {} and {}".format(place, rounding))


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
    rank, place = x.dim(), coordinate_transformation_mode
    order, sizes, scales, roi = changing(x.shape, sizes, scales, axes, roi)
    if order != list(range(2, rank)) or not 3 <= rank <= 5:
        refuse("resizes all of 1 to 3 axes after the first two, in order")
    if sizes is not None and scales is not None:
        refuse("takes either sizes or scales")
    old = x.shape[2:]
    # The new sizes, where the scales are nothing but their ratio to the old ones.
    exact = sizes if scales is None else [s * n for s, n in zip(scales, old)]
    exact = [int(n) for n in exact] if all(n == int(n) for n in exact) else None
    if place == "half_pixel_symmetric" and exact is not None:
        place = "half_pixel"
    if place == "pytorch_half_pixel" and exact is not None and 1 not in exact:
        place = "half_pixel"
    if place == "align_corners" and exact is None:
        refuse("aligns corners of whole sizes only")
    if mode == "nearest":
        kind = nearest_kind(place, nearest_mode, old, exact)
    else:
        kind = KINDS.get((mode, rank - 2)) or refuse("has no cubic interpolation of {} axes".format(rank - 2))
        if place not in ("half_pixel", "align_corners"):
            refuse("has no coordinates by {!r}".format(place))
        if (mode == "cubic" and cubic_coeff_a != (-0.5 if antialias else -0.75)) or exclude_outside != antialias:
            refuse("has the cubic coefficient -0.75, and -0.5 and nothing beyond the border with antialias")
        if antialias and (rank != 4 or place != "half_pixel"):
            refuse("has antialias for two axes that are not aligned at corners")
    if antialias and VERSION < (1, 11):
        refuse("has antialias from PyTorch 1.11 on")
    smooth = {"antialias": antialias} if VERSION >= (1, 11) else {}
    return F.interpolate(
        x,
        size=None if exact is None else tuple(exact),
        scale_factor=scales if exact is None else None,
        mode=kind,
        align_corners=None if mode == "nearest" else place == "align_corners",
        recompute_scale_factor=False if exact is None else None,
        **smooth,
    )
