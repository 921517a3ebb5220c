"""Arithmetic, one element at a time: two tensors broadcast against each other, or one tensor by itself.

IEEE special values are results like any other here, so no reference warns about them.
"""

import math

import numpy as np

from metaop.errors import AttributeValueError
from metaop.ops.domain import Domain, positive, reals
from metaop.ops.rules import elementwise
from metaop.ops.samples import SPECIAL, binary_samples, unary_samples
from metaop.ops.spec import meta_op
from metaop.types import ANY, FLOATING, INTEGER, NUMERIC, SIGNED, is_floating

# -- two tensors ------------------------------------------------------------------------------------------------------


@meta_op(rule=elementwise, dtypes=NUMERIC)
@np.errstate(all="ignore")
def add(x, y):
    """``x + y``, broadcast; integers wrap around."""
    return np.add(x, y)


@add.vjp
def add_vjp(m, g, out, x, y):
    return m.sum_to(g, x), m.sum_to(g, y)


binary_samples(add)


@meta_op(rule=elementwise, dtypes=NUMERIC)
@np.errstate(all="ignore")
def subtract(x, y):
    """``x - y``, broadcast; integers wrap around."""
    return np.subtract(x, y)


@subtract.vjp
def subtract_vjp(m, g, out, x, y):
    return m.sum_to(g, x), m.sum_to(m.negative(g), y)


binary_samples(subtract)


@meta_op(rule=elementwise, dtypes=NUMERIC)
@np.errstate(all="ignore")
def multiply(x, y):
    """``x * y``, broadcast; integers wrap around."""
    return np.multiply(x, y)


@multiply.vjp
def multiply_vjp(m, g, out, x, y):
    return m.sum_to(m.multiply(g, y), x), m.sum_to(m.multiply(g, x), y)


binary_samples(multiply)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"y": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def div(x, y):
    """``x / y``, broadcast; dividing by zero gives an infinity, and NaN for ``0 / 0``."""
    return np.divide(x, y)


@div.vjp
def div_vjp(m, g, out, x, y):
    # Through the quotient, for y * y would overflow, or vanish, long before the gradient does.
    gx = m.div(g, y)
    return m.sum_to(gx, x), m.sum_to(m.negative(m.multiply(gx, out)), y)


binary_samples(div)


@meta_op(
    rule=elementwise,
    dtypes=INTEGER,
    domain={"x": reals(-100, 100), "y": reals(-9, 9, avoid=[0.0])},
    nondifferentiable="its values are integers",
)
@np.errstate(all="ignore")
def trunc_div(x, y):
    """``x / y`` of integers, broadcast, rounded towards zero: what ONNX's Div is for them.

    Nothing is right where ``y`` is 0: frameworks answer with a number, an exception or the end of the process.
    """
    quotient = np.floor_divide(x, y)
    return np.where((np.remainder(x, y) != 0) & ((x < 0) != (y < 0)), quotient + 1, quotient).astype(x.dtype)


@trunc_div.samples
def trunc_div_samples(draw):
    yield draw(x=(2, 3), y=(2, 3))
    yield draw(x=(4, 1, 3), y=(5, 1))
    yield draw(x=(2, 3), y=())
    yield draw(x=(), y=())
    yield draw(x=(0, 3), y=(1, 3))
    yield draw(x=np.array([7, 8, 9, 0, 1, 6]), y=np.array([2, 3, 3, 5, 2, 7]))


@trunc_div.rejects
def trunc_div_rejects(reject):
    yield reject(x="int64[2, 3]", y="int64[2, 4]", message="do not broadcast")
    yield reject(x="int64[2]", y="int32[2]", message="one dtype")
    yield reject(x="float32[2]", y="float32[2]", message="takes")


_BASE = Domain(spread=(0.2, 2.0), whole=(-3, 3))
_EXPONENT = Domain(spread=(-2.0, 2.0), whole=(0, 4))


