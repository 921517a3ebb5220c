"""PyTorch. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

from metaop.backends.torch import (
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
from metaop.backends.torch.adapter import TorchBackend

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
    "shapes",
    "signal",
]

BACKEND = TorchBackend
