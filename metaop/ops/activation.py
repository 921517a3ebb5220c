"""Activations: floating dtypes only, and every result has the shape and dtype of ``x``.

References and gradient rules never form a difference of nearly equal numbers, so that tails keep their relative
accuracy: sigmoid(-30) is not zero, and neither is gelu(-6).
"""

import math
from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError, UsageError
from metaop.ops.domain import booleans, reals
from metaop.ops.rules import broadcast_shapes, elementwise, normalise_axis, unify_size
from metaop.ops.samples import SPECIAL, unary_samples
from metaop.ops.spec import meta_op
from metaop.types import BOOL, FLOATING

_TAILS = np.append(SPECIAL, [-30.0, -12.0, -6.0, 6.0, 12.0, 30.0, -1000.0, 1000.0])

# -- smooth -----------------------------------------------------------------------------------------------------------


def _sigmoid(x):
    # exp(-|x|) never overflows; which side of zero x lies on decides what it is put into.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def sigmoid(x):
    """``1 / (1 + exp(-x))``, accurate in both tails."""
    return _sigmoid(x)


@sigmoid.vjp
def sigmoid_vjp(m, g, y, x):
    return (m.multiply(g, m.multiply(y, m.sigmoid(m.negative(x)))),)


unary_samples(sigmoid, _TAILS)


@meta_op(rule=elementwise, dtypes=FLOATING)
def tanh(x):
    """The hyperbolic tangent of ``x``."""
    return np.tanh(x)


@tanh.vjp
def tanh_vjp(m, g, y, x):
    # 1 - tanh(x)**2, without the difference.
    twice = m.multiply(x, 2.0)
    return (m.multiply(g, m.multiply(m.multiply(m.sigmoid(twice), m.sigmoid(m.negative(twice))), 4.0)),)


