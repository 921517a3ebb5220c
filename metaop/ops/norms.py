"""Reductions of a function of each element: norms, sums of squares, logarithms of sums.

Axes and dtypes are as in ``reduction.py``. ``axes=()`` sums over nothing, so that the functions themselves are left:
``|x|``, ``x * x``, ``log(x)`` and ``x``.
"""

import numpy as np

from metaop.ops.domain import positive, reals
from metaop.ops.reduction import accumulator, reduction, reduction_samples, with_reduced_axes
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, NUMERIC, Ints


def _special(op):
    @op.samples
    def special_values(draw):
        yield draw(x=[[np.inf, -np.inf], [np.nan, 1.0], [np.inf, 1.0], [0.0, 0.0]], axes=(1,), special=True)


@meta_op(rule=reduction, dtypes=NUMERIC, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def reduce_l1(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The sum of ``|x|`` over ``axes``; integers wrap around."""
    return np.asarray(np.sum(np.abs(x), axis=axes, keepdims=keepdims, dtype=accumulator(x.dtype)), dtype=x.dtype)


@reduce_l1.vjp
def reduce_l1_vjp(m, g, y, x, *, axes, keepdims):
    return (m.multiply(with_reduced_axes(m, g, x, axes), m.sign(x)),)


reduction_samples(reduce_l1)
_special(reduce_l1)


@meta_op(rule=reduction, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def reduce_l2(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The square root of the sum of ``x * x`` over ``axes``. The gradient of a norm that is zero is zero."""
    wide = x.astype(accumulator(x.dtype), copy=False)
    return np.asarray(np.sqrt(np.sum(np.square(wide), axis=axes, keepdims=keepdims)), dtype=x.dtype)


@reduce_l2.vjp
def reduce_l2_vjp(m, g, y, x, *, axes, keepdims):
    norm = with_reduced_axes(m, y, x, axes)
    scaled = m.div(with_reduced_axes(m, g, x, axes), m.where(m.equal(norm, 0.0), 1.0, norm))
    return (m.multiply(scaled, x),)


reduction_samples(reduce_l2)
_special(reduce_l2)


@meta_op(rule=reduction, dtypes=NUMERIC)
@np.errstate(all="ignore")
def reduce_sum_square(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The sum of ``x * x`` over ``axes``; integers wrap around."""
    wide = x.astype(accumulator(x.dtype), copy=False)
    return np.asarray(np.sum(np.square(wide), axis=axes, keepdims=keepdims, dtype=wide.dtype), dtype=x.dtype)


@reduce_sum_square.vjp
def reduce_sum_square_vjp(m, g, y, x, *, axes, keepdims):
    return (m.multiply(with_reduced_axes(m, g, x, axes), m.multiply(x, 2.0)),)


reduction_samples(reduce_sum_square)
_special(reduce_sum_square)


@meta_op(rule=reduction, dtypes=FLOATING, domain={"x": positive()})
@np.errstate(all="ignore")
def reduce_log_sum(x, *, axes: Ints | None = None, keepdims: bool = False):
    """The natural logarithm of the sum over ``axes``; -Inf where there is nothing to sum."""
    total = np.sum(x, axis=axes, keepdims=keepdims, dtype=accumulator(x.dtype))
    return np.asarray(np.log(total), dtype=x.dtype)


@reduce_log_sum.vjp
def reduce_log_sum_vjp(m, g, y, x, *, axes, keepdims):
    total = m.reduce_sum(x, axes=axes, keepdims=True)
    return (m.expand(m.div(with_reduced_axes(m, g, x, axes), total), shape=m.shape(x)),)


reduction_samples(reduce_log_sum)
_special(reduce_log_sum)


@meta_op(rule=reduction, dtypes=FLOATING)
@np.errstate(all="ignore")
def reduce_log_sum_exp(x, *, axes: Ints | None = None, keepdims: bool = False):
    """``log(sum(exp(x)))`` over ``axes``, without overflow; -Inf where there is nothing to sum."""
    wide = x.astype(accumulator(x.dtype), copy=False)
    top = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    # An infinite maximum must not be subtracted from itself.
    shift = np.where(np.isfinite(top), top, 0)
    total = np.sum(np.exp(wide - shift), axis=axes, keepdims=keepdims)
    return np.asarray(np.log(total) + shift.reshape(total.shape), dtype=x.dtype)


@reduce_log_sum_exp.vjp
def reduce_log_sum_exp_vjp(m, g, y, x, *, axes, keepdims):
    share = m.exp(m.subtract(x, with_reduced_axes(m, y, x, axes)))
    return (m.multiply(with_reduced_axes(m, g, x, axes), share),)


reduction_samples(reduce_log_sum_exp)
_special(reduce_log_sum_exp)


@reduce_log_sum_exp.samples
def reduce_log_sum_exp_range(draw):
    yield draw(x=[[1000.0, 1000.5, -1000.0], [-1000.0, -1000.0, -1000.0]], axes=(1,))
    yield draw(x=[[-np.inf, 0.0], [-np.inf, -np.inf], [np.inf, np.nan]], axes=(1,), special=True)
