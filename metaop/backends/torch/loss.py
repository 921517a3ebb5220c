"""PyTorch's losses."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import VERSION, bind

REDUCED = {"reduction": "reduction"}

bind.rename(
    {
        "mse": (F.mse_loss, REDUCED),
        "mae": (F.l1_loss, REDUCED),
        "binary_cross_entropy": (F.binary_cross_entropy, REDUCED),
        "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, REDUCED),
    }
)


def reduced(losses, reduction):
    if reduction == "mean":
        return torch.mean(losses)
    return torch.sum(losses) if reduction == "sum" else losses


@bind
def hinge(prediction, target, *, reduction):
    return reduced(torch.relu(1 - target * prediction), reduction)


@bind
def sparse_softmax_cross_entropy(prediction, target, *, reduction):
    return F.cross_entropy(prediction, target.long(), reduction=reduction, ignore_index=NO_LABEL)


# By default PyTorch ignores the label -100, which here is as wrong as any other negative one.
NO_LABEL = -(2**63)


@bind
def kl_div(prediction, target, *, reduction):
    # F.kl_div warns that its own mean is about to mean something else.
    return reduced(F.kl_div(prediction, target, reduction="none"), reduction)


@bind
def cosine_similarity(x, y, *, axis, epsilon):
    # F.cosine_similarity holds each length, not their product, against epsilon.
    lengths = torch.norm(x, dim=axis) * torch.norm(y, dim=axis)
    return torch.sum(x * y, dim=axis) / torch.clamp(lengths, min=epsilon)


if VERSION < (1, 8):
    bind.unsupported("categorical_cross_entropy", reason="PyTorch has torch.xlogy since 1.8")
else:

    @bind
    def categorical_cross_entropy(prediction, target, *, axis, reduction):
        return reduced(-torch.sum(torch.xlogy(target, prediction), dim=axis), reduction)


if VERSION < (1, 9):
    bind.unsupported("huber", reason="PyTorch has F.huber_loss since 1.9")
else:
    bind.rename({"huber": (F.huber_loss, {"delta": "delta", "reduction": "reduction"})})


if VERSION < (1, 10):
    bind.unsupported(
        "softmax_cross_entropy", reason="F.cross_entropy takes probabilities as targets since PyTorch 1.10"
    )
else:

    @bind
    def softmax_cross_entropy(prediction, target, *, axis, reduction):
        # The classes lie along axis 1, and along axis 0 of a vector.
        if prediction.dim() > 1:
            prediction, target = torch.movedim(prediction, axis, 1), torch.movedim(target, axis, 1)
        return F.cross_entropy(prediction, target, reduction=reduction)
