"""Normalisation."""

from __future__ import annotations

import functools
from typing import Any

from metaop.models.tensorflow.convolution import image
from metaop.models.tensorflow.table import Call, First, Refused, tf_op


@tf_op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(call: Call) -> Any:
    x, wrap = image(call, 0)
    epsilon, training = call.attr("epsilon"), call.attr("is_training")
    if call.attr("exponential_avg_factor") != 1.0 and training:
        raise Refused("a moving average of the statistics is not supported")
    scale, bias, mean, var = (call.input(i) for i in range(1, 5))
    if training and (mean.shape == (0,) or var.shape == (0,)):
        # The kernel takes no statistics then; the meta operator ignores those that it takes.
        mean, var = bias, scale
    return wrap(call.make("batch_norm", x, scale, bias, mean, var, epsilon=epsilon, training=training))


@tf_op("L2Loss")
def l2_loss(call: Call) -> Any:
    total = call.part("sum", "reduce_sum", call.part("square", "square", call.input(0)))
    return call.make("multiply", total, call.number(0.5, 0, "half"))


@tf_op("LRN")
def local_response_norm(call: Call) -> Any:
    x, radius = call.first(0), call.attr("depth_radius")
    channels = (x.shape or (None, None))[1]
    if channels is None or not 0 <= radius <= 32:
        raise Refused("the number of channels must be known, and depth_radius at most 32")
    pads = (0, radius, 0, 0, 0, radius, 0, 0)
    padded = call.part("pad", "pad", call.part("square", "square", x), pads=pads)
    starts = range(2 * radius + 1)
    windows = [call.part("window", "slice", padded, starts=(i,), ends=(i + channels,), axes=(1,)) for i in starts]
    total = functools.reduce(lambda a, b: call.part("sum", "add", a, b), windows)
    scaled = call.part("scaled", "multiply", total, call.number(call.attr("alpha"), 0, "alpha"))
    base = call.part("base", "add", scaled, call.number(call.attr("bias"), 0, "bias"))
    power = call.part("pow", "pow", base, call.number(call.attr("beta"), 0, "beta"))
    return First(call.make("div", x, power))
