"""MXNet. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.mxnet import (
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
    unpooling,
)
from metaop.backends.mxnet.adapter import MxnetBackend

__all__ = [
    "BACKEND",
    "activation",
    "attention",
    "contraction",
    "convolution",
    "elementwise",
    "logic",
    "loss",
    "movement",
    "normalization",
    "norms",
    "pooling",
    "recurrent",
    "reduction",
    "resizing",
    "sampling",
    "unpooling",
]

BACKEND = MxnetBackend
