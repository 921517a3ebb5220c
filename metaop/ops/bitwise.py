"""The bits of tensors: logic and shifts on those of integers, and the same bits read as another dtype."""

from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError
from metaop.ops.domain import reals
from metaop.ops.rules import elementwise
from metaop.ops.spec import meta_op
from metaop.types import ANY, INTEGER

_INTEGERS = "its values are integers"
_WIDE = {"x": reals(-100, 100), "y": reals(-100, 100)}


def _bitwise_samples(op):
    @op.samples
    def pairs(draw):
        yield draw(x=(2, 3), y=(2, 3))
        yield draw(x=(4, 1, 3), y=(5, 1))
        yield draw(x=(2, 3), y=())
        yield draw(x=(), y=())
        yield draw(x=(0, 3), y=(1, 3))
        yield draw(x=np.array([0, 0, 1, 1, 5, 127]), y=np.array([0, 1, 0, 1, 3, 64]))

    _bitwise_rejects(op)


def _bitwise_rejects(op, **attrs):
    @op.rejects
    def integers_only(reject):
        yield reject(x="int64[2, 3]", y="int64[2, 4]", **attrs, message="do not broadcast")
        yield reject(x="int64[2]", y="int32[2]", **attrs, message="one dtype")
        yield reject(x="float32[2]", y="float32[2]", **attrs, message="takes")
        yield reject(x="bool[2]", y="bool[2]", **attrs, message="takes")


@meta_op(rule=elementwise, dtypes=INTEGER, domain=_WIDE, nondifferentiable=_INTEGERS)
def bitwise_and(x, y):
    """The bits that both ``x`` and ``y`` have, broadcast."""
    return np.bitwise_and(x, y)


_bitwise_samples(bitwise_and)


@meta_op(rule=elementwise, dtypes=INTEGER, domain=_WIDE, nondifferentiable=_INTEGERS)
def bitwise_or(x, y):
    """The bits that ``x`` or ``y`` or both have, broadcast."""
    return np.bitwise_or(x, y)


_bitwise_samples(bitwise_or)


@meta_op(rule=elementwise, dtypes=INTEGER, domain=_WIDE, nondifferentiable=_INTEGERS)
def bitwise_xor(x, y):
    """The bits that exactly one of ``x`` and ``y`` has, broadcast."""
    return np.bitwise_xor(x, y)


_bitwise_samples(bitwise_xor)


@meta_op(rule=elementwise, dtypes=INTEGER, domain={"x": reals(-100, 100)}, nondifferentiable=_INTEGERS)
def bitwise_not(x):
    """The bits that ``x`` does not have."""
    return np.bitwise_not(x)


@bitwise_not.samples
def bitwise_not_samples(draw):
    yield draw(x=(2, 3))
    yield draw(x=(4, 1, 5))
    yield draw(x=())
    yield draw(x=(0, 3))


@bitwise_not.rejects
def bitwise_not_rejects(reject):
    yield reject(x="float32[2]", message="takes")
    yield reject(x="bool[2]", message="takes")


@meta_op(
    rule=elementwise,
    dtypes=INTEGER,
    domain={"x": reals(-100, 100), "y": reals(0, 7)},
    nondifferentiable=_INTEGERS,
)
@np.errstate(all="ignore")
def bit_shift(x, y, *, direction: Literal["left", "right"]):
    """``x`` with its bits moved by ``y`` places, broadcast; zeros move in, and copies of the sign from the left.

    Where ``y`` is negative, or not below the number of bits, nothing but what moves in is left: 0, or -1 where a
    negative ``x`` moves to the right.
    """
    x, y = np.broadcast_arrays(x, y)
    bits = 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < bits)
    places = np.where(inside, y, 0).astype(x.dtype)
    if direction == "left":
        return np.where(inside, np.left_shift(x, places), 0).astype(x.dtype)
    return np.where(inside, np.right_shift(x, places), np.where(x < 0, -1, 0)).astype(x.dtype)


@bit_shift.samples
def bit_shift_samples(draw):
    for direction in ("left", "right"):
        yield draw(x=(2, 3), y=(2, 3), direction=direction)
        yield draw(x=(4, 1, 3), y=(5, 1), direction=direction)
        yield draw(x=(2, 3), y=(), direction=direction)
        yield draw(x=(), y=(), direction=direction)
        yield draw(x=(0, 3), y=(1, 3), direction=direction)
        # As many places as there are bits in some dtype, and more.
        yield draw(x=np.array([1, 5, 100, 127, 85, 3]), y=np.array([8, 31, 32, 63, 64, 120]), direction=direction)
        # Wraps around in unsigned dtypes, to large numbers of places.
        yield draw(x=(3,), y=np.array([-1, -8, -64]).astype("int64"), direction=direction)


@bit_shift.rejects
def bit_shift_rejects(reject):
    yield reject(x="int64[2]", y="int64[2]", direction="up", message="takes 'left' or 'right'")
    yield reject(x="int64[2]", y="int64[2]", message="'direction' is required")


_bitwise_rejects(bit_shift, direction="left")


def _bit_cast_rule(x, *, to):
    if x.dtype is not None and x.dtype != to:
        if x.dtype.itemsize != to.itemsize:
            raise AttributeValueError(
                f"bit_cast: attribute 'to' takes a dtype as wide as {x.dtype.name}, that of the tensor; got {to.name}"
            )
        if to.kind == "b":
            raise AttributeValueError("bit_cast: not all bits are a bool; use metaop.cast for 'is not zero'")
    return x.with_dtype(to)


@meta_op(rule=_bit_cast_rule, dtypes=ANY, nondifferentiable="it reads numbers as other numbers, bit by bit")
def bit_cast(x, *, to: np.dtype):
    """The bits of ``x`` read as dtype ``to``, which has as many; ``metaop.cast`` keeps the numbers instead."""
    return x.view(to)


@bit_cast.samples
def bit_cast_samples(draw):
    for to in ("int32", "uint32", "float32", "int64", "uint64", "float64", "int16", "uint16", "float16", "int8"):
        yield draw(x=(2, 3), to=to)
    yield draw(x=(2, 3), to="uint8")
    yield draw(x=(2, 3), to="bool")
    for shape in ((), (0, 3)):
        yield draw(x=shape, to="int32")
    yield draw(x=np.array([-np.inf, -0.0, 0.0, 1.0, np.inf]), to="int32", special=True)


@bit_cast.rejects
def bit_cast_rejects(reject):
    yield reject(x="float32[2]", to="int64", message="as wide as float32")
    yield reject(x="uint8[2]", to="bool", message="not all bits are a bool")
    yield reject(x="float32[2]", message="'to' is required")
    yield reject(x="float32[2]", to="complex64", message="takes a dtype")
