"""PyTorch's trigonometric and hyperbolic functions."""

import torch

from metaop.backends.torch.bindings import bind

bind.rename(
    {
        "tan": torch.tan,
        "asin": torch.asin,
        "acos": torch.acos,
        "atan": torch.atan,
        "sinh": torch.sinh,
        "cosh": torch.cosh,
        "asinh": torch.asinh,
        "acosh": torch.acosh,
        "atanh": torch.atanh,
    }
)
