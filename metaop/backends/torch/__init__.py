"""PyTorch. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.torch import (
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
from metaop.backends.torch.adapter import TorchBackend

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
    "shapes",
]

BACKEND = TorchBackend
