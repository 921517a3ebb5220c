"""PyTorch's gathers and scatters."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

REDUCTIONS = {"mul": "prod", "max": "amax", "min": "amin"}


def from_the_front(indices, size):
    """PyTorch's gathers and scatters know no negative indices, and no int32."""
    return torch.where(indices < 0, indices + size, indices).long()


@bind
def gather_elements(x, indices, *, axis):
    return torch.gather(x, axis, from_the_front(indices, x.shape[axis]))


@bind
def gather_nd(x, indices, *, batch_dims):
    for axis in range(batch_dims):
        # One index more, that of the batch, in front of the others.
        sizes = [-1 if i == batch_dims - 1 - axis else 1 for i in range(indices.dim())]
        own = torch.arange(x.shape[batch_dims - 1 - axis], device=x.device, dtype=indices.dtype).reshape(sizes)
        indices = torch.cat([own.expand(tuple(indices.shape[:-1]) + (1,)), indices], dim=-1)
    return x[tuple(torch.unbind(indices.long(), dim=-1))]


@bind
def scatter_elements(x, indices, updates, *, axis, reduction):
    places = from_the_front(indices, x.shape[axis])
    if reduction == "none":
        return torch.scatter(x, axis, places, updates)
    if reduction == "add":
        return torch.scatter_add(x, axis, places, updates)
    if VERSION < (1, 12):
        raise UnsupportedOpError("PyTorch has scatter_reduce from 1.12 on, this is " + torch.__version__)
    return torch.scatter_reduce(x, axis, places, updates, reduce=REDUCTIONS[reduction], include_self=True)


@bind
def scatter_nd(x, indices, updates, *, reduction):
    if reduction in ("none", "add"):
        where = tuple(torch.unbind(indices.long(), dim=-1))
        return torch.index_put(x, where, updates, accumulate=reduction == "add")
    if VERSION < (1, 12):
        raise UnsupportedOpError("PyTorch has scatter_reduce from 1.12 on, this is " + torch.__version__)
    # What is indexed becomes one axis, and so do the slices.
    depth = indices.shape[-1]
    place = 0
    for axis in range(depth):
        place = place * x.shape[axis] + within(indices[..., axis], x.shape[axis])
    rows = 1
    for size in x.shape[:depth]:
        rows *= size
    flat = x.reshape(rows, -1) if x.numel() else x.reshape(rows, 0)
    values = updates.reshape(place.numel(), flat.shape[1])
    places = place.reshape(-1, 1).expand(values.shape)
    y = torch.scatter_reduce(flat, 0, places, values, reduce=REDUCTIONS[reduction], include_self=True)
    return y.reshape(x.shape)


def within(indices, size):
    """Indices from the front, which must be in range: several of them make one number, where it would not show."""
    found = from_the_front(indices, size)
    if found.numel() and (int(found.min()) < 0 or int(found.max()) >= size):
        raise IndexError("scatter_nd: an index is out of range for an axis of size {}".format(size))
    return found


@bind
def tensor_scatter(x, update, write_indices=None, *, axis, mode):
    axis = axis % x.dim()
    size, length = x.shape[axis], update.shape[axis]
    steps = torch.arange(length, device=x.device).reshape([-1 if i == axis else 1 for i in range(x.dim())])
    if write_indices is None:
        places = steps
    else:
        places = write_indices.long().reshape([-1] + [1] * (x.dim() - 1)) + steps
        if mode == "circular":
            places = torch.remainder(places, size)
    return torch.scatter(x, axis, places.expand(update.shape), update)


@bind
def one_hot(indices, values, *, depth, axis):
    places = from_the_front(indices, depth)
    # PyTorch takes no index out of range: one place more takes those up, and is cut off.
    places = torch.where((places < 0) | (places >= depth), torch.full_like(places, depth), places)
    hot = F.one_hot(places, num_classes=depth + 1)[..., :depth].bool()
    rank = hot.dim()
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    return torch.where(hot.permute(order), values[1], values[0])
