"""Losses."""

from __future__ import annotations

from typing import Any

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op


def _negative_log_likelihood(call: Call, log_p: Node, target: Node, weight: Node | None) -> Any:
    """``-weight[target] * log_p[target]`` along axis 1, without the targets that are to be ignored."""
    reduction = call.attr("reduction", "mean")
    if reduction not in ("mean", "sum", "none"):
        raise Refused(f"reduction={reduction!r} is unknown")
    rank = call.rank(log_p)
    classes = (log_p.shape or (None, None))[1] if rank > 1 else None
    if classes is None:
        raise Refused(f"the number of classes of {log_p.name!r} ({log_p.type}) must be known")
    zero = call.number(0.0, log_p, "zero")
    ones = call.part("ones", "expand", call.number(1.0, log_p, "one"), shape=(classes,)) if weight is None else weight
    valid = None
    if call.given("ignore_index"):
        ignored = call.number(call.attr("ignore_index", 0), target, "ignore_index")
        valid = call.part("valid", "not_equal", target, ignored)
        target = call.part("target", "where", valid, target, call.number(0, target, "class_0"))
    places = call.places(classes, target.dtype, (-1, *[1] * (rank - 2)), "classes")
    hit = call.part("hit", "equal", call.part("row", "unsqueeze", target, axes=(1,)), places)
    picked = call.part("picked", "reduce_sum", call.part("chosen", "where", hit, log_p, zero), axes=(1,))
    each = call.part("weights", "gather", ones, target)
    if valid is not None:
        each = call.part("valid_weights", "where", valid, each, zero)
    cost = call.part("cost", "multiply", call.part("minus", "negative", picked), each)
    if reduction == "none":
        return call.make("identity", cost)
    if reduction == "sum":
        return call.make("reduce_sum", cost)
    return call.make("div", call.part("sum", "reduce_sum", cost), call.part("total_weight", "reduce_sum", each))


@onnx_op("NegativeLogLikelihoodLoss", since=12)
def nll_loss(call: Call) -> Any:
    return _negative_log_likelihood(call, call.input(0), call.input(1), call.optional(2))


@onnx_op("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(call: Call) -> Any:
    scores, target = call.input(0), call.input(1)
    log_p = call.part("log_prob", "log_softmax", scores, axis=1) if call.wants(1) else None
    if not call.has(2) and not call.given("ignore_index"):
        found = call.make("sparse_softmax_cross_entropy", scores, target, reduction=call.attr("reduction", "mean"))
    else:
        log_p = log_p if log_p is not None else call.part("log_prob", "log_softmax", scores, axis=1)
        found = _negative_log_likelihood(call, log_p, target, call.optional(2))
    return (found, log_p) if log_p is not None else found
