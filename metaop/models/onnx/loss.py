"""Losses."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.table import Call, onnx_op


def _reduction(call: Call) -> dict[str, Any]:
    ignored = call.attr("ignore_index", 0) if call.given("ignore_index") else None
    return {"reduction": call.attr("reduction", "mean"), "ignore_index": ignored}


@onnx_op("NegativeLogLikelihoodLoss", since=12)
def nll_loss(call: Call) -> Any:
    return call.make("nll_loss", call.input(0), call.input(1), call.optional(2), **_reduction(call))


@onnx_op("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(call: Call) -> Any:
    scores, target = call.input(0), call.input(1)
    log_p = call.part("log_prob", "log_softmax", scores, axis=1) if call.wants(1) else None
    if not call.has(2) and not call.given("ignore_index"):
        found = call.make("sparse_softmax_cross_entropy", scores, target, reduction=call.attr("reduction", "mean"))
    else:
        log_p = log_p if log_p is not None else call.part("log_prob", "log_softmax", scores, axis=1)
        found = call.make("nll_loss", log_p, target, call.optional(2), **_reduction(call))
    return (found, log_p) if log_p is not None else found
