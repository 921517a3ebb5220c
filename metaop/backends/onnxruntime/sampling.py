"""Sampling."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import OPSET, RUNTIME

if OPSET >= 20:

    @bind
    def grid_sample(o, x, grid, *, mode, padding_mode, align_corners):
        return o.GridSample(x, grid, mode=mode, padding_mode=padding_mode, align_corners=align_corners)

    @bind
    def affine_grid(o, theta, *, size, align_corners):
        return o.AffineGrid(theta, size, align_corners=align_corners)

else:
    bind.unsupported(
        "grid_sample",
        "affine_grid",
        reason="ONNX has them as they are today from opset 20 on, onnxruntime {}.{} knows less".format(*RUNTIME),
    )
