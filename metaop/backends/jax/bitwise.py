"""JAX's operations on bits."""

import jax.numpy as jnp

from metaop.backends.jax.bindings import bind

bind.rename(
    {
        "bitwise_and": jnp.bitwise_and,
        "bitwise_or": jnp.bitwise_or,
        "bitwise_xor": jnp.bitwise_xor,
        "bitwise_not": jnp.bitwise_not,
    }
)


@bind
def bit_shift(x, y, *, direction):
    return jnp.left_shift(x, y) if direction == "left" else jnp.right_shift(x, y)


@bind
def bit_cast(x, *, to):
    return x.view(to)
