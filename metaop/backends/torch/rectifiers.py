"""PyTorch's further activations."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

bind.rename({"celu": (F.celu, {"alpha": "alpha"})})

if VERSION >= (1, 9):
    bind.rename({"mish": F.mish})
else:
    bind.unsupported("mish", reason="PyTorch has it from 1.9 on, this is " + torch.__version__)


@bind
def thresholded_relu(x, *, alpha):
    return F.threshold(x, alpha, 0.0)


@bind
def shrink(x, *, bias, lambd):
    if bias == 0.0:
        return F.hardshrink(x, lambd)
    if bias == lambd:
        return F.softshrink(x, lambd)
    raise UnsupportedOpError("torch: shrinks hard (bias=0) or soft (bias=lambd) only; got bias={}".format(bias))


@bind
def swiglu(gate, x, *, alpha):
    return (F.silu(gate) if alpha == 1.0 else gate * torch.sigmoid(alpha * gate)) * x
