"""Losses."""

from __future__ import annotations

from typing import Any

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op

_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


def _loss(aten: str, op: str) -> None:
    @aten_op(aten)
    def mapping(call: Call, self: Node, target: Node, reduction: int) -> Any:
        if call.sizes(self) != call.sizes(target):
            raise Refused("prediction and target must have one shape")
        return call.make(op, self, target, reduction=_REDUCTIONS[reduction])


_loss("mse_loss", "mse")
_loss("l1_loss", "mae")
_loss("binary_cross_entropy", "binary_cross_entropy")
_loss("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits")


@aten_op("huber_loss")
def huber_loss(call: Call, self: Node, target: Node, reduction: int, delta: float) -> Any:
    return call.make("huber", self, target, delta=delta, reduction=_REDUCTIONS[reduction])


@aten_op("cross_entropy_loss")
def cross_entropy_loss(call: Call, self: Node, target: Node, reduction: int, ignore_index: int) -> Any:
    if call.rank(self) < 2:
        raise Refused("a single example is not supported; give it a batch of size 1")
    if call.dtype_of(target).kind == "f":
        return call.make("softmax_cross_entropy", self, target, axis=1, reduction=_REDUCTIONS[reduction])
    # The meta operator takes labels of classes only: one to be ignored is an error when it is fed, never another loss.
    if ignore_index >= 0:
        raise Refused(f"ignore_index={ignore_index} is the label of a class")
    return call.make("sparse_softmax_cross_entropy", self, target, reduction=_REDUCTIONS[reduction])
