"""Convolution, pooling and resizing of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metaop.graph.known import Known
from metaop.graph.nodes import Node
from metaop.models.tensorflow.table import Call, First, Refused, tf_op

Ints = tuple[int, ...]


def image(call: Call, index: int) -> tuple[Node, Callable[[Node], Any]]:
    """An image with channels first, and what the result is to be wrapped in."""
    if channels_last(call):
        return call.first(index), First
    return call.input(index), lambda node: node


def channels_last(call: Call) -> bool:
    """Whether the operator has channels last."""
    layout = call.attr("data_format")
    if layout not in ("NHWC", "NDHWC", "NCHW", "NCDHW"):
        raise Refused(f"data_format={layout!r} is not supported")
    return bool(layout[-1] == "C")


def _spatial(call: Call, name: str, last: bool) -> Ints:
    """The spatial numbers of an attribute that has one for each axis."""
    found = tuple(call.attr(name))
    inner, others = (found[1:-1], found[:1] + found[-1:]) if last else (found[2:], found[:2])
    if others != (1, 1):
        raise Refused(f"{name}={found} of batch or channels is not supported")
    return inner


def _pads(call: Call, x: Node, kernel: Ints, strides: Ints, dilations: Ints, last: bool) -> Any:
    """What is added around the image: numbers, or a node where 'SAME' depends on sizes that come with the data."""
    padding = call.attr("padding")
    spatial = len(kernel)
    explicit: Sequence[int] = ()
    if any(a.name == "explicit_paddings" for a in call.op.op_def.attr):
        explicit = call.attr("explicit_paddings")
    if padding == "VALID":
        return (0,) * (2 * spatial)
    if padding == "EXPLICIT":
        pairs = np.reshape(np.array(explicit, np.int64), (-1, 2))
        inner = pairs[1:-1] if last else pairs[2:]
        if pairs.sum() != inner.sum() or len(inner) != spatial:
            raise Refused(f"explicit_paddings {list(explicit)} of batch or channels are not supported")
        return tuple(int(p) for p in inner.T.reshape(-1))
    if padding != "SAME":
        raise Refused(f"padding={padding!r} is unknown")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = (x.shape or (None,) * (spatial + 2))[2:]
    if any(size is None and stride > 1 for size, stride in zip(sizes, strides, strict=True)):
        return _open_pads(call, x, reach, strides)
    totals = []
    for size, stride, extent in zip(sizes, strides, reach, strict=True):
        # With a stride of 1 the size does not matter.
        counted = extent if size is None else size
        totals.append(max((-(-counted // stride) - 1) * stride + extent - counted, 0))
    begins = [total // 2 for total in totals]
    return (*begins, *(total - begin for total, begin in zip(totals, begins, strict=True)))


def _open_pads(call: Call, x: Node, reach: list[int], strides: Ints) -> Node:
    """The same in meta operators, computed once the sizes are there."""
    step = call.data(np.array(strides), "strides")
    size = call.part("sizes", "shape_of", x, start=2)
    up = call.part("up", "add", size, call.data(np.array(strides) - 1, "strides_less_one"))
    before = call.part("before_last", "subtract", call.part("count", "trunc_div", up, step), call.data([1], "one"))
    starts = call.part("last_start", "multiply", before, step)
    end = call.part("end", "add", starts, call.data(np.array(reach), "reach"))
    total = call.part("total", "maximum", call.part("beyond", "subtract", end, size), call.data([0], "none"))
    begin = call.part("begin", "trunc_div", total, call.data([2], "two"))
    return call.part("pads", "concat", begin, call.part("rest", "subtract", total, begin), axis=0)


def _kernel_sizes(call: Call, index: int, spatial: int) -> Ints:
    sizes = call.sizes(index)
    if sizes is None or len(sizes) != spatial + 2 or None in sizes:
        raise Refused(f"the shape of the kernel must be known; got {sizes}")
    return tuple(s for s in sizes if s is not None)


@tf_op("Conv2D", "Conv3D")
def conv(call: Call) -> Any:
    spatial = int(call.op_type[4])
    last = channels_last(call)
    x, wrap = image(call, 0)
    *kernel, inner, features = _kernel_sizes(call, 1, spatial)
    strides, dilations = _spatial(call, "strides", last), _spatial(call, "dilations", last)
    pads = _pads(call, x, tuple(kernel), strides, dilations, last)
    channels = (x.shape or (None, None))[1]
    if channels is None or channels % inner or features % (channels // inner):
        raise Refused(f"the channels of the image must be known and fit the kernel; got {channels} and {inner}")
    w = call.part("kernel", "transpose", call.input(1), perm=(spatial + 1, spatial, *range(spatial)))
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": channels // inner}
    return wrap(call.make(f"conv{spatial}d", x, w, **attrs))


@tf_op("DepthwiseConv2dNative")
def depthwise_conv(call: Call) -> Any:
    last = channels_last(call)
    x, wrap = image(call, 0)
    height, width, channels, multiplier = _kernel_sizes(call, 1, 2)
    strides, dilations = _spatial(call, "strides", last), _spatial(call, "dilations", last)
    pads = _pads(call, x, (height, width), strides, dilations, last)
    w = call.part("kernel", "transpose", call.input(1), perm=(2, 3, 0, 1))
    if multiplier != 1:
        w = call.part("kernels", "reshape", w, shape=(channels * multiplier, 1, height, width))
    return wrap(call.make("depthwise_conv2d", x, w, strides=strides, pads=pads, dilations=dilations))


@tf_op("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def conv_transpose(call: Call) -> Any:
    spatial = int(call.op_type[4])
    last = channels_last(call)
    x, wrap = image(call, 2)
    *kernel, _, inner = _kernel_sizes(call, 1, spatial)
    strides, dilations = _spatial(call, "strides", last), _spatial(call, "dilations", last)
    if any(a.name == "explicit_paddings" for a in call.op.op_def.attr) and call.attr("explicit_paddings"):
        raise Refused("explicit paddings are not supported")
    padding = call.attr("padding")
    if padding not in ("SAME", "VALID"):
        raise Refused(f"padding={padding!r} is not supported")
    sizes, wanted = _sizes_of_transposed(call, x, strides, last)
    if (x.shape or ())[1] != inner:
        raise Refused("groups are not supported")
    begins, ends, extra = [], [], []
    for n, goal, k, s, d in zip(sizes, wanted, kernel, strides, dilations, strict=True):
        full = (n - 1) * s + (k - 1) * d + 1
        cut = max(full - goal, 0)
        if cut and padding == "VALID":
            raise Refused(f"the result of size {goal} does not fit {n} windows")
        begins.append(cut // 2)
        ends.append(cut - cut // 2)
        extra.append(max(goal - full, 0))
    w = call.part("kernel", "transpose", call.input(1), perm=(spatial + 1, spatial, *range(spatial)))
    attrs = {"strides": strides, "pads": (*begins, *ends), "output_padding": tuple(extra), "dilations": dilations}
    return wrap(call.make(f"conv_transpose{spatial}d", x, w, group=1, **attrs))


#: sizes to try where none is known
_TRIED = (5, 8, 13)


def _sizes_of_transposed(call: Call, x: Node, strides: Ints, last: bool) -> tuple[Ints, Ints]:
    """Sizes of the image and of the result. Where they are open, one pair of them stands for all.

    That is so where each unit of the image gives as many of the result as the stride says, whatever it starts with.
    """
    target, rank = call.input(0), call.rank(2)
    own, result = call.sizes(2) or (), call.out() or (None,) * call.rank(2)
    space = slice(1, -1) if last else slice(2, None)
    if None not in own[space] and None not in result[space]:
        return own[space], result[space]  # type: ignore[return-value]
    pairs = []
    for size in _TRIED:
        shape = tuple(size if s is None else s for s in own)
        found = Known(shapes={call.input(2): shape}).sizes(target)
        if found is None or len(found) != rank or None in found[space]:
            raise Refused(f"the sizes of the image and of the result must be known; got {own} and {result}")
        pairs.append((shape[space], found[space]))
    more = {tuple(b - a * s for a, b, s in zip(*pair, strides, strict=True)) for pair in pairs}  # type: ignore[operator]
    if len(more) > 1:
        raise Refused("the sizes of the result must be those of the image times the strides, and constants")
    return pairs[0]  # type: ignore[return-value]


@tf_op("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(call: Call) -> Any:
    last = channels_last(call)
    x, wrap = image(call, 0)
    kernel, strides = _spatial(call, "ksize", last), _spatial(call, "strides", last)
    pads = _pads(call, x, kernel, strides, (1,) * len(kernel), last)
    op = "max_pool" if call.op_type.startswith("Max") else "average_pool"
    return wrap(call.make(f"{op}{len(kernel)}d", x, kernel_shape=kernel, strides=strides, pads=pads))


@tf_op("BiasAdd")
def bias_add(call: Call) -> Any:
    if channels_last(call):
        return call.elementwise("add", 0, 1)
    bias = call.part("bias", "unsqueeze", call.input(1), axes=tuple(range(1, call.rank(0) - 1)))
    return call.make("add", call.input(0), bias)


# -- resizing ----------------------------------------------------------------------------------------------------------


def _places(call: Call, size: int, wanted: int) -> np.ndarray:
    """Where in the input each element of the output lies, with the rounding of TensorFlow's kernels."""
    align, half = call.attr("align_corners"), call.attr("half_pixel_centers")
    scale = np.float32((size - 1) / (wanted - 1)) if align and wanted > 1 else np.float32(size) / np.float32(wanted)
    steps = np.arange(wanted, dtype=np.float32)
    if not half:
        return steps * scale
    centre = (steps + np.float32(0.5)) * scale
    return centre if call.op_type == "ResizeNearestNeighbor" else centre - np.float32(0.5)


