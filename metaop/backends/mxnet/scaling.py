"""MXNet's norms."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind, legacy
from metaop.errors import UnsupportedOpError

bind.unsupported("rms_norm", reason="it has no such operator")
bind.unsupported("lp_normalization", reason="its L2Normalization adds epsilon to the sum of squares")

normalised = legacy(mx.nd.LRN)


@bind
def lp_pool(x, *, kernel_shape, p, strides, pads, dilations, ceil_mode):
    if p != 2 or any(pads or ()) or any(d != 1 for d in dilations or ()) or ceil_mode:
        raise UnsupportedOpError("mxnet: Lp pooling is bound for p=2 without pads, dilations and ceil_mode")
    return mx.npx.pooling(
        x,
        kernel=kernel_shape,
        pool_type="lp",
        p_value=2,
        global_pool=False,
        pooling_convention="valid",
        stride=strides or (1,) * len(kernel_shape),
        pad=(0,) * len(kernel_shape),
    )


@bind
def global_lp_pool(x, *, p):
    if p != 2:
        raise UnsupportedOpError("mxnet: Lp pooling is bound for p=2")
    return mx.npx.pooling(x, kernel=(1,) * (len(x.shape) - 2), pool_type="lp", p_value=2, global_pool=True)


@bind
def lrn(x, *, size, alpha, beta, bias):
    if len(x.shape) != 4 or size % 2 == 0 or x.dtype != "float32":
        raise UnsupportedOpError("mxnet: LRN is for images of float32 and odd sizes")
    return normalised(x, alpha=alpha, beta=beta, knorm=bias, nsize=size)
