"""PyTorch's maxima with their positions, and its ``fold``."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import bind
from metaop.backends.torch.pooling import native
from metaop.errors import UnsupportedOpError

POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


@bind
def max_pool_with_indices(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    count = len(kernel_shape)
    pads = pads or (0,) * (2 * count)
    if not native(kernel_shape, pads):
        raise UnsupportedOpError("torch: pooling with indices pads both ends alike, by at most half a window")
    y, places = POOLS[count](
        x,
        kernel_shape,
        strides or (1,) * count,
        pads[:count],
        dilations or (1,) * count,
        ceil_mode,
        return_indices=True,
    )
    planes = x.shape[0] * x.shape[1]
    # Its positions are counted within each channel.
    first = torch.arange(planes, device=x.device) * (x[0, 0].numel() if planes else 0)
    return y, places + first.reshape(tuple(x.shape[:2]) + (1,) * count)


@bind
def col2im(x, *, image_shape, block_shape, strides, pads, dilations):
    if len(image_shape) != 2:
        raise UnsupportedOpError("torch: fold makes images of two axes only")
    pads = pads or (0,) * 4
    if pads[:2] != pads[2:]:
        raise UnsupportedOpError("torch: fold pads both ends alike")
    return F.fold(
        x,
        output_size=image_shape,
        kernel_size=block_shape,
        dilation=dilations or (1, 1),
        padding=pads[:2],
        stride=strides or (1, 1),
    )
