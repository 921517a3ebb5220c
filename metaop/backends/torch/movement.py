"""PyTorch's reshaping, joining, slicing and padding; results are views where PyTorch makes them so."""

import builtins

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import bind
from metaop.backends.torch.padding import torch_pads


@bind
def reshape(x, *, shape):
    return torch.reshape(x, shape)


@bind
def transpose(x, *, perm):
    return permute(x, tuple(range(x.dim()))[::-1] if perm is None else perm)


# Faster than the method, but there since 1.9 only.
permute = torch.permute if hasattr(torch, "permute") else torch.Tensor.permute


@bind
def concat(*inputs, axis):
    return torch.cat(inputs, dim=axis)


@bind
def stack(*inputs, axis):
    return torch.stack(inputs, dim=axis)


@bind
def split(x, *, axis, split, num_outputs):
    if split is None:
        size = x.shape[axis]
        chunk = -(-size // num_outputs)
        split = [max(0, min(chunk, size - i * chunk)) for i in range(num_outputs)]
    return torch.split(x, list(split), dim=axis)


@bind
def squeeze(x, *, axes):
    if axes is None:
        return torch.squeeze(x)
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = torch.squeeze(x, axis)
    return x


@bind
def unsqueeze(x, *, axes):
    rank = x.dim() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = torch.unsqueeze(x, axis)
    return x


@bind
def flatten(x, *, axis):
    outer = 1
    for size in x.shape[:axis]:
        outer *= size
    inner = 1
    for size in x.shape[axis:]:
        inner *= size
    return torch.reshape(x, (outer, inner))


@bind
def expand(x, *, shape):
    # Where the shape asked for has a 1, or is shorter, the tensor's own size stands (-1, to PyTorch).
    wanted = (1,) * (x.dim() - len(shape)) + tuple(shape)
    first = len(wanted) - x.dim()
    return x.expand([-1 if size == 1 and i >= first else size for i, size in enumerate(wanted)])


@bind
def slice(x, *, starts, ends, axes, steps):
    index = [builtins.slice(None)] * x.dim()
    backwards = []
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = i if axes is None else axes[i] % x.dim()
        step = 1 if steps is None else steps[i]
        size = x.shape[axis]
        start, end = (place + size if place < 0 else place for place in (start, end))
        if step < 0:
            # PyTorch steps forwards only: the same elements, seen from the other end.
            backwards.append(axis)
            start, end, step = min(size - 1 - start, size - 1), size - 1 - end, -step
        index[axis] = builtins.slice(max(start, 0), min(max(end, 0), size), step)
    return (torch.flip(x, backwards) if backwards else x)[tuple(index)]


@bind
def gather(x, indices, *, axis):
    return x[(builtins.slice(None),) * (axis % x.dim()) + (indices,)]


@bind
def scatter_add(indices, updates, *, axis, size):
    axis = axis % (updates.dim() - indices.dim() + 1)
    before, after = tuple(updates.shape[:axis]), tuple(updates.shape[axis + indices.dim() :])
    # index_add takes a vector of indices, and no negative ones.
    places = torch.where(indices < 0, indices + size, indices).reshape(-1)
    rows = updates.reshape(before + (places.numel(),) + after)
    return torch.index_add(updates.new_zeros(before + (size,) + after), axis, places, rows)


@bind
def pad(x, *, pads, mode, value):
    rank = x.dim()
    begins, ends = pads[:rank], pads[rank:]
    if mode == "constant":
        return F.pad(x, torch_pads(begins, ends), mode="constant", value=value)
    padded = [axis for axis in range(rank) if begins[axis] or ends[axis]]
    if not padded:
        return x
    first = padded[0]
    if rank - first <= 3 and x.is_floating_point() and x.numel():
        # PyTorch pads the last one, two or three axes of floating tensors that have two axes before them.
        batch = x.reshape((1, -1) + tuple(x.shape[first:]))
        y = F.pad(batch, torch_pads(begins[first:], ends[first:]), mode=MODES[mode])
        return y.reshape(tuple(x.shape[:first]) + tuple(y.shape[2:]))
    for axis in padded:
        last = x.shape[axis] - 1
        source = torch.arange(-begins[axis], last + 1 + ends[axis], device=x.device)
        source = torch.clamp(source, 0, last) if mode == "edge" else last - torch.abs(last - torch.abs(source))
        x = torch.index_select(x, axis, source)
    return x


MODES = {"reflect": "reflect", "edge": "replicate"}
