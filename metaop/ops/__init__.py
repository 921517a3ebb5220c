"""What operators mean; one file per family. Knows no framework but NumPy."""

from metaop.ops import (
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
from metaop.ops.spec import REGISTRY, MetaOp, Sample, meta_op

__all__ = [
    "REGISTRY",
    "MetaOp",
    "Sample",
    "activation",
    "arrangement",
    "contraction",
    "convolution",
    "elementwise",
    "indexing",
    "logic",
    "loss",
    "matrices",
    "meta_op",
    "movement",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "selection",
    "shapes",
]
