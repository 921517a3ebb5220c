"""Norms, and logarithms of sums."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.reduction import reduce


@bind
def reduce_l1(o, x, *, axes, keepdims):
    return reduce(o, "ReduceL1", x, axes, keepdims)


@bind
def reduce_l2(o, x, *, axes, keepdims):
    return reduce(o, "ReduceL2", x, axes, keepdims)


@bind
def reduce_sum_square(o, x, *, axes, keepdims):
    return reduce(o, "ReduceSumSquare", x, axes, keepdims)


@bind
def reduce_log_sum(o, x, *, axes, keepdims):
    return reduce(o, "ReduceLogSum", x, axes, keepdims)


@bind
def reduce_log_sum_exp(o, x, *, axes, keepdims):
    return reduce(o, "ReduceLogSumExp", x, axes, keepdims)
