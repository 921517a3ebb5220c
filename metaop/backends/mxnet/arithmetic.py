"""MXNet's remainder, and its exponentials of small numbers."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind
from metaop.errors import UnsupportedOpError

bind.rename({"log1p": mx.np.log1p, "expm1": mx.np.expm1})


@bind
def mod(x, y, *, fmod):
    if fmod:
        raise UnsupportedOpError("mxnet: remainders have the sign of the divisor only; fmod=True is not one of them")
    return mx.np.mod(x, y)
