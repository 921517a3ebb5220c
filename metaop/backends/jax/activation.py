"""JAX's activations."""

import jax
import jax.numpy as jnp

from metaop.backends.jax.bindings import bind
from metaop.errors import UsageError

bind.rename(
    {
        "sigmoid": jax.nn.sigmoid,
        "tanh": jnp.tanh,
        "relu": jax.nn.relu,
        "softplus": jax.nn.softplus,
        "softsign": jax.nn.soft_sign,
        "silu": jax.nn.silu,
        "hard_swish": jax.nn.hard_swish,
        "elu": (jax.nn.elu, {"alpha": "alpha"}),
        "leaky_relu": (jax.nn.leaky_relu, {"alpha": "negative_slope"}),
        "softmax": (jax.nn.softmax, {"axis": "axis"}),
        "log_softmax": (jax.nn.log_softmax, {"axis": "axis"}),
    }
)


@bind
def gelu(x, *, approximate):
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@bind
def selu(x, *, alpha, gamma):
    # JAX's constants are these unrounded: the same in float32, not in float64.
    if alpha == 1.67326319217681884765625 and gamma == 1.05070102214813232421875 and x.dtype != jnp.float64:
        return jax.nn.selu(x)
    return gamma * jax.nn.elu(x, alpha)


@bind
def hard_sigmoid(x, *, alpha, beta):
    if alpha == 1 / 6 and beta == 0.5:
        return jax.nn.hard_sigmoid(x)
    return jnp.clip(alpha * x + beta, 0.0, 1.0)


@bind
def prelu(x, slope):
    return jax.nn.leaky_relu(x, slope)


@bind
def hardmax(x, *, axis):
    if x.size == 0:
        return x
    return jax.nn.one_hot(jnp.argmax(x, axis=axis), x.shape[axis], dtype=x.dtype, axis=axis)


@bind
def dropout(x, mask=None, *, ratio, training):
    if not training:
        return x
    if mask is None:
        raise UsageError("dropout: a mask is required while training")
    return jnp.where(mask, x / (1.0 - ratio), 0.0)
