"""PyTorch's shapes."""

import torch

from metaop.backends.torch.bindings import bind


@bind
def shape_of(x, *, start, end):
    return torch.tensor(x.shape[start:end], dtype=torch.int64, device=x.device)


@bind
def size_of(x):
    return torch.tensor(x.numel(), dtype=torch.int64, device=x.device)
