"""TensorFlow. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

import os

# Read when TensorFlow is imported, which the next lines do.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from metaop.backends.tensorflow import (  # noqa: F401  each file fills the table of bindings
    activation,
    contraction,
    convolution,
    elementwise,
    logic,
    loss,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
)
from metaop.backends.tensorflow.adapter import TensorflowBackend

BACKEND = TensorflowBackend
