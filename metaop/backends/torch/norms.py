"""PyTorch's norms, and its logarithms of sums."""

import torch

from metaop.backends.torch.bindings import VERSION, bind, where_kernels_exist


def every_axis(x, axes):
    return tuple(range(x.dim())) if axes is None else axes


def norm(x, order, axes, keepdims):
    # Without any axes PyTorch reduces all of them.
    if axes == ():
        return torch.abs(x)
    if VERSION >= (1, 9):
        return torch.linalg.vector_norm(x, order, every_axis(x, axes), keepdims)
    return torch.norm(x, order, every_axis(x, axes), keepdims)


@bind
@where_kernels_exist
def reduce_l1(x, *, axes, keepdims):
    if x.dtype.is_floating_point:
        return norm(x, 1, axes, keepdims)
    # Norms are of floating tensors only.
    x = torch.abs(x)
    return x if axes == () else torch.sum(x, every_axis(x, axes), keepdims, dtype=x.dtype)


@bind
def reduce_l2(x, *, axes, keepdims):
    return norm(x, 2, axes, keepdims)


@bind
@where_kernels_exist
def reduce_sum_square(x, *, axes, keepdims):
    x = torch.square(x)
    return x if axes == () else torch.sum(x, every_axis(x, axes), keepdims, dtype=x.dtype)


@bind
def reduce_log_sum(x, *, axes, keepdims):
    return torch.log(x if axes == () else torch.sum(x, every_axis(x, axes), keepdims))


@bind
def reduce_log_sum_exp(x, *, axes, keepdims):
    return x if axes == () else torch.logsumexp(x, every_axis(x, axes), keepdims)