unary_samples(tanh, _TAILS)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def softplus(x):
    """``log(1 + exp(x))``, without overflow and accurate in both tails."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@softplus.vjp
def softplus_vjp(m, g, y, x):
    return (m.multiply(g, m.sigmoid(x)),)


unary_samples(softplus, _TAILS)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def softsign(x):
    """``x / (1 + |x|)``; NaN at infinities, as the formula says."""
    return x / (1 + np.abs(x))


@softsign.vjp
def softsign_vjp(m, g, y, x):
    # Divided twice, for the square overflows float16 at 255.
    size = m.add(m.abs(x), 1.0)
    return (m.div(m.div(g, size), size),)


unary_samples(softsign)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def silu(x):
    """``x * sigmoid(x)``, also known as swish; NaN at -Inf, as the formula says."""
    return x * _sigmoid(x)


@silu.vjp
def silu_vjp(m, g, y, x):
    slope = m.add(m.multiply(x, m.sigmoid(m.negative(x))), 1.0)
    return (m.multiply(g, m.multiply(m.sigmoid(x), slope)),)


unary_samples(silu, _TAILS)

# NumPy has no erfc; the C library's is right to the last bit or so.
_erfc = np.vectorize(math.erfc, otypes=["float64"])
_CUBIC = 0.044715
_SCALE = math.sqrt(2 / math.pi)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def gelu(x, *, approximate: Literal["none", "tanh"] = "none"):
    """``x`` times the normal distribution function of ``x``; NaN at -Inf, as the formula says.

    ``approximate="tanh"`` takes ``(1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2`` for that function.
    """
    if approximate == "tanh":
        # (1 + tanh(u)) / 2 is sigmoid(2u), which has no difference in it.
        return x * _sigmoid(2 * _SCALE * (x + _CUBIC * x * x * x))
    wide = np.asarray(x, "float64")
    return (0.5 * wide * _erfc(-wide / math.sqrt(2))).astype(x.dtype)


@gelu.vjp
def gelu_vjp(m, g, y, x, *, approximate):
    if approximate == "tanh":
        # Beyond 30 the gradient is exactly 0 or 1 in every dtype; going on would end in inf * 0.
        x = m.clip(x, min=-30.0, max=30.0)
        square = m.square(x)
        twice = m.multiply(m.multiply(x, m.add(m.multiply(square, _CUBIC), 1.0)), 2 * _SCALE)
        slope = m.multiply(m.add(m.multiply(square, 3 * _CUBIC), 1.0), 2 * _SCALE)
        rise = m.multiply(m.multiply(x, m.sigmoid(m.negative(twice))), slope)
        return (m.multiply(g, m.multiply(m.sigmoid(twice), m.add(rise, 1.0))),)
    # In the left tail 1 + erf would cancel, while y / x is the same number in full accuracy.
    middle = m.multiply(m.add(m.erf(m.multiply(x, math.sqrt(0.5))), 1.0), 0.5)
    distribution = m.where(m.less(x, -1.0), m.div(y, x), middle)
    density = m.multiply(m.exp(m.multiply(m.square(x), -0.5)), _SCALE / 2)
    return (m.multiply(g, m.add(distribution, m.multiply(x, density))),)


unary_samples(gelu, _TAILS, approximate="tanh")


@gelu.samples
def gelu_samples(draw):
    yield draw(x=_TAILS, approximate="tanh", special=True)


@gelu.rejects
def gelu_rejects(reject):
    yield reject(x="float32[2]", approximate="erf", message="takes 'none' or 'tanh'")


# -- with kinks -------------------------------------------------------------------------------------------------------


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
def relu(x):
    """``x`` where positive, 0 elsewhere; NaN stays NaN. The gradient at zero is zero."""
    return np.maximum(x, 0)


@relu.vjp
def relu_vjp(m, g, y, x):
    return (m.where(m.greater(x, 0.0), g, 0.0),)


unary_samples(relu)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def leaky_relu(x, *, alpha: float = 0.01):
    """``x`` where positive, ``alpha * x`` elsewhere."""
    return np.where(x > 0, x, x * alpha)


@leaky_relu.vjp
def leaky_relu_vjp(m, g, y, x, *, alpha):
    return (m.where(m.greater(x, 0.0), g, m.multiply(g, alpha)),)


unary_samples(leaky_relu, alpha=0.3)


def _prelu_rule(x, slope):
    if x.shape is None or slope.shape is None:
        return x
    together = broadcast_shapes([x.shape, slope.shape])
    stretched = len(together) > len(x.shape) or any(
        own == 1 and size not in (1, None) for own, size in zip(x.shape, together, strict=True)
    )
    if stretched:
        raise ShapeError(f"prelu: slope must broadcast to the shape of x; got {slope} for {x}")
    return x.with_shape(together)


@meta_op(rule=_prelu_rule, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def prelu(x, slope):
    """``x`` where positive, ``slope * x`` elsewhere; ``slope`` broadcasts to the shape of ``x``, never the reverse."""
    return np.where(x > 0, x, slope * x)


@prelu.vjp
def prelu_vjp(m, g, y, x, slope):
    passes = m.greater(x, 0.0)
    return m.where(passes, g, m.multiply(g, slope)), m.sum_to(m.where(passes, 0.0, m.multiply(g, x)), slope)


@prelu.samples
def prelu_samples(draw):
    yield draw(x=(2, 3), slope=(2, 3))
    yield draw(x=(2, 3, 4, 5), slope=(3, 1, 1))
    yield draw(x=(2, 3), slope=(1,))
    yield draw(x=(2, 3), slope=())
    yield draw(x=(), slope=())
    yield draw(x=(0, 3), slope=(3,))
    yield draw(x=SPECIAL, slope=np.full(SPECIAL.shape, 0.25), special=True)


@prelu.rejects
def prelu_rejects(reject):
    yield reject(x="float32[2, 3]", slope="float32[2]", message="do not broadcast")
    yield reject(x="float32[2, 1]", slope="float32[2, 3]", message="slope must broadcast")
    yield reject(x="float32[3]", slope="float32[2, 3]", message="slope must broadcast")
    yield reject(x="float32[2]", slope="float64[2]", message="one dtype")


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def elu(x, *, alpha: float = 1.0):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    return np.where(x > 0, x, alpha * np.expm1(x))


@elu.vjp
def elu_vjp(m, g, y, x, *, alpha):
    return (m.where(m.greater(x, 0.0), g, m.multiply(m.multiply(g, alpha), m.exp(x))),)


unary_samples(elu, _TAILS, alpha=0.7)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def selu(x, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875):
    """``gamma`` times: ``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere."""
    return np.where(x > 0, gamma * x, gamma * alpha * np.expm1(x))


@selu.vjp
def selu_vjp(m, g, y, x, *, alpha, gamma):
    return (m.where(m.greater(x, 0.0), m.multiply(g, gamma), m.multiply(m.multiply(g, gamma * alpha), m.exp(x))),)


unary_samples(selu, _TAILS, alpha=1.5, gamma=1.25)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(-4.0, 4.0, avoid=[-2.5, -0.5, 1.5, 2.5])})
@np.errstate(all="ignore")
def hard_sigmoid(x, *, alpha: float = 0.2, beta: float = 0.5):
    """``alpha * x + beta``, but at least 0 and at most 1."""
    return np.minimum(np.maximum(alpha * x + beta, 0), 1)


@hard_sigmoid.vjp
def hard_sigmoid_vjp(m, g, y, x, *, alpha, beta):
    inside = m.where(m.less(y, 1.0), m.multiply(g, alpha), 0.0)
    return (m.where(m.greater(y, 0.0), inside, 0.0),)


unary_samples(hard_sigmoid, _TAILS, alpha=0.5, beta=0.25)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(-4.0, 4.0, avoid=[-3.0, 3.0])})
@np.errstate(all="ignore")
def hard_swish(x):
    """``x`` times ``x / 6 + 1 / 2`` held between 0 and 1; NaN at -Inf, as the formula says."""
    return x * (np.minimum(np.maximum(x + 3, 0), 6) / 6)


@hard_swish.vjp
def hard_swish_vjp(m, g, y, x):
    inside = m.multiply(g, m.add(m.div(x, 3.0), 0.5))
    return (m.where(m.less(x, -3.0), 0.0, m.where(m.greater(x, 3.0), g, inside)),)


unary_samples(hard_swish, _TAILS)

# -- along an axis ----------------------------------------------------------------------------------------------------


def _along_axis(x, *, axis):
    if x.rank is not None:
        normalise_axis(axis, x.rank)
    return x


def _shifted(x, axis):
    """``x`` less its maximum along the axis; an empty axis has none, and needs none."""
    return x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)


def _axis_samples(op):
    @op.samples
    def along(draw):
        yield draw(x=(2, 3))
        yield draw(x=(2, 3, 4), axis=1)
        yield draw(x=(2, 3, 4), axis=-3)
        yield draw(x=(4, 1))
        yield draw(x=(5,), axis=0)
        yield draw(x=(0, 3))
        yield draw(x=(3, 0))
        yield draw(x=np.array([[1000.0, 1000.5, -1000.0], [-1000.0, -1000.0, -1000.0]]))
        yield draw(x=np.array([[-np.inf, 0.0], [0.0, np.inf], [np.nan, 0.0], [-np.inf, -np.inf]]), special=True)

    @op.rejects
    def out_of_range(reject):
        yield reject(x="float32[2, 3]", axis=2, message="out of range")
        yield reject(x="float32[2, 3]", axis=-3, message="out of range")
        yield reject(x="float32[]", message="out of range")
        yield reject(x="int32[2, 3]", message="takes")
        yield reject(x="float32[2, 3]", axis=0.5, message="takes an integer")


@meta_op(rule=_along_axis, dtypes=FLOATING)
@np.errstate(all="ignore")
def softmax(x, *, axis: int = -1):
    """``exp(x)`` over its sum along ``axis``, without overflow; NaN along an axis with NaN, Inf or nothing but -Inf."""
    exps = np.exp(_shifted(x, axis))
    return exps / np.sum(exps, axis=axis, keepdims=True)


@softmax.vjp
def softmax_vjp(m, g, y, x, *, axis):
    mean = m.reduce_sum(m.multiply(g, y), axes=(axis,), keepdims=True)
    return (m.multiply(y, m.subtract(g, mean)),)


_axis_samples(softmax)


@meta_op(rule=_along_axis, dtypes=FLOATING)
@np.errstate(all="ignore")
def log_softmax(x, *, axis: int = -1):
    """The logarithm of ``softmax(x)``, finite where that underflows to zero."""
    shifted = _shifted(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


@log_softmax.vjp
def log_softmax_vjp(m, g, y, x, *, axis):
    return (m.subtract(g, m.multiply(m.exp(y), m.reduce_sum(g, axes=(axis,), keepdims=True))),)


_axis_samples(log_softmax)


@meta_op(rule=_along_axis, dtypes=FLOATING, nondifferentiable="it is 0 or 1, and changes in steps only")
def hardmax(x, *, axis: int = -1):
    """1 at the largest element along ``axis``, at the first of several equal ones or the first NaN; 0 elsewhere."""
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.argmax(x, axis=axis, keepdims=True), 1, axis)
    return y


_axis_samples(hardmax)


@hardmax.samples
def hardmax_ties(draw):
    yield draw(x=np.array([[1.0, 3.0, 3.0], [0.0, 0.0, 0.0]]))
    yield draw(x=np.array([[1.0, 3.0, 3.0], [1.0, 0.0, 5.0]]), axis=0)


# -- random -----------------------------------------------------------------------------------------------------------


def _dropout_rule(x, mask=None, *, ratio, training):
    if not 0 <= ratio < 1:
        raise AttributeValueError(f"dropout: attribute 'ratio' takes a number from 0 up to, but not, 1; got {ratio!r}")
    if mask is None or x.shape is None or mask.shape is None:
        return x
    if mask.rank != x.rank:
        raise ShapeError(f"dropout: mask must have the shape of x; got {mask} for {x}")
    sizes = zip(x.shape, mask.shape, strict=True)
    return x.with_shape(tuple(unify_size(a, b, f"dropout: axis {i} of x and mask") for i, (a, b) in enumerate(sizes)))


def _draw_mask(rng, x, mask=None, *, ratio, training):
    return rng.random(x.shape) >= ratio


@meta_op(
    rule=_dropout_rule,
    dtypes=FLOATING,
    also={"mask": BOOL},
    domain={"mask": booleans()},
    random={"mask": _draw_mask},
)
@np.errstate(all="ignore")
def dropout(x, mask=None, *, ratio: float = 0.5, training: bool = True):
    """``x / (1 - ratio)`` where ``mask`` holds, 0 elsewhere; ``x`` itself unless ``training``.

    ``mask`` has the shape of ``x`` and is true with probability ``1 - ratio``.
    """
    if not training:
        return x
    if mask is None:
        raise UsageError("dropout: a mask is required while training")
    return np.where(mask, x, 0) / (1 - ratio)


@dropout.vjp
def dropout_vjp(m, g, y, x, *mask, ratio, training):
    if training:
        g = m.div(m.where(mask[0], g, 0.0), 1 - ratio)
    return (g, *[None for _ in mask])


@dropout.samples
def dropout_samples(draw):
    yield draw(x=(2, 3), mask=(2, 3))
    yield draw(x=(4, 1, 5), mask=(4, 1, 5), ratio=0.25)
    yield draw(x=(2, 3), mask=(2, 3), ratio=0.0)
    yield draw(x=(), mask=())
    yield draw(x=(0, 3), mask=(0, 3))
    yield draw(x=(2, 3), training=False)
    yield draw(x=(2, 3), mask=(2, 3), training=False)
    yield draw(x=np.append(SPECIAL, SPECIAL), mask=np.repeat([True, False], SPECIAL.size), special=True)


@dropout.rejects
def dropout_rejects(reject):
    yield reject(x="float32[2, 3]", ratio=1.0, message="'ratio' takes")
    yield reject(x="float32[2, 3]", ratio=-0.1, message="'ratio' takes")
    yield reject(x="float32[2, 3]", mask="bool[3]", message="shape of x")
    yield reject(x="float32[2, 3]", mask="bool[2, 4]", message="sizes 3 and 4 differ")
    yield reject(x="float32[2, 3]", mask="float32[2, 3]", message="'mask' takes bool")
