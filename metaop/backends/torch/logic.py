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
        "is_nan": torch.isnan,
    }
)


@bind
def is_inf(x, *, detect_negative, detect_positive):
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if detect_negative or detect_positive:
        return torch.isneginf(x) if detect_negative else torch.isposinf(x)
    return torch.zeros_like(x, dtype=torch.bool)
