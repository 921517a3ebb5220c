"""Losses. ONNX has an operator for one of them; the others are composed."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind


def _reduced(o, loss, reduction):
    if reduction == "none":
        return loss
    return o.node(
        {"mean": "ReduceMean", "sum": "ReduceSum"}[reduction], (loss,), {"keepdims": 0, "noop_with_empty_axes": 0}
    )


def _sum(o, x, axis):
    """The sum along one axis, which is counted from the front: a negative one is overlooked in empty tensors."""
    return o.ReduceSum(x, (axis,), keepdims=0, noop_with_empty_axes=0)


def _times_log(o, factor, logarithm):
    """The product, with 0 * log 0 = 0."""
    vanishes = o.And(o.Equal(factor, 0.0), o.Equal(logarithm, -np.inf))
    return o.Where(vanishes, 0.0, o.Mul(factor, logarithm))


@bind
def mse(o, prediction, target, *, reduction):
    d = o.Sub(prediction, target)
    return _reduced(o, o.Mul(d, d), reduction)


@bind
def mae(o, prediction, target, *, reduction):
    return _reduced(o, o.Abs(o.Sub(prediction, target)), reduction)


@bind
def huber(o, prediction, target, *, delta, reduction):
    d = o.Abs(o.Sub(prediction, target))
    near = o.Mul(o.Mul(d, d), 0.5)
    far = o.Mul(o.Sub(d, 0.5 * delta), delta)
    return _reduced(o, o.Where(o.LessOrEqual(d, delta), near, far), reduction)


@bind
def hinge(o, prediction, target, *, reduction):
    return _reduced(o, o.Relu(o.Sub(1.0, o.Mul(target, prediction))), reduction)


@bind
def binary_cross_entropy(o, prediction, target, *, reduction):
    yes = _times_log(o, target, o.Log(prediction))
    no = _times_log(o, o.Sub(1.0, target), o.Log(o.Sub(1.0, prediction)))
    return _reduced(o, o.Neg(o.Add(yes, no)), reduction)


@bind
def binary_cross_entropy_with_logits(o, prediction, target, *, reduction):
    yes = o.Mul(target, o.Softplus(o.Neg(prediction)))
    no = o.Mul(o.Sub(1.0, target), o.Softplus(prediction))
    return _reduced(o, o.Add(yes, no), reduction)


@bind
def categorical_cross_entropy(o, prediction, target, *, axis, reduction):
    terms = _times_log(o, target, o.Log(prediction))
    return _reduced(o, o.Neg(_sum(o, terms, axis % prediction.rank)), reduction)


@bind
def softmax_cross_entropy(o, prediction, target, *, axis, reduction):
    terms = _times_log(o, target, o.LogSoftmax(prediction, axis=axis))
    return _reduced(o, o.Neg(_sum(o, terms, axis % prediction.rank)), reduction)


@bind
def sparse_softmax_cross_entropy(o, prediction, target, *, reduction):
    return o.SoftmaxCrossEntropyLoss(prediction, target, reduction=reduction)


@bind
def kl_div(o, prediction, target, *, reduction):
    terms = o.Sub(_times_log(o, target, o.Log(target)), _times_log(o, target, prediction))
    return _reduced(o, terms, reduction)


@bind
def cosine_similarity(o, x, y, *, axis, epsilon):
    axis %= x.rank
    lengths = [o.ReduceL2(v, (axis,), keepdims=0, noop_with_empty_axes=0) for v in (x, y)]
    return o.Div(_sum(o, o.Mul(x, y), axis), o.Max(o.Mul(*lengths), epsilon))
