"""Repeating, cropping, depth and space, sequences and ranges."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.scalars import scalar
from metaop.models.onnx.table import FOLD_BYTES, Call, Refused, direct, onnx_op

direct("SpaceToDepth", "space_to_depth", blocksize=0, mode="DCR")
direct("DepthToSpace", "depth_to_space", blocksize=0, mode="DCR")
direct("ReverseSequence", "reverse_sequence", since=10, batch_axis=1, time_axis=0)


@onnx_op("Tile", since=6)
def tile(call: Call) -> Any:
    return call.make("tile", call.input(0), repeats=call.static(1))


@onnx_op("CenterCropPad", since=18)
def center_crop_pad(call: Call) -> Any:
    axes = call.attr("axes", ()) if call.given("axes") else None
    return call.make("center_crop_pad", call.input(0), shape=call.static(1), axes=axes)


@onnx_op("Range", since=11)
def range_(call: Call) -> Any:
    if call.opset >= 27:
        call.only("stash_type", 1)
    start, limit, delta = (scalar(call, i, part) for i, part in enumerate(("start", "limit", "delta")))
    dtype = call.input(0).dtype
    if dtype is None or None in (limit, delta):
        raise Refused("its three inputs, and their dtype, must be known")
    if all(isinstance(v, int | float) for v in (start, limit, delta)) and delta:
        count = (limit - start) / delta
        if not count * dtype.itemsize <= FOLD_BYTES:
            raise Refused("it is too long")
    return call.make("range", start=start, limit=limit, delta=delta, dtype=dtype)
