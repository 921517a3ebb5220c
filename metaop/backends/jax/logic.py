"""JAX's comparisons, logic and selection."""

import jax.numpy as jnp

from metaop.backends.jax.bindings import bind

bind.rename(
    {
        "where": jnp.where,
        "equal": jnp.equal,
        "not_equal": jnp.not_equal,
        "greater": jnp.greater,
        "greater_equal": jnp.greater_equal,
        "less": jnp.less,
        "less_equal": jnp.less_equal,
        "logical_and": jnp.logical_and,
        "logical_or": jnp.logical_or,
        "logical_xor": jnp.logical_xor,
        "logical_not": jnp.logical_not,
    }
)
