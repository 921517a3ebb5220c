"""Elementwise arithmetic beyond the four operations: remainders, and exponentials that keep small numbers."""

import numpy as np

from metaop.ops.domain import Domain, reals
from metaop.ops.rules import elementwise
from metaop.ops.samples import SPECIAL, binary_samples, unary_samples
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, NUMERIC


@meta_op(rule=elementwise, dtypes=NUMERIC, domain={"x": reals(-9, 9), "y": reals(-4, 4, avoid=[0.0])})
@np.errstate(all="ignore")
def mod(x, y, *, fmod: bool = False):
    """What is left of ``x`` after division by ``y``, broadcast.

    The quotient is rounded down, so that the result has the sign of ``y``; if ``fmod``, it is rounded towards zero, and
    the result has that of ``x``. Of floating numbers it is NaN where ``y`` is 0 or ``x``
    infinite; of integers nothing is right where ``y`` is 0: frameworks answer with a number, an exception or the end of
    the process.
    """
    return np.fmod(x, y) if fmod else np.mod(x, y)


@mod.vjp
def mod_vjp(m, g, out, x, y, *, fmod):
    quotient = m.round(m.div(m.subtract(x, out), y))
    return m.sum_to(g, x), m.sum_to(m.negative(m.multiply(g, quotient)), y)


binary_samples(mod)


@mod.samples
def mod_samples(draw):
    yield draw(x=(4, 1, 3), y=(5, 1), fmod=True)
    yield draw(x=(), y=(), fmod=True)
    yield draw(x=np.array([7, 8, 9, 0, 1, 6]), y=np.array([2, 3, 3, 5, 2, 7]), special=True)
    yield draw(x=np.array([7, 8, 9, 0, 1, 6]), y=np.array([2, 3, 3, 5, 2, 7]), fmod=True, special=True)
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    yield draw(x=a.ravel(), y=b.ravel(), fmod=True, special=True)


@mod.rejects
def mod_rejects(reject):
    yield reject(x="bool[2]", y="bool[2]", message="takes")
    yield reject(x="float32[2]", y="float32[2]", fmod=1, message="takes True or False")


_SMALL = np.append(SPECIAL, [1e-4, -1e-4, 1e-7, -1e-7, 1e-3, 0.5, -0.5])


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": Domain(low=-1.0, spread=(-0.8, 3.0), text="at least -1")})
@np.errstate(all="ignore")
def log1p(x):
    """``log(1 + x)``, in full accuracy near 0; -Inf at -1, and NaN below."""
    return np.log1p(x)


@log1p.vjp
def log1p_vjp(m, g, y, x):
    return (m.div(g, m.add(x, 1.0)),)


unary_samples(log1p, _SMALL)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def expm1(x):
    """``exp(x) - 1``, in full accuracy near 0."""
    return np.expm1(x)


@expm1.vjp
def expm1_vjp(m, g, y, x):
    return (m.multiply(g, m.exp(x)),)


unary_samples(expm1, np.append(_SMALL, [5.0, -30.0]))
