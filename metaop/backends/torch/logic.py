"""PyTorch's comparisons, logic and selection."""

import torch

from metaop.backends.torch.bindings import bind

bind.rename(
    {
        "where": torch.where,
        "equal": torch.eq,
        "not_equal": torch.ne,
        "greater": torch.gt,
        "greater_equal": torch.ge,
        "less": torch.lt,
        "less_equal": torch.le,
        "logical_and": torch.logical_and,
        "logical_or": torch.logical_or,
        "logical_xor": torch.logical_xor,
        "logical_not": torch.logical_not,
    }
)
