"""PyTorch's reductions. PyTorch sums and multiplies small integers in int64 unless told to keep the dtype.

Arguments are given by position where they can be: PyTorch takes a tenth longer to read them by name.
"""

import torch

from metaop.backends.torch.bindings import bind

POSITION = {"axis": "dim", "keepdims": "keepdim"}

bind.rename({"argmax": (torch.argmax, POSITION), "argmin": (torch.argmin, POSITION)})


@bind
def reduce_sum(x, *, axes, keepdims):
    if axes == ():
        return x
    if axes is None:
        axes = tuple(range(x.dim()))
    if x.dtype.is_floating_point:
        return torch.sum(x, axes, keepdims)
    return torch.sum(x, axes, keepdims, dtype=x.dtype)


@bind
def reduce_mean(x, *, axes, keepdims):
    if axes == ():
        return x
    return torch.mean(x, tuple(range(x.dim())) if axes is None else axes, keepdims)


@bind
def reduce_max(x, *, axes, keepdims):
    if axes == ():
        return x
    return torch.amax(x, tuple(range(x.dim())) if axes is None else axes, keepdims)


@bind
def reduce_min(x, *, axes, keepdims):
    if axes == ():
        return x
    return torch.amin(x, tuple(range(x.dim())) if axes is None else axes, keepdims)


@bind
def reduce_prod(x, *, axes, keepdims):
    # torch.prod reduces one axis, or all of them.
    if axes is None and not keepdims:
        return torch.prod(x, dtype=x.dtype)
    for axis in sorted(range(x.dim()) if axes is None else (a % x.dim() for a in axes), reverse=True):
        x = torch.prod(x, axis, keepdims, dtype=x.dtype)
    return x


@bind
def cumsum(x, *, axis, exclusive, reverse):
    if reverse:
        x = torch.flip(x, (axis,))
    if exclusive:
        size = x.shape[axis]
        first = torch.zeros_like(x.narrow(axis, 0, min(size, 1)))
        x = torch.cat((first, x.narrow(axis, 0, max(size - 1, 0))), dim=axis)
    y = torch.cumsum(x, axis, dtype=x.dtype)
    return torch.flip(y, (axis,)) if reverse else y
