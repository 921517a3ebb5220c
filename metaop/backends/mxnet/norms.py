"""MXNet's norms: sums, for its own ``norm`` takes two axes at most."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind
from metaop.backends.mxnet.reduction import counted_from_zero


def total(x, axes, keepdims):
    return mx.np.sum(x, axis=counted_from_zero(x, axes), keepdims=keepdims)


@bind
def reduce_l1(x, *, axes, keepdims):
    return total(mx.np.abs(x), axes, keepdims)


@bind
def reduce_l2(x, *, axes, keepdims):
    return mx.np.sqrt(total(mx.np.square(x), axes, keepdims))


@bind
def reduce_sum_square(x, *, axes, keepdims):
    return total(mx.np.square(x), axes, keepdims)


@bind
def reduce_log_sum(x, *, axes, keepdims):
    return mx.np.log(total(x, axes, keepdims))


bind.unsupported("reduce_log_sum_exp", reason="MXNet has no operator for it, and log(sum(exp(x))) overflows")
