"""Convolution and pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.table import FOLD_BYTES, Call, Refused, direct, onnx_op

direct("GlobalAveragePool", "global_average_pool")
direct("GlobalMaxPool", "global_max_pool")
direct("GlobalLpPool", "global_lp_pool", p=2)


def _spatial(call: Call, x: Node) -> int:
    spatial = call.rank(x) - 2
    if not 1 <= spatial <= 3:
        raise Refused(f"1 to 3 spatial axes are supported; got {x.type}")
    return spatial


def _same(call: Call, x: Node, kernel: Any, strides: Any, dilations: Any, lower: bool) -> tuple[int, ...]:
    """The pads with which the output has ``ceil(size / stride)`` elements."""
    begins, ends = [], []
    for size, k, s, d in zip((x.shape or ())[2:], kernel, strides, dilations, strict=True):
        if size is None:
            raise Refused(f"auto_pad needs the sizes of {x.name!r} ({x.type})")
        if s < 1:
            raise Refused(f"strides {strides} must be positive")
        pad = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        begins.append(pad - pad // 2 if lower else pad // 2)
        ends.append(pad - begins[-1])
    return (*begins, *ends)


def _window(call: Call, x: Node, kernel: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Strides, dilations and pads, with ``auto_pad`` worked out."""
    spatial = len(kernel)
    strides = call.attr("strides", (1,) * spatial)
    dilations = call.attr("dilations", (1,) * spatial)
    if len(strides) != spatial or len(dilations) != spatial:
        raise Refused(f"strides {strides} and dilations {dilations} must have {spatial} numbers")
    auto = call.attr("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(call, x, kernel, strides, dilations, auto == "SAME_LOWER")
        call.attr("pads", ())
    elif auto == "VALID":
        pads = (0,) * (2 * spatial)
        call.attr("pads", ())
    elif auto == "NOTSET":
        pads = call.attr("pads", (0,) * (2 * spatial))
    else:
        raise Refused(f"auto_pad={auto!r} is unknown")
    return {"strides": strides, "dilations": dilations, "pads": pads}


def _kernel(call: Call, w: Node, spatial: int) -> tuple[int, ...]:
    found = call.shape(w)[2:]
    if len(found) != spatial or call.attr("kernel_shape", found) != found:
        raise Refused(f"the kernel {w.name!r} ({w.type}) does not fit the input or kernel_shape")
    return found


@onnx_op("Conv")
def conv(call: Call) -> Any:
    x, w = call.input(0), call.input(1)
    spatial = _spatial(call, x)
    window = _window(call, x, _kernel(call, w, spatial))
    tensors = [x, w] + ([call.input(2)] if call.has(2) else [])
    return call.make(f"conv{spatial}d", *tensors, group=call.attr("group", 1), **window)


@onnx_op("ConvTranspose")
def conv_transpose(call: Call) -> Any:
    x, w = call.input(0), call.input(1)
    spatial = _spatial(call, x)
    kernel = _kernel(call, w, spatial)
    strides, dilations = call.attr("strides", (1,) * spatial), call.attr("dilations", (1,) * spatial)
    extra = call.attr("output_padding", (0,) * spatial)
    auto = call.attr("auto_pad", "NOTSET")
    wanted = call.attr("output_shape", ())
    if not len(strides) == len(dilations) == len(extra) == spatial:
        raise Refused(f"strides, dilations and output_padding must have {spatial} numbers")
    pads = call.attr("pads", (0,) * (2 * spatial))
    if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
        sizes = call.shape(x)[2:]
        wanted = wanted[-spatial:] if wanted else tuple(n * s for n, s in zip(sizes, strides, strict=True))
        if len(wanted) != spatial:
            raise Refused(f"output_shape {wanted} must have {spatial} numbers")
        begins, ends = [], []
        for n, s, k, d, e, goal in zip(sizes, strides, kernel, dilations, extra, wanted, strict=True):
            total = s * (n - 1) + e + (k - 1) * d + 1 - goal
            if total < 0:
                raise Refused(f"output_shape {wanted} is larger than what the kernel reaches")
            begins.append(total // 2 if auto == "SAME_UPPER" else total - total // 2)
            ends.append(total - begins[-1])
        pads = (*begins, *ends)
    elif auto == "VALID":
        pads = (0,) * (2 * spatial)
    elif auto != "NOTSET":
        raise Refused(f"auto_pad={auto!r} is unknown")
    tensors = [x, w] + ([call.input(2)] if call.has(2) else [])
    attrs = {"strides": strides, "dilations": dilations, "pads": pads, "output_padding": extra}
    return call.make(f"conv_transpose{spatial}d", *tensors, group=call.attr("group", 1), **attrs)


def _pool(call: Call) -> tuple[Node, int, dict[str, Any]]:
    x = call.input(0)
    spatial = _spatial(call, x)
    kernel = call.attr("kernel_shape", ())
    if len(kernel) != spatial:
        raise Refused(f"kernel_shape {kernel} must have {spatial} numbers")
    ceil_mode = call.flag("ceil_mode")
    if ceil_mode and call.attr("auto_pad", "NOTSET") != "NOTSET":
        raise Refused("ceil_mode together with auto_pad is not defined")
    return x, spatial, {"kernel_shape": kernel, "ceil_mode": ceil_mode, **_window(call, x, kernel)}


@onnx_op("MaxPool")
def max_pool(call: Call) -> Any:
    by_column = call.flag("storage_order")
    x, spatial, attrs = _pool(call)
    if call.wants(1):
        y, places = call.make("max_pool_with_indices", x, **attrs)
        return y, _by_column(call, x, places) if by_column else places
    if x.dtype is not None and x.dtype.kind in "iu" and x.dtype.itemsize == 1:
        # Floating pooling of such small integers is exact.
        wide = call.part("wide", "cast", x, to=np.dtype("float32"))
        return call.make("cast", call.part("pooled", f"max_pool{spatial}d", wide, **attrs), to=x.dtype)
    return call.make(f"max_pool{spatial}d", x, **attrs)


def _by_column(call: Call, x: Node, places: Node) -> Any:
    """Positions counted with the first spatial axis as the fastest."""
    shape = call.shape(x)
    if math.prod(shape) * 8 > FOLD_BYTES:
        raise Refused(f"storage_order of so large a tensor ({x.type}) is not supported")
    reverse = (0, 1, *reversed(range(2, len(shape))))
    order = np.arange(math.prod(shape)).reshape([shape[i] for i in reverse]).transpose(reverse)
    return call.part("by_column", "gather", call.value(order.reshape(-1), "order"), places, axis=0)


@onnx_op("MaxUnpool")
def max_unpool(call: Call) -> Any:
    x, places = call.input(0), call.input(1)
    shape, spatial = call.shape(x), _spatial(call, x)
    kernel, strides = call.attr("kernel_shape", ()), call.attr("strides", (1,) * spatial)
    pads = call.attr("pads", (0,) * (2 * spatial))
    if not len(kernel) == len(strides) == len(pads) / 2 == spatial:
        raise Refused(f"kernel_shape, strides and pads must have one and two numbers for each of {spatial} axes")
    if any(s < k for s, k in zip(strides, kernel, strict=True)):
        raise Refused("where windows overlap, two maxima may come from one place")
    inner = [
        (n - 1) * s + k - a - b
        for n, s, k, a, b in zip(shape[2:], strides, kernel, pads[:spatial], pads[spatial:], strict=True)
    ]
    count = math.prod(shape)
    flat = [call.part(part, "reshape", node, shape=(count,)) for part, node in (("values", x), ("places", places))]
    spread = call.part("spread", "scatter_add", flat[1], flat[0], axis=0, size=math.prod(shape[:2]) * math.prod(inner))
    wanted = call.static(2, default=(*shape[:2], *inner))
    more = [a - b for a, b in zip(wanted, (*shape[:2], *inner), strict=True)]
    if not any(more):
        return call.make("reshape", spread, shape=wanted)
    if min(more) < 0 or any(more[:2]):
        raise Refused(f"output_shape {wanted} is smaller than what the pooling came from")
    image = call.part("image", "reshape", spread, shape=(*shape[:2], *inner))
    return call.make("pad", image, pads=(0,) * len(more) + tuple(more))


@onnx_op("Col2Im", since=18)
def col2im(call: Call) -> Any:
    attrs = {name: call.attr(name, ()) for name in ("strides", "pads", "dilations") if call.given(name)}
    return call.make("col2im", call.input(0), image_shape=call.static(1), block_shape=call.static(2), **attrs)


@onnx_op("AveragePool")
def average_pool(call: Call) -> Any:
    x, spatial, attrs = _pool(call)
    return call.make(f"average_pool{spatial}d", x, count_include_pad=call.flag("count_include_pad"), **attrs)


@onnx_op("LpPool")
def lp_pool(call: Call) -> Any:
    x, _, attrs = _pool(call)
    return call.make("lp_pool", x, p=call.attr("p", 2), **attrs)
