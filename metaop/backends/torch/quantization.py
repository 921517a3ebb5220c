"""Quantisation from PyTorch's own arithmetic.

Its quantised tensors and ``torch.fake_quantize`` are not used for single tensors: they multiply by the reciprocal of
the scale, which is another number near a tie, and keep scale and zero point as attributes of the tensor.
"""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.backends.torch.padding import torch_pads
from metaop.errors import UnsupportedOpError

DTYPES = {"int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16}
if VERSION >= (2, 3):
    DTYPES["uint16"] = torch.uint16


def spread(values, shape, axis, block_size):
    """One value for each element of ``shape``, by broadcasting."""
    if values.numel() == 1:
        return values.reshape(())
    if block_size:
        places = torch.arange(shape[axis], device=values.device) // block_size
        return torch.index_select(values, axis % len(shape), places)
    sizes = [1] * len(shape)
    sizes[axis] = -1
    return values.reshape(sizes)


@bind
def quantize_linear(x, scale, zero_point=None, *, axis, block_size, output_dtype):
    if zero_point is not None:
        dtype = zero_point.dtype
    elif output_dtype is None:
        dtype = torch.uint8
    else:
        dtype = DTYPES.get(output_dtype.name)
        if dtype is None:
            raise UnsupportedOpError("PyTorch has torch.uint16 since 2.3")
    # In double, where adding the zero point to a whole number of any floating dtype does not round.
    whole = torch.round(x / spread(scale, x.shape, axis, block_size)).double()
    if zero_point is not None:
        whole = whole + spread(zero_point.double(), x.shape, axis, block_size)
    limits = torch.iinfo(dtype)
    return torch.clamp(whole, limits.min, limits.max).to(dtype)


@bind
def dequantize_linear(x, scale, zero_point=None, *, axis, block_size):
    whole = x.int()
    if zero_point is not None:
        whole = whole - spread(zero_point.int(), x.shape, axis, block_size)
    return whole.to(scale.dtype) * spread(scale, x.shape, axis, block_size)


def shifted(values, zero_point):
    """In int32, less the zero point."""
    return values.int() if zero_point is None else values.int() - zero_point.int()


@bind
def matmul_integer(a, b, a_zero_point=None, b_zero_point=None):
    if a_zero_point is not None and a_zero_point.numel() > 1:
        a_zero_point = a_zero_point[:, None]
    return torch.matmul(shifted(a, a_zero_point), shifted(b, b_zero_point))


CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@bind
def conv_integer(x, w, x_zero_point=None, w_zero_point=None, *, strides, pads, dilations, group):
    spatial = w.dim() - 2
    if spatial not in CONVOLUTIONS:
        raise UnsupportedOpError("PyTorch convolves over 1 to 3 spatial axes; got {}".format(spatial))
    if dilations is not None and any(d > 1 for d in dilations):
        raise UnsupportedOpError("PyTorch has no integer kernel of dilated convolutions")
    if w_zero_point is not None and w_zero_point.numel() > 1:
        w_zero_point = w_zero_point.reshape((-1,) + (1,) * (spatial + 1))
    x, w = shifted(x, x_zero_point), shifted(w, w_zero_point)
    if pads is not None:
        x = F.pad(x, torch_pads(pads[:spatial], pads[spatial:]))
    ones = (1,) * spatial
    return CONVOLUTIONS[spatial](x, w, None, strides or ones, 0, dilations or ones, group)


bind.unsupported(
    "dynamic_quantize_linear",
    reason="its dynamic quantisation is part of its linear and recurrent layers, not an operator of its own",
)
bind.unsupported(
    "qlinear_matmul",
    reason="torch.ops.quantized.matmul takes scales as numbers beside quantised tensors, and one per tensor only",
)
bind.unsupported(
    "qlinear_conv",
    reason="torch.ops.quantized.conv2d wants weights packed beforehand for one engine, and signed ones",
)
