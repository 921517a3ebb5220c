"""JAX's resizing: ``jax.image.scale_and_translate`` for what is interpolated, ``jax.image.resize`` for what is not."""

import jax
import numpy as np

from metaop.backends.jax.bindings import bind
from metaop.backends.resizing import has_ties
from metaop.errors import UnsupportedOpError


def refuse(why):
    raise UnsupportedOpError("jax: " + why)


def scale_and_shift(old, new, scale, place, start, end):
    """How JAX puts it: the new elements lie at ``(i + 0.5 - shift) / scale - 0.5``."""
    width = scale * old
    if place == "half_pixel" or (place == "pytorch_half_pixel" and width != 1):
        return scale, 0.0
    if place == "half_pixel_symmetric":
        return scale, (new - width) / 2
    if place == "asymmetric":
        return scale, 0.5 - 0.5 * scale
    # The others say where the first and the last element lie; a single one may come with any scale.
    if place == "align_corners":
        first, last = 0.0, old - 1.0
    elif place == "pytorch_half_pixel":
        first = last = 0.0
    else:
        first, last = start * (old - 1), end * (old - 1)
        if width == 1:
            first = last = (first + last) / 2
    if width != 1 and first == last:
        refuse("scale_and_translate does not draw out a single element")
    scale = 1.0 if width == 1 else (width - 1) / (last - first)
    return scale, 0.5 - scale * (first + 0.5)


def method_of(mode, a, exclude_outside, antialias, shrinks):
    if mode == "linear":
        if antialias and shrinks and not exclude_outside:
            refuse("scale_and_translate leaves out what is beyond the border")
        return "linear"
    if a == -0.5 and exclude_outside:
        return "cubic"
    if a == -0.75 and not exclude_outside and not antialias and hasattr(jax.image.ResizeMethod, "CUBIC_PYTORCH"):
        return "cubic-pytorch"
    return refuse(
        "scale_and_translate has the cubic coefficient -0.5 and nothing beyond the border, or -0.75 and the border "
        "repeated, without antialias, in releases that know PyTorch's way"
    )


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
    place = coordinate_transformation_mode
    axes = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]
    old = [x.shape[axis] for axis in axes]
    new = [int(n * s) for n, s in zip(old, scales)] if sizes is None else list(sizes)
    scales = [n / o for n, o in zip(new, old)] if scales is None else list(scales)
    shape = list(x.shape)
    for axis, size in zip(axes, new):
        shape[axis] = size
    if mode == "nearest":
        whole = all(s * o == n for s, o, n in zip(scales, old, new))
        same = place == "half_pixel" or (place == "half_pixel_symmetric" and whole)
        fits = nearest_mode == "round_prefer_ceil" or (nearest_mode == "round_prefer_floor" and not has_ties(old, new))
        if not (same and whole and fits):
            refuse(
                "resize takes the element that holds the middle of a new one; got {}, {}".format(place, nearest_mode)
            )
        return jax.image.resize(x, shape, method="nearest", antialias=False)
    method = method_of(mode, cubic_coeff_a, exclude_outside, antialias, min(scales) < 1)
    region = (0.0,) * len(axes) + (1.0,) * len(axes) if roi is None else roi
    found = []
    for i in range(len(axes)):
        scale, shift = scale_and_shift(old[i], new[i], scales[i], place, region[i], region[i + len(axes)])
        origins = (np.arange(new[i]) + 0.5 - shift) / scale - 0.5
        far = 0.0 if roi is not None else 0.5
        if origins.min() < -far - 1e-9 or origins.max() > old[i] - 1 + far + 1e-9:
            refuse("scale_and_translate has zeros for what lies outside")
        if antialias and scale != scales[i]:
            refuse("scale_and_translate smooths by the scale that it places elements by")
        found.append((scale, shift))
    return jax.image.scale_and_translate(
        x,
        tuple(shape),
        tuple(axes),
        np.array([scale for scale, _ in found]),
        np.array([shift for _, shift in found]),
        method=method,
        antialias=antialias,
        precision=jax.lax.Precision.HIGHEST,
    )
