"""PyTorch's repeating, cropping, shuffling and counting."""

import builtins

import numpy as np
import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.backends.torch.padding import torch_pads
from metaop.errors import UnsupportedOpError


@bind
def tile(x, *, repeats):
    # On a scalar torch.tile is the same as an identity.
    return torch.Tensor.repeat(x, *repeats) if repeats else x.clone()


@bind
def center_crop_pad(x, *, shape, axes):
    begins, ends = [0] * x.dim(), [0] * x.dim()
    for i, size in enumerate(shape):
        axis = i if axes is None else axes[i] % x.dim()
        more = size - x.shape[axis]
        # Rounded towards zero; negative pads cut off.
        begins[axis] = more // 2 if more > 0 else -(-more // 2)
        ends[axis] = more - begins[axis]
    return F.pad(x, torch_pads(begins, ends), mode="constant", value=0)


@bind
def depth_to_space(x, *, blocksize, mode):
    if mode == "DCR":
        n, c, h, w = x.shape
        square = blocksize * blocksize
        x = x.reshape(n, square, c // square, h, w).transpose(1, 2).reshape(n, c, h, w)
    return F.pixel_shuffle(x, blocksize)


if VERSION >= (1, 8):

    @bind
    def space_to_depth(x, *, blocksize, mode):
        if not x.numel():
            raise UnsupportedOpError("F.pixel_unshuffle leaves an empty tensor in the shape that it has")
        y = F.pixel_unshuffle(x, blocksize)
        if mode == "DCR":
            n, c, h, w = y.shape
            square = blocksize * blocksize
            y = y.reshape(n, c // square, square, h, w).transpose(1, 2).reshape(n, c, h, w)
        return y

else:
    bind.unsupported("space_to_depth", reason="PyTorch has pixel_unshuffle from 1.8 on, this is " + torch.__version__)


@bind
def reverse_sequence(x, sequence_lens, *, batch_axis, time_axis):
    batch_axis, time_axis = batch_axis % x.dim(), time_axis % x.dim()
    lengths = sequence_lens.long().reshape([-1 if i == batch_axis else 1 for i in builtins.range(x.dim())])
    steps = torch.arange(x.shape[time_axis], device=x.device)
    steps = steps.reshape([-1 if i == time_axis else 1 for i in builtins.range(x.dim())])
    # PyTorch reverses whole axes only; this is which element stands in each place.
    source = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return torch.gather(x, time_axis, source.expand(x.shape))


@bind
def range(*, start, limit, delta, dtype):
    # PyTorch refuses a step that leads away from the limit; there is nothing between them then.
    limit = limit if (limit - start) * delta > 0 else start
    return torch.arange(start, limit, delta, dtype=getattr(torch, np.dtype(dtype).name))
