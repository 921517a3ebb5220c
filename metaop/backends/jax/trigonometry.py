"""JAX's trigonometric and hyperbolic functions."""

import jax.numpy as jnp

from metaop.backends.jax.bindings import bind

bind.rename(
    {
        "tan": jnp.tan,
        "asin": jnp.arcsin,
        "acos": jnp.arccos,
        "atan": jnp.arctan,
        "sinh": jnp.sinh,
        "cosh": jnp.cosh,
        "asinh": jnp.arcsinh,
        "acosh": jnp.arccosh,
        "atanh": jnp.arctanh,
    }
)
