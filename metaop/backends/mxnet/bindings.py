"""The table of MXNet bindings; one file per family fills it. Releases from 1.6 on are known to work.

Tensors are ``mx.np.ndarray`` throughout. ``mx.np`` and ``mx.npx`` take them as they are; :func:`legacy` lets operators
of ``mx.nd`` take them, where those two have none.
"""

import functools

from metaop.backends.bind import Bindings
from metaop.errors import UnsupportedOpError

try:
    import mxnet as mx
except AttributeError as error:
    # MXNet asks NumPy for names that NumPy has dropped since.
    raise ImportError("this MXNet does not go with this NumPy ({}); it needs numpy<1.24".format(error)) from error

bind = Bindings("mxnet")

VERSION = tuple(int(part) for part in mx.__version__.split(".")[:2])
if VERSION < (1, 6):
    raise ImportError("metaop binds MXNet from release 1.6 on; this is " + mx.__version__)

DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64")


def legacy(function):
    """An operator of ``mx.nd`` as one on ``mx.np.ndarray``; both kinds of array share memory and gradients."""

    @functools.wraps(function)
    def converted(*tensors, **keywords):
        results = function(*[None if t is None else t.as_nd_ndarray() for t in tensors], **keywords)
        if isinstance(results, list):
            return [y.as_np_ndarray() for y in results]
        return results.as_np_ndarray()

    return converted


def refuse_empty(what, *tensors):
    """Refuse an empty tensor where MXNet does not fail on one but divides by zero, which no caller survives."""
    if any(tensor.size == 0 for tensor in tensors):
        raise UnsupportedOpError("mxnet {}: {} of an empty tensor ends the process".format(mx.__version__, what))


def take_no_empty(what, *tensors):
    """Refuse an empty tensor where MXNet does so too, in the middle of things and without saying why."""
    if any(tensor.size == 0 for tensor in tensors):
        raise UnsupportedOpError("mxnet {}: {} takes no empty tensors".format(mx.__version__, what))


def product(sizes):
    """The number of elements of a shape."""
    count = 1
    for size in sizes:
        count *= size
    return count
