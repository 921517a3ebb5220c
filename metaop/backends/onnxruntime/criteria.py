"""Further losses. ONNX has an operator for the first; the others are composed."""

import math

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.loss import _reduced


@bind
def nll_loss(o, prediction, target, weight=None, *, ignore_index, reduction):
    return o.NegativeLogLikelihoodLoss(prediction, target, weight, ignore_index=ignore_index, reduction=reduction)


@bind
def poisson_nll(o, prediction, target, *, log_input, full, epsilon, reduction):
    if log_input:
        loss = o.Sub(o.Exp(prediction), o.Mul(target, prediction))
    else:
        loss = o.Sub(prediction, o.Mul(target, o.Log(o.Add(prediction, epsilon))))
    if full:
        turns = o.Mul(o.Log(o.Mul(target, 2 * math.pi)), 0.5)
        stirling = o.Add(o.Sub(o.Mul(target, o.Log(target)), target), turns)
        loss = o.Add(loss, o.Where(o.Greater(target, 1.0), stirling, 0.0))
    return _reduced(o, loss, reduction)


@bind
def gaussian_nll(o, prediction, target, var, *, full, epsilon, reduction):
    spread = o.Max(var, epsilon)
    d = o.Sub(prediction, target)
    loss = o.Mul(o.Add(o.Log(spread), o.Div(o.Mul(d, d), spread)), 0.5)
    return _reduced(o, o.Add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


@bind
def smooth_l1(o, prediction, target, *, beta, reduction):
    d = o.Abs(o.Sub(prediction, target))
    near = o.Div(o.Mul(d, d), 2 * beta)
    return _reduced(o, o.Where(o.Less(d, beta), near, o.Sub(d, 0.5 * beta)), reduction)


@bind
def log_cosh(o, prediction, target, *, reduction):
    d = o.Abs(o.Sub(prediction, target))
    return _reduced(o, o.Sub(o.Add(d, o.Log(o.Add(o.Exp(o.Mul(d, -2.0)), 1.0))), math.log(2)), reduction)


@bind
def margin_ranking(o, x1, x2, target, *, margin, reduction):
    return _reduced(o, o.Relu(o.Sub(margin, o.Mul(target, o.Sub(x1, x2)))), reduction)


@bind
def triplet_margin(o, anchor, positive, negative, *, margin, p, epsilon, swap, reduction):
    def distance(x, y):
        terms = o.Pow(o.Abs(o.Add(o.Sub(x, y), epsilon)), p)
        return o.Pow(o.ReduceSum(terms, (anchor.rank - 1,), keepdims=0, noop_with_empty_axes=0), 1 / p)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = o.Min(far, distance(positive, negative))
    return _reduced(o, o.Relu(o.Sub(o.Add(near, margin), far)), reduction)
