"""MXNet's normalizations."""

import mxnet as mx
from mxnet import autograd

from metaop.backends.mxnet.bindings import bind, legacy, product, refuse_empty


def along_channels(x, vector):
    return vector.reshape((-1,) + (1,) * (len(x.shape) - 2))


@bind
def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
    parameters = scale, bias, mean, var
    if x.dtype == "float16":
        # Which MXNet normalises with parameters of float32 only.
        scale, bias, mean, var = (t.astype("float32") for t in parameters)
    # The last two are overwritten with running statistics; hence copies.
    kept = mean.detach().copy(), var.detach().copy()
    with autograd.train_mode() if training else autograd.predict_mode():
        y = mx.npx.batch_norm(
            x,
            scale,
            bias,
            *kept,
            eps=epsilon,
            fix_gamma=False,
            use_global_stats=not training,
            output_mean_var=False,
            axis=1,
        )
    if training or not autograd.is_recording() or not x.size:
        return y
    scale, _, mean, var = parameters
    # To MXNet these two are states and have no gradient. What is added is zero, and brings the gradient.
    centred = x.detach() - along_channels(x, mean)
    again = centred * along_channels(x, rsqrt(var + epsilon) * scale.detach())
    return y + (again - again.detach())


rsqrt = legacy(mx.nd.rsqrt)


@bind
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    # LayerNorm normalises a single axis.
    axis = axis % len(x.shape)
    shape, kept, size = x.shape, x.shape[:axis], product(x.shape[axis:])
    scale = mx.np.ones((size,), dtype=x.dtype, ctx=x.ctx) if scale is None else scale.reshape((size,))
    bias = mx.np.zeros((size,), dtype=x.dtype, ctx=x.ctx) if bias is None else bias.reshape((size,))
    y = mx.npx.layer_norm(x.reshape(kept + (size,)), scale, bias, axis=-1, eps=epsilon)
    return y.reshape(shape)


group_normalised = legacy(mx.nd.GroupNorm)


@bind
def group_norm(x, scale, bias, *, num_groups, epsilon):
    # GroupNorm's own scale and bias are per group.
    ones = mx.np.ones((num_groups,), dtype=x.dtype, ctx=x.ctx)
    spatial = x if len(x.shape) > 2 else mx.np.expand_dims(x, 2)
    y = group_normalised(spatial, ones, mx.np.zeros_like(ones), num_groups=num_groups, eps=epsilon).reshape(x.shape)
    return y * along_channels(x, scale) + along_channels(x, bias)


instance_normalised = legacy(mx.nd.InstanceNorm)


@bind
def instance_norm(x, scale, bias, *, epsilon):
    refuse_empty("InstanceNorm", x)
    return instance_normalised(x, scale, bias, eps=epsilon)
