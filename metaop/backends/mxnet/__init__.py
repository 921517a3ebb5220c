"""MXNet. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.mxnet import (
    activation,
    arithmetic,
    bitwise,
    contraction,
    convolution,
    criteria,
    elementwise,
    logic,
    loss,
    movement,
    normalization,
    norms,
    pooling,
    quantization,
    rectifiers,
    recurrent,
    reduction,
    signal,
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
    "criteria",
    "elementwise",
    "logic",
    "loss",
    "movement",
    "normalization",
    "norms",
    "pooling",
    "quantization",
    "rectifiers",
    "recurrent",
    "reduction",
    "signal",
    "trigonometry",
]

BACKEND = MxnetBackend
