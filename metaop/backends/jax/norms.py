"""JAX's norms, and its logarithms of sums. As in ``reduction.py``, small integers are summed in their own dtype."""

import jax
import jax.numpy as jnp

from metaop.backends.jax.bindings import bind

bind.rename({"reduce_log_sum_exp": (jax.nn.logsumexp, {"axes": "axis", "keepdims": "keepdims"})})


def norm(x, order, axes, keepdims):
    return jnp.linalg.vector_norm(x, ord=order, axis=axes, keepdims=keepdims)


@bind
def reduce_l1(x, *, axes, keepdims):
    if jnp.issubdtype(x.dtype, jnp.floating):
        return norm(x, 1, axes, keepdims)
    # Norms of integers are floating.
    return jnp.sum(jnp.abs(x), axis=axes, dtype=x.dtype, keepdims=keepdims)


@bind
def reduce_l2(x, *, axes, keepdims):
    return norm(x, 2, axes, keepdims)


@bind
def reduce_sum_square(x, *, axes, keepdims):
    return jnp.sum(jnp.square(x), axis=axes, dtype=x.dtype, keepdims=keepdims)


@bind
def reduce_log_sum(x, *, axes, keepdims):
    return jnp.log(jnp.sum(x, axis=axes, dtype=x.dtype, keepdims=keepdims))