@meta_op(rule=elementwise, dtypes=NUMERIC, domain={"x": _BASE, "y": _EXPONENT})
@np.errstate(all="ignore")
def pow(x, y):
    """``x`` to the power of ``y``, broadcast; NaN for negative ``x`` unless ``y`` is whole, and 1 where ``y`` is 0.

    Integers have whole powers from 0 on. Beyond what the dtype holds, or 2**53, frameworks answer with different
    numbers: some go through float64.
    """
    return np.power(x, y)


@pow.vjp
def pow_vjp(m, g, out, x, y):
    # d/dx is y * x**(y - 1): where y is 0 any exponent does, and 1 keeps x = 0 finite.
    # d/dy is out * log(x): at x = 0 it vanishes, which log(1) says without meeting 0 * inf.
    power = m.pow(x, m.where(m.equal(y, 0.0), 1.0, m.subtract(y, 1.0)))
    log = m.log(m.where(m.equal(x, 0.0), 1.0, x))
    return m.sum_to(m.multiply(g, m.multiply(y, power)), x), m.sum_to(m.multiply(m.multiply(g, out), log), y)


binary_samples(pow)


@pow.samples
def pow_samples(draw):
    yield draw(x=np.array([0.0, 0.0, 0.0, 2.0]), y=np.array([1.0, 2.0, 3.0, 0.0]))
    yield draw(x=np.array([-2.0, -2.0, -2.0, -0.5, 0.0]), y=np.array([2.0, 3.0, 0.5, -1.0, 0.0]), special=True)


def _share(m, g, wins, ties):
    """The part of ``g`` for the side that ``wins``; each side has half of it where the two tie."""
    return m.where(wins, g, m.where(ties, m.multiply(g, 0.5), 0.0))


@meta_op(rule=elementwise, dtypes=NUMERIC)
def maximum(x, y):
    """The larger of ``x`` and ``y``, broadcast; NaN where either is. Where they tie, each has half of the gradient."""
    return np.maximum(x, y)


@maximum.vjp
def maximum_vjp(m, g, out, x, y):
    ties = m.equal(x, y)
    return m.sum_to(_share(m, g, m.greater(x, y), ties), x), m.sum_to(_share(m, g, m.greater(y, x), ties), y)


binary_samples(maximum)


@meta_op(rule=elementwise, dtypes=NUMERIC)
def minimum(x, y):
    """The smaller of ``x`` and ``y``, broadcast; NaN where either is. Where they tie, each has half of the gradient."""
    return np.minimum(x, y)


@minimum.vjp
def minimum_vjp(m, g, out, x, y):
    ties = m.equal(x, y)
    return m.sum_to(_share(m, g, m.less(x, y), ties), x), m.sum_to(_share(m, g, m.less(y, x), ties), y)


binary_samples(minimum)

# -- one tensor, smooth -----------------------------------------------------------------------------------------------


@meta_op(rule=elementwise, dtypes=SIGNED)
def negative(x):
    """``-x``; zeros change their sign too."""
    return np.negative(x)


@negative.vjp
def negative_vjp(m, g, y, x):
    return (m.negative(g),)


unary_samples(negative)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def inv(x):
    """``1 / x``; an infinity of the sign of ``x`` at zeros."""
    return np.reciprocal(x)


@inv.vjp
def inv_vjp(m, g, y, x):
    return (m.negative(m.multiply(m.multiply(g, y), y)),)


unary_samples(inv)


@meta_op(rule=elementwise, dtypes=NUMERIC)
@np.errstate(all="ignore")
def square(x):
    """``x * x``; integers wrap around."""
    return np.square(x)


@square.vjp
def square_vjp(m, g, y, x):
    return (m.multiply(g, m.multiply(x, 2.0)),)


unary_samples(square)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": positive()})
@np.errstate(all="ignore")
def sqrt(x):
    """The square root of ``x``; NaN below zero, and -0 at -0."""
    return np.sqrt(x)


@sqrt.vjp
def sqrt_vjp(m, g, y, x):
    return (m.div(m.multiply(g, 0.5), y),)


unary_samples(sqrt)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": positive()})
@np.errstate(all="ignore")
def rsqrt(x):
    """``1 / sqrt(x)``; NaN below zero, and an infinity of the sign of ``x`` at zeros."""
    return np.reciprocal(np.sqrt(x))


