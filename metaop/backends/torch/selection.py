"""PyTorch's sorting and selecting."""

import torch

from metaop.backends.torch.bindings import VERSION, bind


@bind
def nonzero(x):
    return torch.nonzero(x, as_tuple=False).t()


@bind
def compress(x, condition, *, axis):
    if axis is None:
        x, axis = x.reshape(-1), 0
    return torch.index_select(x, axis, torch.nonzero(condition, as_tuple=False).reshape(-1))


if VERSION >= (1, 9):

    @bind
    def topk(x, *, k, axis, largest, sorted):
        # torch.topk leaves the order of equal elements open.
        values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
        return values.narrow(axis, 0, k), indices.narrow(axis, 0, k)

    @bind
    def unique(x, *, axis, sorted):
        y, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True, dim=axis)
        inverse = inverse.reshape(-1)
        # PyTorch does not say where each first occurs: after a stable sort, each group starts with that place.
        order = torch.sort(inverse, stable=True)[1]
        first = order[torch.cumsum(counts, 0) - counts]
        if not sorted:
            order = torch.argsort(first)
            rank = torch.empty_like(order)
            rank[order] = torch.arange(order.numel(), device=x.device)
            y, inverse = torch.index_select(y, axis or 0, order), rank[inverse]
            first, counts = first[order], counts[order]
        return y, first, inverse, counts

else:
    bind.unsupported("topk", "unique", reason="PyTorch sorts stably from 1.9 on, this is " + torch.__version__)

bind.unsupported("non_max_suppression", reason="PyTorch has none; it is in the package torchvision")
