"""MXNet's trigonometric and hyperbolic functions."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind

bind.rename(
    {
        "tan": mx.np.tan,
        "asin": mx.np.arcsin,
        "acos": mx.np.arccos,
        "atan": mx.np.arctan,
        "sinh": mx.np.sinh,
        "cosh": mx.np.cosh,
        "asinh": mx.np.arcsinh,
        "acosh": mx.np.arccosh,
        "atanh": mx.np.arctanh,
    }
)
