"""MXNet. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.mxnet import (
    activation,
    arithmetic,
    bitwise,
    contraction,
    convolution,
    elementwise,
    logic,
    loss,
    movement,
    normalization,
    norms,
    pooling,
    rectifiers,
    recurrent,
    reduction,
    trigonometry,
)
from metaop.backends.mxnet.adapter import MxnetBackend

__all__ = [
    "BACKEND",
    "activation",
    "arithmetic",
    "bitwise",
    "contraction",
    "convolution",
    "elementwise",
    "logic",
    "loss",
    "movement",
    "normalization",
    "norms",
    "pooling",
    "rectifiers",
    "recurrent",
    "reduction",
    "trigonometry",
]

BACKEND = MxnetBackend
