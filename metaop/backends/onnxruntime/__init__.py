"""ONNX Runtime. Importing this imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.onnxruntime import (  # noqa: F401 - each fills the table of bindings
    activation,
    attention,
    contraction,
    convolution,
    elementwise,
    logic,
    loss,
    movement,
    normalization,
    norms,
    pooling,
    recurrent,
    reduction,
    resizing,
    sampling,
    shapes,
    unpooling,
)
from metaop.backends.onnxruntime.adapter import OnnxRuntimeBackend

BACKEND = OnnxRuntimeBackend