def _resized(call: Call) -> tuple[Node, list[tuple[int, np.ndarray]], Ints]:
    x, result = call.first(0), call.out()
    call.input(1)  # the sizes of the result, which TensorFlow has worked out
    sizes = (x.shape or (None,) * 4)[2:]
    if result is None or None in result[1:3] or None in sizes:
        raise Refused(f"the sizes of the image and of the result must be known; got {x.type} and {result}")
    pairs = [(int(a), int(b)) for a, b in zip(sizes, result[1:3], strict=True)]  # type: ignore[arg-type]
    if any(a < 1 or b < 1 for a, b in pairs):
        raise Refused("an image without elements cannot be resized")
    return x, [(axis, _places(call, *pair)) for axis, pair in enumerate(pairs, start=2)], tuple(a for a, _ in pairs)


@tf_op("ResizeNearestNeighbor")
def resize_nearest(call: Call) -> Any:
    x, places, sizes = _resized(call)
    align = call.attr("align_corners")
    for (axis, at), size, part in zip(places, sizes, ("rows", None), strict=True):
        # As C's roundf: halves away from zero.
        chosen = np.minimum(np.floor(at + np.float32(0.5)) if align else np.floor(at), size - 1).astype(np.int64)
        index = call.data(chosen, "row" if part else "column")
        x = call.part(part, "gather", x, index, axis=axis) if part else call.make("gather", x, index, axis=axis)
    return First(x)


