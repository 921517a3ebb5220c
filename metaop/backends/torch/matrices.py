"""PyTorch's matrices."""

import numpy as np
import torch

from metaop.backends.torch.bindings import bind


@bind
def trilu(x, *, k, upper):
    rows, columns = x.shape[-2:]
    # Beyond the corners nothing changes, but far beyond them PyTorch's numbers end.
    k = max(-rows - 1, min(k, columns + 1))
    return torch.triu(x, diagonal=k) if upper else torch.tril(x, diagonal=k)


@bind
def eye_like(x, *, k, dtype):
    rows, columns = x.shape
    k = max(-rows, min(k, columns))
    dtype = x.dtype if dtype is None else getattr(torch, np.dtype(dtype).name)
    # torch.eye has the main diagonal only: the k-th is that of a larger matrix, of which a part is taken.
    below, right = max(k, 0), max(-k, 0)
    larger = torch.eye(rows + below, columns + right, dtype=dtype, device=x.device)
    return larger[below:, right:].contiguous()


@bind
def det(x):
    return torch.linalg.det(x)
