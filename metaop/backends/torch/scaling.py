"""PyTorch's norms."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

LP_POOLS = {1: "lp_pool1d", 2: "lp_pool2d", 3: "lp_pool3d"}


@bind
def lp_pool(x, *, kernel_shape, p, strides, pads, dilations, ceil_mode):
    function = getattr(F, LP_POOLS[len(kernel_shape)], None)
    if function is None:
        raise UnsupportedOpError("torch {}: it has no lp_pool3d".format(torch.__version__))
    if p % 2:
        raise UnsupportedOpError("torch: its lp_pool sums odd powers with their sign")
    if any(pads or ()) or any(d != 1 for d in dilations or ()) or ceil_mode:
        raise UnsupportedOpError("torch: its lp_pool has no pads and no dilations, and miscounts the last window")
    strides = strides or (1,) * len(kernel_shape)
    if len(kernel_shape) == 1:
        (kernel_shape,), (strides,) = kernel_shape, strides
    return function(x, float(p), kernel_shape, stride=strides, ceil_mode=False)


@bind
def global_lp_pool(x, *, p):
    return torch.norm(x, p=p, dim=tuple(range(2, x.dim())), keepdim=True)


@bind
def lp_normalization(x, *, axis, p):
    return F.normalize(x, p=float(p), dim=axis, eps=torch.finfo(x.dtype).tiny)


if VERSION >= (2, 4):

    @bind
    def rms_norm(x, scale=None, *, axis, epsilon):
        return F.rms_norm(x, x.shape[axis:], weight=scale, eps=epsilon)

else:
    bind.unsupported("rms_norm", reason="PyTorch has it from 2.4 on")


@bind
def lrn(x, *, size, alpha, beta, bias):
    if size % 2 == 0:
        raise UnsupportedOpError("torch: of an even size, local_response_norm takes one channel more before than after")
    return F.local_response_norm(x, size, alpha=alpha, beta=beta, k=bias)
