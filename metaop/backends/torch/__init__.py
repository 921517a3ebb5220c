"""PyTorch. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.torch import (
    activation,
    arithmetic,
    arrangement,
    bitwise,
    contraction,
    convolution,
    elementwise,
    indexing,
    logic,
    loss,
    matrices,
    movement,
    normalization,
    norms,
    pooling,
    rectifiers,
    recurrent,
    reduction,
    selection,
    shapes,
    trigonometry,
)
from metaop.backends.torch.adapter import TorchBackend

__all__ = [
    "BACKEND",
    "activation",
    "arithmetic",
    "arrangement",
    "bitwise",
    "contraction",
    "convolution",
    "elementwise",
    "indexing",
    "logic",
    "loss",
    "matrices",
    "movement",
    "normalization",
    "norms",
    "pooling",
    "rectifiers",
    "recurrent",
    "reduction",
    "selection",
    "shapes",
    "trigonometry",
]

BACKEND = TorchBackend
