"""MXNet's elementwise arithmetic."""

import mxnet as mx

from metaop.backends.mxnet.bindings import DTYPES, bind, legacy
from metaop.errors import UnsupportedOpError

bind.rename(
    {
        "add": mx.np.add,
        "subtract": mx.np.subtract,
        "multiply": mx.np.multiply,
        "div": mx.np.true_divide,
        "pow": mx.np.power,
        "maximum": mx.np.maximum,
        "minimum": mx.np.minimum,
        "negative": mx.np.negative,
        "inv": mx.np.reciprocal,
        "square": mx.np.square,
        "sqrt": mx.np.sqrt,
        "rsqrt": legacy(mx.nd.rsqrt),
        "abs": mx.np.abs,
        "sign": mx.np.sign,
        "exp": mx.np.exp,
        "log": mx.np.log,
        "sin": mx.np.sin,
        "cos": mx.np.cos,
        "erf": legacy(mx.nd.erf),
        "floor": mx.np.floor,
        "ceil": mx.np.ceil,
        # Not mx.np.rint, which rounds halves down.
        "round": mx.np.around,
    }
)


@bind
def clip(x, *, min, max):
    return x if min is None and max is None else mx.np.clip(x, min, max)


@bind
def identity(x):
    return x


@bind
def cast(x, *, to):
    if to.name not in DTYPES:
        raise UnsupportedOpError("mxnet has no tensors of {}".format(to.name))
    return x.astype(to)


bind.unsupported("trunc_div", reason="MXNet divides integers as floating numbers")
