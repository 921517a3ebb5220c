"""Normalizations."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import OPSET, RUNTIME, node, tensor_dtype

bind.rename({"instance_norm": node("InstanceNormalization", epsilon="epsilon")})


def _stash_type(dtype):
    """The precision of the statistics: ONNX's default is float32, which would spoil float64."""
    return tensor_dtype("float64" if dtype == np.float64 else "float32")


@bind
def batch_norm(o, x, scale, bias, mean, var, *, epsilon, training):
    if training:
        # The kernel writes the running statistics over these two inputs, which are the caller's own memory; Identity
        # would only pass that memory on.
        mean, var = o.Mul(mean, 1.0), o.Mul(var, 1.0)
    # The momentum only shows in the running statistics, which are not part of the operator.
    outputs = o.BatchNormalization(
        x, scale, bias, mean, var, epsilon=epsilon, momentum=0.9, training_mode=training, outputs=3 if training else 1
    )
    return outputs[0]


@bind
def layer_norm(o, x, scale=None, bias=None, *, axis, epsilon):
    if scale is None:
        scale = o.constant(np.ones(x.shape[axis:]), x.dtype)
    return o.LayerNormalization(x, scale, bias, axis=axis, epsilon=epsilon, stash_type=_stash_type(x.dtype))


def group_norm(o, x, scale, bias, *, num_groups, epsilon):
    if 0 in x.shape:
        o.no_kernel("its GroupNormalization fails on empty tensors")
    return o.GroupNormalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon, stash_type=_stash_type(x.dtype))


if OPSET >= 21:
    bind(group_norm)
else:
    bind.unsupported(
        "group_norm", reason="ONNX scales by channel from opset 21 on, onnxruntime {}.{} knows less".format(*RUNTIME)
    )
