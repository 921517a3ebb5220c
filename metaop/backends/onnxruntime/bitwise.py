"""Operations on bits."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename(
    {
        "bitwise_and": node("BitwiseAnd"),
        "bitwise_or": node("BitwiseOr"),
        "bitwise_xor": node("BitwiseXor"),
        "bitwise_not": node("BitwiseNot"),
    }
)


@bind
def bit_cast(o, x, *, to):
    o.since(26)
    return o.BitCast(x, to=to)


SIGNED, UNSIGNED = np.dtype("int64"), np.dtype("uint64")


@bind
def bit_shift(o, x, y, *, direction):
    # Before opset 28 ONNX shifts unsigned numbers only, and by fewer places than there are bits. So they are
    # shifted as uint64; a negative number moves to the right with its bits inverted, for zeros to move in.
    minus_one, zero = o.constant(-1, SIGNED), o.constant(0, SIGNED)
    inside = o.Less(y, 8 * x.dtype.itemsize)
    wide = o.Cast(x, to=SIGNED)
    flip = None
    if x.dtype.kind == "i":
        inside = o.And(inside, o.GreaterOrEqual(y, 0))
        flip = o.Where(o.Less(x, 0), minus_one, zero) if direction == "right" else None
    if flip is not None:
        wide = o.BitwiseXor(wide, flip)
    places = o.Cast(o.Where(inside, o.Cast(y, to=SIGNED), zero), to=UNSIGNED)
    shifted = o.BitShift(o.Cast(wide, to=UNSIGNED), places, direction=direction.upper())
    found = o.Where(inside, o.Cast(shifted, to=SIGNED), zero)
    if flip is not None:
        found = o.BitwiseXor(found, flip)
    return o.Cast(found, to=x.dtype)
