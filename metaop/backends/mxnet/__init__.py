"""MXNet. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.mxnet import (
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
)
from metaop.backends.mxnet.adapter import MxnetBackend

__all__ = [
    "BACKEND",
    "activation",
    "arrangement",
    "contraction",
    "convolution",
    "elementwise",
    "indexing",
    "logic",
    "loss",
    "matrices",
    "movement",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "selection",
]

BACKEND = MxnetBackend
