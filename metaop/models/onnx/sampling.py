"""Sampling at given places."""

from __future__ import annotations

from typing import Any

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
