"""PyTorch's remainders, and its exponentials of small numbers."""

import torch

from metaop.backends.torch.bindings import bind, where_kernels_exist

bind.rename({"log1p": torch.log1p, "expm1": torch.expm1})


@bind
@where_kernels_exist
def mod(x, y, *, fmod):
    return torch.fmod(x, y) if fmod else torch.remainder(x, y)
