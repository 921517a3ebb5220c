"""What operators mean; one file per family. Knows no framework but NumPy."""

from metaop.ops import (
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
)
from metaop.ops.spec import REGISTRY, MetaOp, Sample, meta_op

__all__ = [
    "REGISTRY",
    "MetaOp",
    "Sample",
    "activation",
    "attention",
    "contraction",
    "convolution",
    "elementwise",
    "logic",
    "loss",
    "meta_op",
    "movement",
    "normalization",
    "norms",
    "pooling",
    "recurrent",
    "reduction",
    "resizing",
    "sampling",
    "shapes",
]
