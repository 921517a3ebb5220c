"""PyTorch's reductions. PyTorch sums and multiplies small integers in int64 unless told to keep the dtype."""

import torch

from metaop.backends.torch.bindings import bind

POSITION = {"axis": "dim", "keepdims": "keepdim"}

bind.rename({"argmax": (torch.argmax, POSITION), "argmin": (torch.argmin, POSITION)})


@bind
def reduce_sum(x, *, axes, keepdims):
    return x if axes == () else torch.sum(x, dim=all_if_none(x, axes), keepdim=keepdims, dtype=x.dtype)


@bind
def reduce_mean(x, *, axes, keepdims):
    return x if axes == () else torch.mean(x, dim=all_if_none(x, axes), keepdim=keepdims)


@bind
def reduce_max(x, *, axes, keepdims):
    return x if axes == () else torch.amax(x, dim=all_if_none(x, axes), keepdim=keepdims)


@bind
def reduce_min(x, *, axes, keepdims):
    return x if axes == () else torch.amin(x, dim=all_if_none(x, axes), keepdim=keepdims)


@bind
def reduce_prod(x, *, axes, keepdims):
    # torch.prod reduces one axis, or all of them.
    if axes is None and not keepdims:
        return torch.prod(x, dtype=x.dtype)
    for axis in sorted((a % x.dim() for a in all_if_none(x, axes)), reverse=True):
        x = torch.prod(x, dim=axis, keepdim=keepdims, dtype=x.dtype)
    return x


@bind
def cumsum(x, *, axis, exclusive, reverse):
    if reverse:
        x = torch.flip(x, (axis,))
    if exclusive:
        size = x.shape[axis]
        first = torch.zeros_like(x.narrow(axis, 0, min(size, 1)))
        x = torch.cat((first, x.narrow(axis, 0, max(size - 1, 0))), dim=axis)
    y = torch.cumsum(x, dim=axis, dtype=x.dtype)
    return torch.flip(y, (axis,)) if reverse else y


def all_if_none(x, axes):
    return tuple(range(x.dim())) if axes is None else axes
