"""PyTorch's sampling."""

import torch.nn.functional as F

from metaop.backends.torch.bindings import bind
from metaop.errors import UnsupportedOpError

MODES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


@bind
def grid_sample(x, grid, *, mode, padding_mode, align_corners):
    if mode == "cubic" and x.dim() == 5:
        raise UnsupportedOpError("torch: grid_sample has no cubic interpolation of volumes")
    return F.grid_sample(x, grid, mode=MODES[mode], padding_mode=padding_mode, align_corners=align_corners)


@bind
def affine_grid(theta, *, size, align_corners):
    return F.affine_grid(theta, list(size), align_corners=align_corners)
