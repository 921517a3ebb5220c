"""PyTorch's further losses."""

import math

import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind
from metaop.backends.torch.loss import NO_LABEL, reduced
from metaop.errors import UnsupportedOpError


@bind
def nll_loss(prediction, target, weight=None, *, ignore_index, reduction):
    if weight is not None and weight.requires_grad:
        raise UnsupportedOpError("PyTorch has no gradient of nll_loss in the weights of the classes")
    ignored = NO_LABEL if ignore_index is None else ignore_index
    return F.nll_loss(prediction, target.long(), weight=weight, ignore_index=ignored, reduction=reduction)


bind.rename(
    {
        "smooth_l1": (F.smooth_l1_loss, {"beta": "beta", "reduction": "reduction"}),
        "margin_ranking": (F.margin_ranking_loss, {"margin": "margin", "reduction": "reduction"}),
        "poisson_nll": (
            F.poisson_nll_loss,
            {"log_input": "log_input", "full": "full", "epsilon": "eps", "reduction": "reduction"},
        ),
        "triplet_margin": (
            F.triplet_margin_loss,
            {"margin": "margin", "p": "p", "epsilon": "eps", "swap": "swap", "reduction": "reduction"},
        ),
    }
)

if VERSION < (1, 8):
    bind.unsupported("gaussian_nll", reason="PyTorch has F.gaussian_nll_loss since 1.8")
else:
    bind.rename({"gaussian_nll": (F.gaussian_nll_loss, {"full": "full", "epsilon": "eps", "reduction": "reduction"})})


@bind
def log_cosh(prediction, target, *, reduction):
    distance = prediction - target
    return reduced(distance + F.softplus(-2 * distance) - math.log(2), reduction)
