"""JAX's shapes."""

import jax.numpy as jnp

from metaop.backends.jax.bindings import bind


@bind
def shape_of(x, *, start, end):
    return jnp.array(x.shape[start:end], jnp.int64)


@bind
def size_of(x):
    return jnp.array(x.size, jnp.int64)
