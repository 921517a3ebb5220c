"""MXNet. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.mxnet import (
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
    signal,
)
from metaop.backends.mxnet.adapter import MxnetBackend

__all__ = [
    "BACKEND",
    "activation",
    "contraction",
    "convolution",
    "criteria",
    "elementwise",
    "logic",
    "loss",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "recurrent",
    "reduction",
    "signal",
]

BACKEND = MxnetBackend
