"""JAX's further activations."""

import jax
import jax.numpy as jnp

from metaop.backends.jax.bindings import bind

bind.rename({"celu": (jax.nn.celu, {"alpha": "alpha"}), "mish": jax.nn.mish})


@bind
def thresholded_relu(x, *, alpha):
    return jnp.where(x > alpha, x, 0.0)


@bind
def shrink(x, *, bias, lambd):
    return jnp.select([x > lambd, x < -lambd], [x - bias, x + bias], 0.0)


@bind
def swiglu(gate, x, *, alpha):
    return (jax.nn.silu(gate) if alpha == 1.0 else gate * jax.nn.sigmoid(alpha * gate)) * x
