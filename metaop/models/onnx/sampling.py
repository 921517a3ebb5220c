"""Sampling at given places.

Deformable convolution and the alignment of regions are samplings of an image followed by sums; most frameworks have no
operator for them, and they are written out that way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op

#: what the modes were called before opset 20
_OLD_MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


@onnx_op("GridSample", since=16)
def grid_sample(call: Call) -> Any:
    x, grid = call.input(0), call.input(1)
    mode = call.attr("mode", "linear" if call.opset >= 20 else "bilinear")
    if call.opset < 20:
        if mode not in _OLD_MODES:
            raise Refused(f"mode={mode!r} is unknown")
        mode = _OLD_MODES[mode]
    attrs = {"padding_mode": call.attr("padding_mode", "zeros"), "align_corners": call.flag("align_corners")}
    return call.make("grid_sample", x, grid, mode=mode, **attrs)


@onnx_op("AffineGrid", since=20)
def affine_grid(call: Call) -> Any:
    return call.make("affine_grid", call.input(0), size=call.static(1), align_corners=call.flag("align_corners"))


def _places(call: Call, rows: Any, columns: Any, height: int, width: int, part: str) -> Any:
    """A grid for ``grid_sample`` from coordinates counted in elements."""
    found = []
    for name, at, size in (("x", columns, width), ("y", rows, height)):
        scaled = call.part(f"{part}_{name}_scaled", "multiply", at, call.number(2 / size, at, "scale"))
        found.append(call.part(f"{part}_{name}", "add", scaled, call.number(1 / size - 1, at, "shift")))
    return call.part(part, "stack", *found, axis=3)


@onnx_op("DeformConv", since=19)
def deform_conv(call: Call) -> Any:
    x, w, offset = call.input(0), call.input(1), call.input(2)
    (batch, channels, height, width), (filters, _, *kernel) = call.shape(x), call.shape(w)
    group, shared = call.attr("group", 1), call.attr("offset_group", 1)
    strides, dilations = call.attr("strides", (1, 1)), call.attr("dilations", (1, 1))
    pads = call.attr("pads", (0, 0, 0, 0))
    if len(kernel) != 2 or call.attr("kernel_shape", tuple(kernel)) != tuple(kernel):
        raise Refused(f"only images are supported; got the kernel {w.type}")
    if min(group, shared) < 1 or channels % group or channels % shared or filters % group:
        raise Refused(f"{channels} and {filters} channels cannot be cut into {group} and {shared} groups")
    taps = kernel[0] * kernel[1]
    size = call.shape(offset)[2:]
    points = size[0] * size[1]
    moves = call.part("moves", "reshape", offset, shape=(batch, shared, taps, 2, points))
    masks = call.optional(4)
    if masks is not None:
        masks = call.part("masks", "reshape", masks, shape=(batch, shared, 1, taps, points))
    # Where each tap of each window lies before it is moved.
    grid = np.indices((*kernel, *size)).reshape(4, taps, points)
    bases = [grid[i] * dilations[i] + grid[i + 2] * strides[i] - pads[i] for i in range(2)]
    columns = []
    for part in range(shared):
        own = call.part("moves_of", "slice", moves, starts=(part,), ends=(part + 1,), axes=(1,))
        own = call.part("moves_here", "squeeze", own, axes=(1,))
        at = []
        for i in range(2):
            move = call.part(
                "move", "squeeze", call.part("along", "slice", own, starts=(i,), ends=(i + 1,), axes=(2,)), axes=(2,)
            )
            at.append(call.part("at", "add", move, call.value(bases[i].astype(x.dtype), "base")))
        places = _places(call, at[0], at[1], height, width, "places")
        many = channels // shared
        image = (
            x
            if shared == 1
            else call.part("image", "slice", x, starts=(part * many,), ends=((part + 1) * many,), axes=(1,))
        )
        seen = call.part("seen", "grid_sample", image, places, mode="linear", padding_mode="zeros", align_corners=False)
        if masks is not None:
            own = call.part("mask_of", "slice", masks, starts=(part,), ends=(part + 1,), axes=(1,))
            seen = call.part("masked", "multiply", seen, call.part("mask", "squeeze", own, axes=(1,)))
        columns.append(seen)
    joined = columns[0] if shared == 1 else call.part("columns", "concat", *columns, axis=1)
    inner = channels // group * taps
    joined = call.part("grouped", "reshape", joined, shape=(batch, group, inner, points))
    weights = call.part("weights", "reshape", w, shape=(group, filters // group, inner))
    product = call.part("product", "matmul", weights, joined)
    shape = (batch, filters, *size)
    if not call.has(3):
        return call.make("reshape", product, shape=shape)
    bias = call.part("bias", "reshape", call.input(3), shape=(filters, 1, 1))
    return call.make("add", call.part("image_of", "reshape", product, shape=shape), bias)


@onnx_op("RoiAlign", since=10)
def roi_align(call: Call) -> Any:
    x, rois, batches = call.input(0), call.input(1), call.input(2)
    call.only("mode", "avg")
    height, width = call.attr("output_height", 1), call.attr("output_width", 1)
    samples, scale = call.attr("sampling_ratio", 0), call.attr("spatial_scale", 1.0)
    half = call.opset >= 16 and call.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if samples < 1 or min(height, width) < 1:
        raise Refused("with sampling_ratio=0 the number of samples depends on the regions")
    count, sizes = call.shape(rois)[0], call.shape(x)[2:]
    scaled = call.part("scaled", "multiply", rois, call.number(scale, rois, "scale"))
    if half:
        scaled = call.part("moved", "subtract", scaled, call.number(0.5, rois, "half"))
    corners = call.part("corners", "split", scaled, axis=1, num_outputs=4)
    at = []
    for i, steps in ((1, height * samples), (0, width * samples)):
        span = call.part("span", "subtract", corners[i + 2], corners[i])
        if not half:
            span = call.part("at_least_one", "maximum", span, call.number(1.0, rois, "one"))
        fractions = call.value(((np.arange(steps) + 0.5) / steps).astype(x.dtype)[None], "fractions")
        at.append(call.part("at", "add", corners[i], call.part("along", "multiply", span, fractions)))
    shape = (count, height * samples, width * samples)
    rows = call.part("rows", "expand", call.part("column", "unsqueeze", at[0], axes=(2,)), shape=shape)
    columns = call.part("columns", "expand", call.part("row", "unsqueeze", at[1], axes=(1,)), shape=shape)
    images = call.part("images", "gather", x, batches, axis=0)
    places = _places(call, rows, columns, sizes[0], sizes[1], "places")
    seen = call.part("seen", "grid_sample", images, places, mode="linear", padding_mode="border", align_corners=False)
    near = _near(call, rows, columns, sizes)
    seen = call.part("inside", "where", near, seen, call.number(0.0, x, "zero"))
    return call.make("average_pool2d", seen, kernel_shape=(samples, samples), strides=(samples, samples))


def _near(call: Call, rows: Node, columns: Node, sizes: tuple[int, ...]) -> Any:
    """Which places lie at most one element outside the image; others count as zero."""
    checks = []
    for at, size in ((rows, sizes[0]), (columns, sizes[1])):
        checks.append(call.part("not_before", "greater_equal", at, call.number(-1.0, at, "low")))
        checks.append(call.part("not_behind", "less_equal", at, call.number(float(size), at, "high")))
    both = [call.part("within", "logical_and", *checks[i : i + 2]) for i in (0, 2)]
    return call.part("near", "unsqueeze", call.part("both", "logical_and", *both), axes=(1,))
