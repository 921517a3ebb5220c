"""Further losses, from MXNet's primitives; of those of Gluon see ``loss.py``."""

import math

import mxnet as mx

from metaop.backends.mxnet.bindings import bind
from metaop.backends.mxnet.logic import where
from metaop.backends.mxnet.loss import reduced


@bind
def nll_loss(prediction, target, weight=None, *, ignore_index, reduction):
    kept = None
    if ignore_index is not None:
        kept = target != ignore_index
        target = where(kept, target, mx.np.zeros_like(target))
    losses = -mx.npx.pick(prediction, target, axis=1)
    each = mx.np.ones_like(losses) if weight is None else mx.np.take(weight, target, axis=0)
    if kept is not None:
        losses = where(kept, losses, mx.np.zeros_like(losses))
        each = where(kept, each, mx.np.zeros_like(each))
    losses = losses * each
    return mx.np.sum(losses) / mx.np.sum(each) if reduction == "mean" else reduced(losses, reduction)


@bind
def poisson_nll(prediction, target, *, log_input, full, epsilon, reduction):
    if log_input:
        losses = mx.np.exp(prediction) - target * prediction
    else:
        losses = prediction - target * mx.np.log(prediction + epsilon)
    if full:
        stirling = target * mx.np.log(target) - target + 0.5 * mx.np.log(2 * math.pi * target)
        losses = losses + where(target > 1, stirling, mx.np.zeros_like(stirling))
    return reduced(losses, reduction)


@bind
def gaussian_nll(prediction, target, var, *, full, epsilon, reduction):
    spread = mx.np.maximum(var, epsilon)
    losses = 0.5 * (mx.np.log(spread) + mx.np.square(prediction - target) / spread)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@bind
def smooth_l1(prediction, target, *, beta, reduction):
    # MXNet's is quadratic up to 1 / scalar**2, with slope 1 beyond.
    return reduced(mx.npx.smooth_l1(prediction - target, scalar=beta**-0.5), reduction)


@bind
def log_cosh(prediction, target, *, reduction):
    distance = prediction - target
    rest = mx.npx.activation(-2 * distance, act_type="softrelu")
    return reduced(distance + rest - math.log(2), reduction)


@bind
def margin_ranking(x1, x2, target, *, margin, reduction):
    return reduced(mx.npx.relu(margin - target * (x1 - x2)), reduction)


@bind
def triplet_margin(anchor, positive, negative, *, margin, p, epsilon, swap, reduction):
    def distance(x, y):
        return mx.np.sum(mx.np.abs(x - y + epsilon) ** p, axis=-1) ** (1 / p)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = mx.np.minimum(far, distance(positive, negative))
    return reduced(mx.npx.relu(margin + near - far), reduction)
