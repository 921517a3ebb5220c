"""What several operators of TensorFlow mean together, where one by one they would lose digits or gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

__all__ = ["gelu_inputs", "is_stopped_mean"]


def gelu_inputs(ops: Iterable[tf.Operation]) -> tuple[dict[str, tf.Tensor], set[str]]:
    """From the last operator of each ``0.5 x erfc(-x / sqrt(2))`` to its ``x``; and all operators that only serve it.

    No meta operator has the accuracy of ``erfc`` in its tail, where ``1 - erf`` is 0; ``gelu`` has.
    """
    found: dict[str, tf.Tensor] = {}
    inner: set[str] = set()
    for erfc in ops:
        if erfc.type != "Erfc":
            continue
        last, scaled = _only_user(erfc), erfc.inputs[0].op
        turned = _factor(scaled, math.sqrt(0.5))
        if last is None or turned is None or turned.op.type != "Neg" or last.type != "Mul":
            continue
        x = turned.op.inputs[0]
        half = next((t for t in last.inputs if t.op.name != erfc.name), erfc.outputs[0])
        parts = [erfc, scaled, turned.op, half.op]
        if _factor(half.op, 0.5) is not x or any(_only_user(part) is None for part in parts):
            continue
        found[last.name] = x
        inner |= {part.name for part in parts}
    return found, inner


def _only_user(op: tf.Operation) -> tf.Operation | None:
    users = op.outputs[0].consumers()
    return users[0] if len(users) == 1 else None


def _factor(op: tf.Operation, number: float) -> tf.Tensor | None:
    """What is multiplied by that number."""
    if op.type != "Mul":
        return None
    for factor, other in (op.inputs, reversed(op.inputs)):
        value = tf.get_static_value(factor)
        if value is not None and value.shape == () and value == np.asarray(number, value.dtype):
            return other
    return None


def is_stopped_mean(stop: tf.Operation) -> bool:
    """Whether the gradient that is stopped is zero anyway.

    Variances are written ``mean((x - stop_gradient(mean(x))) ** 2)``. Along the axes of both means the deviations add
    up to nothing, and so does the gradient through the inner mean.
    """
    mean = stop.inputs[0].op
    if mean.type != "Mean" or not mean.get_attr("keep_dims"):
        return False
    x, axes = mean.inputs[0], _axes(mean)
    for user in stop.outputs[0].consumers():
        if user.type != "SquaredDifference" or x.name not in [t.name for t in user.inputs] or axes is None:
            return False
        if any(outer.type != "Mean" or _axes(outer) != axes for outer in user.outputs[0].consumers()):
            return False
    return True


def _axes(mean: tf.Operation) -> set[int] | None:
    value, rank = tf.get_static_value(mean.inputs[1]), mean.inputs[0].shape.rank
    return None if value is None or rank is None else {int(a) % rank for a in np.reshape(value, -1)}
