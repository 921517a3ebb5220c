"""PyTorch's normalizations.

``F.batch_norm``, ``F.group_norm`` and ``F.instance_norm`` refuse to take statistics of a single value. The functions
that they call do not; those are called here.
"""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import bind


@bind
def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
    if training:
        return torch.batch_norm(x, scale, bias, None, None, True, 0.0, epsilon, torch.backends.cudnn.enabled)
    if not (mean.requires_grad or var.requires_grad):
        return torch.batch_norm(x, scale, bias, mean, var, False, 0.0, epsilon, torch.backends.cudnn.enabled)
    # To PyTorch these two are buffers and have no gradient: it comes from the same formula, written out.
    y = torch.batch_norm(x, scale, bias, mean.detach(), var.detach(), False, 0.0, epsilon, torch.backends.cudnn.enabled)
    shape = (-1,) + (1,) * (x.dim() - 2)
    centred = x.detach() - mean.reshape(shape)
    again = centred * (torch.rsqrt(var + epsilon) * scale.detach()).reshape(shape)
    return WithGradientOf.apply(y, again)


class WithGradientOf(torch.autograd.Function):
    """The value of the first tensor, and the gradients of both."""

    @staticmethod
    def forward(ctx, value, other):
        return value.view_as(value)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


@bind
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    return F.layer_norm(x, x.shape[axis:], scale, bias, epsilon)


@bind
def group_norm(x, scale, bias, *, num_groups, epsilon):
    return torch.group_norm(x, num_groups, scale, bias, epsilon, torch.backends.cudnn.enabled)


@bind
def instance_norm(x, scale, bias, *, epsilon):
    return torch.instance_norm(x, scale, bias, None, None, True, 0.0, epsilon, torch.backends.cudnn.enabled)
