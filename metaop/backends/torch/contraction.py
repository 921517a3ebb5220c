"""PyTorch's products."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import bind

bind.rename({"matmul": torch.matmul, "embedding": F.embedding, "linear": F.linear})


@bind
def einsum(*inputs, equation):
    return torch.einsum(equation, *inputs)
