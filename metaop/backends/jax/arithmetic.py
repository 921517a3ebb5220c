"""JAX's remainders, and its exponentials of small numbers."""

import jax.numpy as jnp

from metaop.backends.jax.bindings import bind

bind.rename({"log1p": jnp.log1p, "expm1": jnp.expm1})


@bind
def mod(x, y, *, fmod):
    return jnp.fmod(x, y) if fmod else jnp.remainder(x, y)
