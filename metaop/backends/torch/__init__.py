"""PyTorch. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.torch import (
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
    shapes,
    trigonometry,
)
from metaop.backends.torch.adapter import TorchBackend

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
    "shapes",
    "trigonometry",
]

BACKEND = TorchBackend
