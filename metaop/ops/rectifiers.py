"""Further activations: rectifiers, smooth ones and ones with thresholds, and the gate made of one.

As in ``activation.py``, nothing here forms a difference of nearly equal numbers, so that tails keep their accuracy.
"""

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import reals
from metaop.ops.rules import elementwise, unify_size
from metaop.ops.samples import SPECIAL, unary_samples
from metaop.ops.spec import meta_op
from metaop.types import FLOATING

_TAILS = np.append(SPECIAL, [-30.0, -12.0, -6.0, 6.0, 12.0, 30.0, -1000.0, 1000.0])


def _celu_rule(x, *, alpha):
    if not alpha > 0:
        raise AttributeValueError(f"celu: attribute 'alpha' takes a number above 0; got {alpha!r}")
    return x


@meta_op(rule=_celu_rule, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def celu(x, *, alpha: float = 1.0):
    """``x`` where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere: smooth at zero for every ``alpha``."""
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@celu.vjp
def celu_vjp(m, g, y, x, *, alpha):
    return (m.where(m.greater(x, 0.0), g, m.multiply(g, m.exp(m.div(x, alpha)))),)


unary_samples(celu, _TAILS, alpha=0.7)


@celu.rejects
def celu_rejects(reject):
    yield reject(x="float32[2]", alpha=0.0, message="above 0")
    yield reject(x="float32[2]", alpha=-1.0, message="above 0")


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def mish(x):
    """``x * tanh(log(1 + exp(x)))``; NaN at -Inf, as the formula says."""
    # tanh(log(1 + u)) is u (u + 2) / (u (u + 2) + 2): for u = exp(x) with x <= 0, and else divided by u * u.
    small = np.exp(-np.abs(x))
    low = small * (small + 2)
    high = 1 + 2 * small
    return x * np.where(x > 0, high / (high + 2 * small * small), low / (low + 2))


@mish.vjp
def mish_vjp(m, g, y, x):
    # tanh(s)' = 1 - tanh(s)**2 with s = softplus(x); it is 0 where tanh(s) has become 1.
    top = m.tanh(m.softplus(x))
    rise = m.multiply(m.multiply(x, m.sigmoid(x)), m.multiply(m.subtract(1.0, top), m.add(top, 1.0)))
    return (m.multiply(g, m.add(top, rise)),)


unary_samples(mish, _TAILS)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.3, 1.0])})
@np.errstate(all="ignore")
def thresholded_relu(x, *, alpha: float = 1.0):
    """``x`` where above ``alpha``, 0 elsewhere, at NaN too. The gradient at ``alpha`` is zero."""
    return np.where(x > alpha, x, np.zeros((), x.dtype))


@thresholded_relu.vjp
def thresholded_relu_vjp(m, g, y, x, *, alpha):
    return (m.where(m.greater(x, alpha), g, 0.0),)


unary_samples(thresholded_relu, alpha=0.3)


def _shrink_rule(x, *, bias, lambd):
    if not lambd >= 0:
        raise AttributeValueError(f"shrink: attribute 'lambd' takes a number from 0 on; got {lambd!r}")
    return x


@meta_op(rule=_shrink_rule, dtypes=FLOATING, domain={"x": reals(avoid=[-1.0, -0.5, 0.5, 1.0])})
@np.errstate(all="ignore")
def shrink(x, *, bias: float = 0.0, lambd: float = 0.5):
    """``x - bias`` above ``lambd``, ``x + bias`` below ``-lambd``, 0 between, at NaN too.

    Hard shrinkage has ``bias=0``, soft shrinkage ``bias=lambd``. The gradient on both thresholds is zero.
    """
    zero = np.zeros((), x.dtype)
    return np.where(x > lambd, x - bias, np.where(x < -lambd, x + bias, zero)).astype(x.dtype)


@shrink.vjp
def shrink_vjp(m, g, y, x, *, bias, lambd):
    return (m.where(m.greater(m.abs(x), lambd), g, 0.0),)


unary_samples(shrink, bias=1.0, lambd=1.0)


@shrink.samples
def shrink_samples(draw):
    yield draw(x=(2, 3), bias=0.25, lambd=1.0)
    yield draw(x=(2, 3), bias=0.5, lambd=0.5)
    yield draw(x=SPECIAL, bias=0.25, lambd=0.5, special=True)


@shrink.rejects
def shrink_rejects(reject):
    yield reject(x="float32[2]", lambd=-0.5, message="from 0 on")


def _swiglu_rule(gate, x, *, alpha):
    if gate.shape is None or x.shape is None:
        return x if gate.shape is None else gate
    if len(gate.shape) != len(x.shape):
        raise ShapeError(f"swiglu: gate and x must have one shape; got {gate} and {x}")
    sizes = zip(gate.shape, x.shape, strict=True)
    return x.with_shape(tuple(unify_size(a, b, f"swiglu: axis {i} of gate and x") for i, (a, b) in enumerate(sizes)))


@meta_op(rule=_swiglu_rule, dtypes=FLOATING)
@np.errstate(all="ignore")
def swiglu(gate, x, *, alpha: float = 1.0):
    """``x`` times ``gate * sigmoid(alpha * gate)``, both of one shape; NaN where that is infinity times zero."""
    small = np.exp(-np.abs(alpha * gate))
    return gate * (np.where(alpha * gate >= 0, 1, small) / (1 + small)) * x


@swiglu.vjp
def swiglu_vjp(m, g, y, gate, x, *, alpha):
    scaled = m.multiply(gate, alpha)
    open_ = m.sigmoid(scaled)
    slope = m.multiply(open_, m.add(m.multiply(scaled, m.sigmoid(m.negative(scaled))), 1.0))
    return m.multiply(m.multiply(g, x), slope), m.multiply(g, m.multiply(gate, open_))


@swiglu.samples
def swiglu_samples(draw):
    yield draw(gate=(2, 3), x=(2, 3))
    yield draw(gate=(4, 1, 5), x=(4, 1, 5), alpha=0.5)
    yield draw(gate=(), x=(), alpha=2.0)
    yield draw(gate=(0, 3), x=(0, 3))
    a, b = np.meshgrid(np.append(SPECIAL, [-6.0, 6.0]), SPECIAL)
    yield draw(gate=a.ravel(), x=b.ravel(), special=True)


@swiglu.rejects
def swiglu_rejects(reject):
    yield reject(gate="float32[2, 3]", x="float32[3]", message="one shape")
    yield reject(gate="float32[2, 3]", x="float32[1, 3]", message="sizes 2 and 1 differ")
    yield reject(gate="float32[2]", x="float64[2]", message="one dtype")
    yield reject(gate="int32[2]", x="int32[2]", message="takes")