@rsqrt.vjp
def rsqrt_vjp(m, g, y, x):
    return (m.div(m.multiply(m.multiply(g, y), -0.5), x),)


unary_samples(rsqrt)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def exp(x):
    """``e`` to the power of ``x``."""
    return np.exp(x)


@exp.vjp
def exp_vjp(m, g, y, x):
    return (m.multiply(g, y),)


unary_samples(exp, np.append(SPECIAL, [1000.0, -1000.0]))


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": positive()})
@np.errstate(all="ignore")
def log(x):
    """The natural logarithm of ``x``; -Inf at zeros, and NaN below."""
    return np.log(x)


@log.vjp
def log_vjp(m, g, y, x):
    return (m.div(g, x),)


unary_samples(log)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def sin(x):
    """The sine of ``x`` in radians; NaN at infinities."""
    return np.sin(x)


@sin.vjp
def sin_vjp(m, g, y, x):
    return (m.multiply(g, m.cos(x)),)


unary_samples(sin)


@meta_op(rule=elementwise, dtypes=FLOATING)
@np.errstate(all="ignore")
def cos(x):
    """The cosine of ``x`` in radians; NaN at infinities."""
    return np.cos(x)


@cos.vjp
def cos_vjp(m, g, y, x):
    return (m.negative(m.multiply(g, m.sin(x))),)


unary_samples(cos)

# NumPy has no erf; the C library's is right to the last bit or so.
_erf = np.vectorize(math.erf, otypes=["float64"])


@meta_op(rule=elementwise, dtypes=FLOATING)
def erf(x):
    """The error function of ``x``: ``2 / sqrt(pi)`` times the integral of ``exp(-t * t)`` from 0 to ``x``."""
    return _erf(x).astype(x.dtype)


@erf.vjp
def erf_vjp(m, g, y, x):
    return (m.multiply(g, m.multiply(m.exp(m.negative(m.square(x))), 2 / math.sqrt(math.pi))),)


unary_samples(erf, np.append(SPECIAL, [1e-4, -1e-4, 4.0, -4.0, 30.0, -30.0]))

# -- one tensor, with kinks or steps ----------------------------------------------------------------------------------


@meta_op(rule=elementwise, dtypes=SIGNED, domain={"x": reals(avoid=[0.0])})
def abs(x):
    """``x`` without its sign. The gradient at zero is zero."""
    return np.abs(x)


@abs.vjp
def abs_vjp(m, g, y, x):
    return (m.multiply(g, m.sign(x)),)


unary_samples(abs)


@meta_op(rule=elementwise, dtypes=SIGNED, domain={"x": reals(avoid=[0.0])})
@np.errstate(all="ignore")
def sign(x):
    """1 where ``x`` is positive, -1 where negative, 0 at zeros, NaN at NaN. The gradient is zero."""
    return np.sign(x)


@sign.vjp
def sign_vjp(m, g, y, x):
    return (m.zeros_like(x),)


unary_samples(sign)

_WHOLE = reals(avoid=[-2.0, -1.0, 0.0, 1.0, 2.0])
_HALVES = reals(avoid=[-1.5, -0.5, 0.5, 1.5])
_STEPS = np.append(SPECIAL, [-2.5, -1.5, -0.5, -0.2, 0.2, 0.5, 1.5, 2.5])


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _WHOLE})
def floor(x):
    """The largest whole number that is not above ``x``. The gradient is zero."""
    return np.floor(x)


@floor.vjp
def floor_vjp(m, g, y, x):
    return (m.zeros_like(x),)


unary_samples(floor, _STEPS)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _WHOLE})
def ceil(x):
    """The smallest whole number that is not below ``x``. The gradient is zero."""
    return np.ceil(x)


@ceil.vjp
def ceil_vjp(m, g, y, x):
    return (m.zeros_like(x),)


unary_samples(ceil, _STEPS)


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": _HALVES})
def round(x):
    """The whole number nearest to ``x``, and of two equally near ones the even one. The gradient is zero."""
    return np.rint(x)


@round.vjp
def round_vjp(m, g, y, x):
    return (m.zeros_like(x),)


unary_samples(round, _STEPS)


