"""What operators mean; one file per family. Knows no framework but NumPy."""

from metaop.ops import (
    activation,
    contraction,
    convolution,
    criteria,
    elementwise,
    logic,
    loss,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    shapes,
    signal,
)
from metaop.ops.spec import REGISTRY, MetaOp, Sample, meta_op

__all__ = [
    "REGISTRY",
    "MetaOp",
    "Sample",
    "activation",
    "contraction",
    "convolution",
    "criteria",
    "elementwise",
    "logic",
    "loss",
    "meta_op",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "shapes",
    "signal",
]
