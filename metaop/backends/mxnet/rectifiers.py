"""MXNet's further activations, from what it has operators for."""

import mxnet as mx

from metaop.backends.mxnet.activation import rectified
from metaop.backends.mxnet.bindings import bind
from metaop.backends.mxnet.logic import where


@bind
def celu(x, *, alpha):
    return rectified(x / alpha, act_type="elu", slope=1.0) * alpha


@bind
def mish(x):
    return x * mx.np.tanh(mx.npx.activation(x, act_type="softrelu"))


@bind
def thresholded_relu(x, *, alpha):
    return where(x > alpha, x, mx.np.zeros_like(x))


@bind
def shrink(x, *, bias, lambd):
    return where(x > lambd, x - bias, where(x < -lambd, x + bias, mx.np.zeros_like(x)))


@bind
def swiglu(gate, x, *, alpha):
    return gate * mx.npx.sigmoid(alpha * gate) * x
