"""Trigonometric and hyperbolic functions and their inverses, one element at a time; angles are in radians.

Outside of a function's domain the result is NaN, at its poles an infinity; no reference warns about them.
"""

import numpy as np

from metaop.ops.domain import Domain, reals
from metaop.ops.rules import elementwise
from metaop.ops.samples import SPECIAL, unary_samples
from metaop.ops.spec import meta_op
from metaop.types import FLOATING

_AROUND_ZERO = Domain(low=-1.0, high=1.0, spread=(-0.9, 0.9), text="-1 to 1")
_ABOVE_ONE = Domain(low=1.0, spread=(1.1, 4.0), text="at least 1")
# Where 1 + x and the like would lose x, and where squares overflow float32.
_SMALL_AND_LARGE = np.append(SPECIAL, [1e-4, -1e-4, 2.0, -2.0, 30.0, -30.0])


def _off_unit(m, x):
    """``1 - x * x`` as a product, which keeps its accuracy near 1 and -1."""
    return m.multiply(m.subtract(1.0, x), m.add(x, 1.0))


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(-1.3, 1.3)})
@np.errstate(all="ignore")
def tan(x):
    """The tangent of ``x`` in radians; NaN at infinities."""
    return np.tan(x)


@tan.vjp
def tan_vjp(m, g, y, x):
    return (m.multiply(g, m.add(m.square(y), 1.0)),)


unary_samples(tan)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _AROUND_ZERO})
@np.errstate(all="ignore")
def asin(x):
    """The angle, from ``-pi / 2`` to ``pi / 2``, whose sine is ``x``; NaN beyond -1 and 1."""
    return np.arcsin(x)


@asin.vjp
def asin_vjp(m, g, y, x):
    return (m.div(g, m.sqrt(_off_unit(m, x))),)


unary_samples(asin, _SMALL_AND_LARGE)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _AROUND_ZERO})
@np.errstate(all="ignore")
def acos(x):
    """The angle, from 0 to ``pi``, whose cosine is ``x``; NaN beyond -1 and 1."""
    return np.arccos(x)


@acos.vjp
def acos_vjp(m, g, y, x):
    return (m.negative(m.div(g, m.sqrt(_off_unit(m, x)))),)


unary_samples(acos, _SMALL_AND_LARGE)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def atan(x):
    """The angle, from ``-pi / 2`` to ``pi / 2``, whose tangent is ``x``."""
    return np.arctan(x)


@atan.vjp
def atan_vjp(m, g, y, x):
    return (m.div(g, m.add(m.square(x), 1.0)),)


unary_samples(atan, _SMALL_AND_LARGE)

# -- hyperbolic (tanh is an activation) -------------------------------------------------------------------------------


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def sinh(x):
    """The hyperbolic sine of ``x``: ``(exp(x) - exp(-x)) / 2``."""
    return np.sinh(x)


@sinh.vjp
def sinh_vjp(m, g, y, x):
    return (m.multiply(g, m.cosh(x)),)


unary_samples(sinh, _SMALL_AND_LARGE)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def cosh(x):
    """The hyperbolic cosine of ``x``: ``(exp(x) + exp(-x)) / 2``."""
    return np.cosh(x)


@cosh.vjp
def cosh_vjp(m, g, y, x):
    return (m.multiply(g, m.sinh(x)),)


unary_samples(cosh, _SMALL_AND_LARGE)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def asinh(x):
    """The number whose hyperbolic sine is ``x``."""
    return np.arcsinh(x)


@asinh.vjp
def asinh_vjp(m, g, y, x):
    return (m.div(g, m.sqrt(m.add(m.square(x), 1.0))),)


unary_samples(asinh, _SMALL_AND_LARGE)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _ABOVE_ONE})
@np.errstate(all="ignore")
def acosh(x):
    """The number from 0 on whose hyperbolic cosine is ``x``; NaN below 1."""
    return np.arccosh(x)


@acosh.vjp
def acosh_vjp(m, g, y, x):
    return (m.div(g, m.sqrt(m.multiply(m.subtract(x, 1.0), m.add(x, 1.0)))),)


unary_samples(acosh, _SMALL_AND_LARGE)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _AROUND_ZERO})
@np.errstate(all="ignore")
def atanh(x):
    """The number whose hyperbolic tangent is ``x``; infinities at -1 and 1, and NaN beyond."""
    return np.arctanh(x)


@atanh.vjp
def atanh_vjp(m, g, y, x):
    return (m.div(g, _off_unit(m, x)),)


unary_samples(atanh, _SMALL_AND_LARGE)
