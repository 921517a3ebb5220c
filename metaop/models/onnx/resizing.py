"""Resizing."""

from __future__ import annotations

from typing import Any

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op


def _numbers(call: Call, index: int) -> Any:
    """A list of numbers given as an input, or the node that computes it; ``None`` where it is left out or empty."""
    node = call.optional(index)
    if node is None or node.shape == (0,):
        return None
    if len(node.shape or ()) > 1:
        raise Refused(f"input {index} must be a list of numbers")
    value = call.converter.value(node)
    return node if value is None else tuple(float(v) for v in value.reshape(-1)) or None


def _resized(call: Call, x: Node, axes: tuple[int, ...], sizes: Any, scales: Any, **attrs: Any) -> Any:
    """The node, of the axes that really change: frameworks resize images, not batches and channels."""
    shape = x.shape or ()
    roi, count = attrs.pop("roi", None), len(axes)
    if any(isinstance(given, Node) for given in (sizes, scales, roi)):
        return call.make("resize", x, axes=axes, sizes=sizes, scales=scales, roi=roi, **attrs)

    def changes(i: int) -> bool:
        crops = roi is not None and (roi[i], roi[i + count]) != (0.0, 1.0)
        return crops or (scales is not None and scales[i] != 1.0) or (sizes is not None and sizes[i] != shape[axes[i]])

    kept = [i for i in range(count) if changes(i)]
    # The first two axes of an image stay, so that all others are resized: as frameworks do.
    if kept and len(shape) > 2 and min(axes[i] for i in kept) >= 2:
        kept = [i for i, axis in enumerate(axes) if axis >= 2]
    if not kept:
        return call.make("identity", x)
    kept.sort(key=lambda i: axes[i])
    return call.make(
        "resize",
        x,
        roi=None if roi is None else tuple(roi[i] for i in kept) + tuple(roi[i + count] for i in kept),
        axes=tuple(axes[i] for i in kept),
        sizes=None if sizes is None else tuple(sizes[i] for i in kept),
        scales=None if scales is None else tuple(scales[i] for i in kept),
        **attrs,
    )


def _proportional(call: Call, x: Node, axes: tuple[int, ...], sizes: tuple[int, ...], policy: str) -> tuple[Any, Any]:
    """Sizes and scales that keep the proportions."""
    shape = call.shape(x)
    ratios = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    new = tuple(int(scale * shape[axis] + 0.5) for axis in axes)
    if all(size == scale * shape[axis] for size, axis in zip(new, axes, strict=True)):
        return new, None
    scales = (scale,) * len(axes)
    return (None if new == tuple(int(scale * shape[axis]) for axis in axes) else new), scales


@onnx_op("Upsample", until=9)
def upsample(call: Call) -> Any:
    x, mode = call.input(0), call.attr("mode", "nearest")
    scales = call.attr("scales", ()) if call.opset < 9 else _numbers(call, 1)
    return _asymmetric(call, x, mode, scales)


@onnx_op("Resize", since=10, until=10)
def resize_10(call: Call) -> Any:
    return _asymmetric(call, call.input(0), call.attr("mode", "nearest"), _numbers(call, 1))


def _asymmetric(call: Call, x: Node, mode: str, scales: Any) -> Any:
    if mode not in ("nearest", "linear") or scales is None or call.length(scales, "scales") != call.rank(x):
        raise Refused(f"mode {mode!r} with scales {scales} makes no sense for {x.type}")
    attrs = {"mode": mode, "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return _resized(call, x, tuple(range(call.rank(x))), None, scales, **attrs)


@onnx_op("Resize", since=11)
def resize(call: Call) -> Any:
    x = call.input(0)
    rank = call.rank(x)
    attrs: dict[str, Any] = {
        "mode": call.attr("mode", "nearest"),
        "coordinate_transformation_mode": call.attr("coordinate_transformation_mode", "half_pixel"),
        "nearest_mode": call.attr("nearest_mode", "round_prefer_floor"),
        "cubic_coeff_a": call.attr("cubic_coeff_a", -0.75),
        "exclude_outside": call.flag("exclude_outside"),
        "extrapolation_value": call.attr("extrapolation_value", 0.0),
    }
    axes, policy = tuple(range(rank)), "stretch"
    if call.opset >= 18:
        attrs["antialias"] = call.flag("antialias")
        axes = tuple(call.axis(a, rank) for a in call.attr("axes", axes))
        policy = call.attr("keep_aspect_ratio_policy", policy)
    crops = attrs["coordinate_transformation_mode"] == "tf_crop_and_resize"
    roi = _numbers(call, 1) if crops else call.optional(1) and None
    scales = _numbers(call, 2)
    sizes = call.static(3, default=None)
    if (scales is None) == (sizes is None) or policy not in ("stretch", "not_larger", "not_smaller"):
        raise Refused("either scales or sizes must be given, and a known keep_aspect_ratio_policy")
    given = call.length(sizes if scales is None else scales, "sizes or scales")
    if given != len(axes) or (crops and (roi is None or call.length(roi, "numbers in roi") != 2 * len(axes))):
        raise Refused(f"scales, sizes and roi must fit the {len(axes)} axes")
    if sizes is not None and policy != "stretch":
        if isinstance(sizes, Node):
            raise Refused("sizes must be constants where proportions are to be kept")
        sizes, scales = _proportional(call, x, axes, sizes, policy)
    return _resized(call, x, axes, sizes, scales, roi=roi, **attrs)
