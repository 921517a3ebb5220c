"""Comparisons, logic on booleans, and the choice between two tensors."""

import numpy as np

from metaop.ops.domain import booleans
from metaop.ops.rules import broadcast_shapes, elementwise, elementwise_to
from metaop.ops.samples import SPECIAL, binary_samples, unary_samples
from metaop.ops.spec import meta_op
from metaop.types import ANY, BOOL, FLOATING, NUMERIC

_BOOLEAN = "its result is boolean, and changes in steps only"


def _where_rule(condition, x, y):
    return x.with_shape(broadcast_shapes([condition.shape, x.shape, y.shape]))


@meta_op(rule=_where_rule, dtypes=ANY, also={"condition": BOOL}, domain={"condition": booleans()})
def where(condition, x, y):
    """``x`` where ``condition`` holds, ``y`` elsewhere, all three broadcast; what is not chosen plays no part."""
    return np.where(condition, x, y)


@where.vjp
def where_vjp(m, g, out, condition, x, y):
    return None, m.sum_to(m.where(condition, g, 0.0), x), m.sum_to(m.where(condition, 0.0, g), y)


@where.samples
def where_samples(draw):
    yield draw(condition=(2, 3), x=(2, 3), y=(2, 3))
    yield draw(condition=(3,), x=(4, 1, 3), y=(5, 1))
    yield draw(condition=(4, 5, 3), x=(), y=(1, 3))
    yield draw(condition=(), x=(2, 3), y=(1, 3))
    yield draw(condition=(), x=(), y=())
    yield draw(condition=(0, 3), x=(1, 3), y=(3,))
    chosen = np.array([True, True, True, False, False, False])
    left = np.array([1.0, np.inf, -0.0, np.nan, np.inf, np.nan])
    yield draw(condition=chosen, x=left, y=left[::-1], special=True)


@where.rejects
def where_rejects(reject):
    yield reject(condition="float32[2]", x="float32[2]", y="float32[2]", message="'condition' takes bool")
    yield reject(condition="bool[2]", x="float32[2]", y="float64[2]", message="one dtype")
    yield reject(condition="bool[3]", x="float32[2]", y="float32[2]", message="do not broadcast")


# -- comparisons ------------------------------------------------------------------------------------------------------


def _comparison_samples(op):
    binary_samples(op)

    @op.samples
    def ties(draw):
        yield draw(x=np.array([-1.0, 0.0, 1.0, 1.0, 2.0]), y=np.array([-1.0, 0.0, 1.0, 2.0, 1.0]))


def _orders_no_booleans(op):
    @op.rejects
    def booleans_have_no_order(reject):
        yield reject(x="bool[2]", y="bool[2]", message="takes")


@meta_op(rule=elementwise_to("bool"), dtypes=ANY, nondifferentiable=_BOOLEAN)
def equal(x, y):
    """Whether ``x == y``, broadcast; NaN equals nothing, and -0 equals 0."""
    return np.equal(x, y)


_comparison_samples(equal)


@meta_op(rule=elementwise_to("bool"), dtypes=ANY, nondifferentiable=_BOOLEAN)
def not_equal(x, y):
    """Whether ``x != y``, broadcast; NaN differs from everything, and -0 equals 0."""
    return np.not_equal(x, y)


_comparison_samples(not_equal)


@meta_op(rule=elementwise_to("bool"), dtypes=NUMERIC, nondifferentiable=_BOOLEAN)
def greater(x, y):
    """Whether ``x > y``, broadcast; never with NaN."""
    return np.greater(x, y)


_comparison_samples(greater)
_orders_no_booleans(greater)


@meta_op(rule=elementwise_to("bool"), dtypes=NUMERIC, nondifferentiable=_BOOLEAN)
def greater_equal(x, y):
    """Whether ``x >= y``, broadcast; never with NaN."""
    return np.greater_equal(x, y)


_comparison_samples(greater_equal)
_orders_no_booleans(greater_equal)


@meta_op(rule=elementwise_to("bool"), dtypes=NUMERIC, nondifferentiable=_BOOLEAN)
def less(x, y):
    """Whether ``x < y``, broadcast; never with NaN."""
    return np.less(x, y)


_comparison_samples(less)
_orders_no_booleans(less)


@meta_op(rule=elementwise_to("bool"), dtypes=NUMERIC, nondifferentiable=_BOOLEAN)
def less_equal(x, y):
    """Whether ``x <= y``, broadcast; never with NaN."""
    return np.less_equal(x, y)


_comparison_samples(less_equal)
_orders_no_booleans(less_equal)

# -- classes of floating numbers --------------------------------------------------------------------------------------


@meta_op(rule=elementwise_to("bool"), dtypes=FLOATING, nondifferentiable=_BOOLEAN)
def is_nan(x):
    """Whether ``x`` is NaN."""
    return np.isnan(x)


unary_samples(is_nan)


@meta_op(rule=elementwise_to("bool"), dtypes=FLOATING, nondifferentiable=_BOOLEAN)
def is_inf(x, *, detect_negative: bool = True, detect_positive: bool = True):
    """Whether ``x`` is an infinity, of the signs that are to be detected."""
    return (np.isposinf(x) & detect_positive) | (np.isneginf(x) & detect_negative)


unary_samples(is_inf, detect_negative=False)


@is_inf.samples
def is_inf_samples(draw):
    yield draw(x=SPECIAL, detect_negative=False, special=True)
    yield draw(x=SPECIAL, detect_positive=False, special=True)
    yield draw(x=SPECIAL, detect_negative=False, detect_positive=False, special=True)


# -- booleans ---------------------------------------------------------------------------------------------------------


def _logical_samples(op):
    binary_samples(op, special=False)

    @op.samples
    def truth_table(draw):
        yield draw(x=np.array([False, False, True, True]), y=np.array([False, True, False, True]))

    @op.rejects
    def numbers_are_no_booleans(reject):
        yield reject(x="float32[2]", y="float32[2]", message="takes bool")


@meta_op(rule=elementwise, dtypes=BOOL, domain={"x": booleans(), "y": booleans()}, nondifferentiable=_BOOLEAN)
def logical_and(x, y):
    """Whether both ``x`` and ``y`` hold, broadcast."""
    return np.logical_and(x, y)


_logical_samples(logical_and)


@meta_op(rule=elementwise, dtypes=BOOL, domain={"x": booleans(), "y": booleans()}, nondifferentiable=_BOOLEAN)
def logical_or(x, y):
    """Whether ``x`` or ``y`` or both hold, broadcast."""
    return np.logical_or(x, y)


_logical_samples(logical_or)


@meta_op(rule=elementwise, dtypes=BOOL, domain={"x": booleans(), "y": booleans()}, nondifferentiable=_BOOLEAN)
def logical_xor(x, y):
    """Whether exactly one of ``x`` and ``y`` holds, broadcast."""
    return np.logical_xor(x, y)


_logical_samples(logical_xor)


@meta_op(rule=elementwise, dtypes=BOOL, domain={"x": booleans()}, nondifferentiable=_BOOLEAN)
def logical_not(x):
    """Whether ``x`` does not hold."""
    return np.logical_not(x)


@logical_not.samples
def logical_not_samples(draw):
    yield draw(x=(2, 3))
    yield draw(x=())
    yield draw(x=(0, 3))
    yield draw(x=np.array([False, True]))


@logical_not.rejects
def logical_not_rejects(reject):
    yield reject(x="float32[2]", message="takes bool")
