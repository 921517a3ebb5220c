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
        "is_nan": jnp.isnan,
    }
)


@bind
def is_inf(x, *, detect_negative, detect_positive):
    if detect_negative and detect_positive:
        return jnp.isinf(x)
    if detect_negative or detect_positive:
        return jnp.isneginf(x) if detect_negative else jnp.isposinf(x)
    return jnp.zeros_like(x, dtype=bool)
