"""ONNX Runtime. Importing this imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.onnxruntime import (  # noqa: F401 - each fills the table of bindings
    activation,
    arrangement,
    contraction,
    convolution,
    elementwise,
    indexing,
    logic,
    loss,
    matrices,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    selection,
    shapes,
)
from metaop.backends.onnxruntime.adapter import OnnxRuntimeBackend

BACKEND = OnnxRuntimeBackend
