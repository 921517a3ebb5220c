"""PyTorch. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.torch import (
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
    unpooling,
)
from metaop.backends.torch.adapter import TorchBackend

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
    "shapes",
    "unpooling",
]

BACKEND = TorchBackend
