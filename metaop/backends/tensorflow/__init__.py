"""TensorFlow. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

import os
import sys


def _start():
    """Import TensorFlow and have it set itself up, without the notes that it writes to standard error meanwhile.

    It takes TF_CPP_MIN_LOG_LEVEL to heart only after having written some; whoever sets that variable sees them all.
    """
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow

        tensorflow.constant(0)
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


_start()

from metaop.backends.tensorflow import (  # noqa: E402, F401  each file fills the table of bindings
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
from metaop.backends.tensorflow.adapter import TensorflowBackend  # noqa: E402

BACKEND = TensorflowBackend
