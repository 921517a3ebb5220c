"""ONNX Runtime. Importing this imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.onnxruntime import (  # noqa: F401 - each fills the table of bindings
    activation,
    arithmetic,
    arrangement,
    attention,
    bitwise,
    contraction,
    convolution,
    criteria,
    elementwise,
    indexing,
    logic,
    loss,
    matrices,
    movement,
    normalization,
    norms,
    pooling,
    quantization,
    rectifiers,
    recurrent,
    reduction,
    resizing,
    sampling,
    scaling,
    selection,
    shapes,
    signal,
    trigonometry,
    unpooling,
)
from metaop.backends.onnxruntime.adapter import OnnxRuntimeBackend

BACKEND = OnnxRuntimeBackend
