"""MXNet's losses.

Those of Gluon are not used: they average over all but the batch, halve squares, and add 1e-12 to probabilities.
"""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind
from metaop.backends.mxnet.logic import where


def reduced(losses, reduction):
    if reduction == "mean":
        return mx.np.mean(losses)
    return mx.np.sum(losses) if reduction == "sum" else losses


def times_log(weight, probability):
    """``weight * log(probability)``, with 0 * log 0 = 0: there, the logarithm of 1 is taken."""
    nothing = (weight == 0).astype(weight.dtype) * (probability == 0).astype(weight.dtype)
    return weight * mx.np.log(probability + nothing)


@bind
def mse(prediction, target, *, reduction):
    return reduced(mx.np.square(prediction - target), reduction)


@bind
def mae(prediction, target, *, reduction):
    return reduced(mx.np.abs(prediction - target), reduction)


@bind
def huber(prediction, target, *, delta, reduction):
    # smooth_l1 is quadratic up to 1 / scalar**2, and has slope 1 beyond.
    return reduced(delta * mx.npx.smooth_l1(prediction - target, scalar=delta**-0.5), reduction)


@bind
def hinge(prediction, target, *, reduction):
    return reduced(mx.npx.relu(1 - target * prediction), reduction)


@bind
def binary_cross_entropy(prediction, target, *, reduction):
    return reduced(-(times_log(target, prediction) + times_log(1 - target, 1 - prediction)), reduction)


@bind
def binary_cross_entropy_with_logits(prediction, target, *, reduction):
    rest = mx.npx.activation(-mx.np.abs(prediction), act_type="softrelu")
    return reduced(mx.npx.relu(prediction) - prediction * target + rest, reduction)


@bind
def categorical_cross_entropy(prediction, target, *, axis, reduction):
    return reduced(-mx.np.sum(times_log(target, prediction), axis=axis), reduction)


@bind
def softmax_cross_entropy(prediction, target, *, axis, reduction):
    return reduced(-mx.np.sum(mx.npx.log_softmax(prediction, axis=axis) * target, axis=axis), reduction)


@bind
def sparse_softmax_cross_entropy(prediction, target, *, reduction):
    return reduced(-mx.npx.pick(mx.npx.log_softmax(prediction, axis=1), target, axis=1), reduction)


@bind
def kl_div(prediction, target, *, reduction):
    # What a target of 0 is multiplied with may be infinite.
    prediction = where(target == 0, mx.np.zeros_like(prediction), prediction)
    return reduced(times_log(target, target) - target * prediction, reduction)


@bind
def cosine_similarity(x, y, *, axis, epsilon):
    lengths = mx.np.linalg.norm(x, axis=axis) * mx.np.linalg.norm(y, axis=axis)
    return mx.np.sum(x * y, axis=axis) / mx.np.maximum(lengths, epsilon)
