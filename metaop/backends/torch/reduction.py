"""PyTorch's reductions. PyTorch sums and multiplies small integers in int64 unless told to keep the dtype.

Arguments are given by position where they can be: PyTorch takes a tenth longer to read them by name.
"""

import torch

from metaop.backends.torch.bindings import bind, refuse_if_no_kernel, where_kernels_exist


def position(find, x, axis, keepdims, last):
    if not last:
        return find(x, axis, keepdims)
    # PyTorch has no way to ask for the last one.
    size = x.numel() if axis is None else x.shape[axis] if x.dim() else 1
    return size - 1 - find(torch.flip(x, tuple(range(x.dim())) if axis is None else (axis,)), axis, keepdims)


@bind
@where_kernels_exist
def argmax(x, *, axis, keepdims, select_last_index):
    return position(torch.argmax, x, axis, keepdims, select_last_index)


@bind
@where_kernels_exist
def argmin(x, *, axis, keepdims, select_last_index):
    return position(torch.argmin, x, axis, keepdims, select_last_index)


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
    try:
        return torch.amax(x, tuple(range(x.dim())) if axes is None else axes, keepdims)
    except (IndexError, RuntimeError) as error:
        refuse_if_no_kernel(error)
        raise


@bind
def reduce_min(x, *, axes, keepdims):
    if axes == ():
        return x
    try:
        return torch.amin(x, tuple(range(x.dim())) if axes is None else axes, keepdims)
    except (IndexError, RuntimeError) as error:
        refuse_if_no_kernel(error)
        raise


@bind
def reduce_prod(x, *, axes, keepdims):
    # torch.prod reduces one axis, or all of them.
    if axes is None and not keepdims:
        return torch.prod(x, dtype=x.dtype)
    for axis in sorted(range(x.dim()) if axes is None else (a % x.dim() for a in axes), reverse=True):
        x = torch.prod(x, axis, keepdims, dtype=x.dtype)
    return x


def scan(run, neutral, x, axis, exclusive, reverse):
    if reverse:
        x = torch.flip(x, (axis,))
    if exclusive:
        size = x.shape[axis]
        first = neutral(x.narrow(axis, 0, min(size, 1)))
        x = torch.cat((first, x.narrow(axis, 0, max(size - 1, 0))), dim=axis)
    y = run(x, axis, dtype=x.dtype)
    return torch.flip(y, (axis,)) if reverse else y


@bind
def cumsum(x, *, axis, exclusive, reverse):
    return scan(torch.cumsum, torch.zeros_like, x, axis, exclusive, reverse)


@bind
@where_kernels_exist
def cumprod(x, *, axis, exclusive, reverse):
    return scan(torch.cumprod, torch.ones_like, x, axis, exclusive, reverse)