def _clip_rule(x, *, min, max):
    for name, bound in (("min", min), ("max", max)):
        if bound is None:
            continue
        if math.isnan(bound):
            raise AttributeValueError(f"clip: attribute {name!r} must not be NaN; None means no bound")
        if x.dtype is not None and x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            if not (bound.is_integer() and limits.min <= bound <= limits.max):
                raise AttributeValueError(
                    f"clip: attribute {name!r} must be a value of {x.dtype.name}, the dtype of the tensor; "
                    f"got {bound!r}. None means no bound"
                )
    return x


@meta_op(rule=_clip_rule, dtypes=NUMERIC, domain={"x": reals(avoid=[-1.0, 0.0, 1.0])})
@np.errstate(all="ignore")
def clip(x, *, min: float | None = None, max: float | None = None):
    """``x``, but at least ``min`` and at most ``max``; ``None`` means no bound.

    NaN stays NaN; where ``min`` is above ``max`` the latter wins. Beyond a bound the gradient is zero; on the
    bound itself it passes.
    """
    if min is not None:
        x = np.maximum(x, np.asarray(min).astype(x.dtype))
    if max is not None:
        x = np.minimum(x, np.asarray(max).astype(x.dtype))
    return x


@clip.vjp
def clip_vjp(m, g, y, x, *, min, max):
    if min is not None:
        g = m.where(m.less(x, min), 0.0, g)
    if max is not None:
        g = m.where(m.greater(x, max), 0.0, g)
    return (g,)


unary_samples(clip, min=-1.0, max=1.0)


@clip.samples
def clip_samples(draw):
    yield draw(x=(2, 3), min=0.0)
    yield draw(x=(2, 3), max=0.0)
    yield draw(x=(2, 3), min=1.0, max=-1.0)
    yield draw(x=SPECIAL, min=-1.0, max=0.0, special=True)


@clip.rejects
def clip_rejects(reject):
    yield reject(x="float32[2]", min=float("nan"), message="NaN")
    yield reject(x="float32[2]", max="1", message="takes")
    yield reject(x="int32[2]", min=0.5, message="value of int32")
    yield reject(x="uint8[2]", min=-1.0, message="value of uint8")


# -- one tensor, unchanged or of another dtype ------------------------------------------------------------------------


@meta_op(rule=elementwise, dtypes=ANY)
def identity(x):
    """``x`` itself, every bit kept."""
    return x


@identity.vjp
def identity_vjp(m, g, y, x):
    return (g,)


unary_samples(identity)


def _cast_rule(x, *, to):
    return x.with_dtype(to)


@meta_op(rule=_cast_rule, dtypes=ANY)
@np.errstate(all="ignore")
def cast(x, *, to: np.dtype):
    """``x`` as dtype ``to``: to a floating dtype rounded to nearest, to an integer truncated, to bool "is not zero".

    An integer dtype that cannot hold the value gives no particular number. The gradient passes between floating dtypes
    and is zero otherwise.
    """
    return x.astype(to)


@cast.vjp
def cast_vjp(m, g, y, x, *, to):
    own = m.dtype(x)
    return (m.cast(g, to=own) if is_floating(own) and is_floating(to) else m.zeros_like(x),)


@cast.samples
def cast_samples(draw):
    yield draw(x=(2, 3), to="float64")
    yield draw(x=(), to="float64")
    yield draw(x=(0, 3), to="float64")
    # Steps of a coarser dtype have no gradient that differences could show.
    values = np.array([-2.7, -1.5, -0.5, -0.0, 0.0, 0.1, 0.5, 1.5, 2.7])
    for to in ("float16", "float32", "int8", "int32", "int64", "bool"):
        yield draw(x=values, to=to, special=True)
    yield draw(x=np.array([0.0, 0.5, 1.5, 100.7]), to="uint8", special=True)
    yield draw(x=SPECIAL, to="float32", special=True)
    yield draw(x=SPECIAL, to="bool", special=True)


@cast.rejects
def cast_rejects(reject):
    yield reject(x="float32[2]", message="'to' is required")
    yield reject(x="float32[2]", to="complex64", message="takes a dtype")
