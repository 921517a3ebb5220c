"""MXNet's activations."""

import math

import mxnet as mx

from metaop.backends.mxnet.bindings import VERSION, bind, legacy, refuse_empty
from metaop.errors import UnsupportedOpError

bind.rename(
    {
        "sigmoid": mx.npx.sigmoid,
        "tanh": mx.np.tanh,
        "hard_sigmoid": (legacy(mx.nd.hard_sigmoid), {"alpha": "alpha", "beta": "beta"}),
    }
)


@bind
def softmax(x, *, axis):
    if VERSION < (1, 8) and x.shape[axis] == 0:
        refuse_empty("softmax", x)
    return mx.npx.softmax(x, axis=axis)


@bind
def log_softmax(x, *, axis):
    if VERSION < (1, 8) and x.shape[axis] == 0:
        refuse_empty("log_softmax", x)
    return mx.npx.log_softmax(x, axis=axis)


@bind
def hardmax(x, *, axis):
    refuse_empty("argmax", x)
    found = mx.npx.one_hot(mx.np.argmax(x, axis=axis), depth=x.shape[axis], dtype=x.dtype)
    return mx.np.moveaxis(found, -1, axis)


@bind
def relu(x):
    return mx.npx.activation(x, act_type="relu")


@bind
def softplus(x):
    return mx.npx.activation(x, act_type="softrelu")


@bind
def softsign(x):
    return mx.npx.activation(x, act_type="softsign")


@bind
def silu(x):
    return x * mx.npx.sigmoid(x)


@bind
def hard_swish(x):
    return x * mx.np.clip(x + 3.0, 0.0, 6.0) / 6.0


def rectified(x, *slope, **keywords):
    """MXNet's LeakyReLU, which takes no scalars."""
    if VERSION < (1, 8):
        refuse_empty("LeakyReLU", x)
    if x.shape == ():
        return mx.npx.leaky_relu(x.reshape(1), *slope, **keywords).reshape(())
    return mx.npx.leaky_relu(x, *slope, **keywords)


@bind
def gelu(x, *, approximate):
    if approximate == "none":
        return rectified(x, act_type="gelu")
    return 0.5 * x * (1.0 + mx.np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@bind
def elu(x, *, alpha):
    return rectified(x, act_type="elu", slope=alpha)


@bind
def leaky_relu(x, *, alpha):
    return rectified(x, act_type="leaky", slope=alpha)


@bind
def selu(x, *, alpha, gamma):
    if (alpha, gamma) != (1.67326319217681884765625, 1.05070102214813232421875):
        raise UnsupportedOpError("mxnet: the constants of selu are built in; use the defaults of alpha and gamma")
    return rectified(x, act_type="selu")


@bind
def prelu(x, slope):
    # LeakyReLU takes one slope, or one per channel (axis 1).
    rank = len(x.shape)
    axis = len(slope.shape) - rank + 1
    per_channel = rank > 1 and axis >= 0 and slope.shape[axis] == slope.size == x.shape[1]
    if rank > 1 and (slope.size == 1 or per_channel):
        return rectified(x, slope.reshape(-1), act_type="prelu")
    return mx.np.maximum(x, 0.0) + slope * mx.np.minimum(x, 0.0)


@bind
def dropout(x, mask=None, *, ratio, training):
    if not training:
        return x
    # As MXNet's own, which draws the mask itself: a product.
    return x * (mask.astype(x.dtype) / (1.0 - ratio))