@tf_op("ResizeBilinear")
def resize_bilinear(call: Call) -> Any:
    x, places, sizes = _resized(call)
    if call.dtype(0) != np.float32:
        raise Refused(f"images of {call.dtype(0).name} are not supported")
    for (axis, at), size, part in reversed(list(zip(places, sizes, ("rows", "columns"), strict=True))):
        below = np.floor(at)
        low = np.clip(below, 0, size - 1).astype(np.int64)
        high = np.clip(np.ceil(at), 0, size - 1).astype(np.int64)
        share = (at - below).reshape([-1] + [1] * (3 - axis))
        a = call.part(f"{part}_low", "gather", x, call.data(low, f"{part}_low_index"), axis=axis)
        b = call.part(f"{part}_high", "gather", x, call.data(high, f"{part}_high_index"), axis=axis)
        step = call.part(f"{part}_step", "subtract", b, a)
        moved = call.part(f"{part}_moved", "multiply", step, call.data(share, f"{part}_share"))
        x = call.make("add", a, moved) if part == "rows" else call.part(part, "add", a, moved)
    return First(x)


@tf_op("ResizeBicubic")
def resize_bicubic(call: Call) -> Any:
    x, result = call.first(0), call.out()
    call.input(1)  # the sizes of the result, which TensorFlow has worked out
    if call.attr("align_corners") or not call.attr("half_pixel_centers"):
        raise Refused("the cubic resizing of TensorFlow 1, without half pixels, is not supported")
    if result is None or None in result[1:3] or None in (x.shape or (None,) * 4)[2:]:
        raise Refused(f"the sizes of the image and of the result must be known; got {x.type} and {result}")
    attrs = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": True}
    return First(call.make("resize", x, axes=(2, 3), sizes=tuple(result[1:3]), **attrs))
