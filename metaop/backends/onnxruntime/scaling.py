"""Norms."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import RUNTIME, knows, node
from metaop.backends.onnxruntime.normalization import _stash_type
from metaop.backends.onnxruntime.windows import explicit

bind.rename(
    {
        "global_lp_pool": node("GlobalLpPool", p="p"),
        "lp_normalization": node("LpNormalization", axis="axis", p="p"),
    }
)


@bind
def lp_pool(o, x, *, kernel_shape, p, strides, pads, dilations, ceil_mode):
    return o.LpPool(
        x,
        auto_pad="NOTSET",
        kernel_shape=kernel_shape,
        p=p,
        ceil_mode=ceil_mode,
        **explicit(len(kernel_shape), strides, pads, dilations),
    )


@bind
def lrn(o, x, *, size, alpha, beta, bias):
    if x.rank != 4 or size % 2 == 0:
        o.no_kernel("its LRN is for images and odd sizes")
    return o.LRN(x, size=size, alpha=alpha, beta=beta, bias=bias)


def rms_norm(o, x, scale=None, *, axis, epsilon):
    o.since(23)
    if scale is None:
        scale = o.constant(np.ones(x.shape[axis:]), x.dtype)
    return o.RMSNormalization(x, scale, axis=axis, epsilon=epsilon, stash_type=_stash_type(x.dtype))


if knows(23):
    bind(rms_norm)
else:
    bind.unsupported("rms_norm", reason="ONNX has it from opset 23 on, onnxruntime {}.{} knows less".format(*RUNTIME))
