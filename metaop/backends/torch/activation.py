"""PyTorch's activations."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

bind.rename(
    {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "softsign": F.softsign,
        "silu": F.silu,
        "hard_swish": F.hardswish,
        "elu": (F.elu, {"alpha": "alpha"}),
        "leaky_relu": (F.leaky_relu, {"alpha": "negative_slope"}),
    }
)


# PyTorch takes longer to read an argument by name than Python takes for these frames.
@bind
def softmax(x, *, axis):
    return torch.softmax(x, axis)


@bind
def log_softmax(x, *, axis):
    return torch.log_softmax(x, axis)


@bind
def hardmax(x, *, axis):
    if x.numel() == 0:
        return torch.zeros_like(x)
    return torch.zeros_like(x).scatter(axis, torch.argmax(x, axis, True), 1.0)


if VERSION >= (1, 12):
    bind.rename({"gelu": (F.gelu, {"approximate": "approximate"})})
else:

    @bind
    def gelu(x, *, approximate):
        if approximate != "none":
            raise UnsupportedOpError("torch: F.gelu has its attribute 'approximate' since PyTorch 1.12")
        return F.gelu(x)


@bind
def softplus(x):
    # Above its threshold PyTorch returns x itself: at the default of 20 that is off by 2e-9, which only float64 shows.
    return F.softplus(x, 1, 40) if x.dtype is torch.float64 else F.softplus(x)


@bind
def selu(x, *, alpha, gamma):
    # PyTorch's constants are these unrounded: the same in float32, not in float64.
    if alpha == 1.67326319217681884765625 and gamma == 1.05070102214813232421875 and x.dtype is not torch.float64:
        return torch.selu(x)
    # What torch.selu and F.elu both call.
    return torch._C._nn.elu(x, alpha, gamma)


@bind
def hard_sigmoid(x, *, alpha, beta):
    if alpha == 1 / 6 and beta == 0.5:
        return F.hardsigmoid(x)
    return F.hardtanh(x * alpha + beta, 0.0, 1.0)


@bind
def prelu(x, slope):
    # torch.prelu takes one slope, or one per channel (axis 1).
    if slope.numel() == 1:
        return torch.prelu(x, slope.reshape(1))
    rank = x.dim()
    axis = slope.dim() - rank + 1
    if rank > 1 and axis >= 0 and slope.shape[axis] == slope.numel() == x.shape[1]:
        return torch.prelu(x, slope.reshape(-1))
    return torch.where(x > 0, x, slope * x)


@bind
def dropout(x, mask=None, *, ratio, training):
    if not training:
        return x
    # Both leave nothing of what the mask hides, be it NaN; older releases know no numbers in where().
    kept = torch.where(mask, x, 0.0) if VERSION >= (2, 0) else torch.masked_fill(x, torch.logical_not(mask), 0.0)
    return kept / (1.0 - ratio)
