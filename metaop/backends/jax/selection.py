"""JAX's sorting and selecting. Where values decide on how many elements there are, nothing can be compiled."""

import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import bind, uncompiled


@bind
def topk(x, *, k, axis, largest, sorted):
    if largest:
        values, indices = lax.top_k(jnp.moveaxis(x, axis, -1), k)
        return jnp.moveaxis(values, -1, axis), jnp.moveaxis(indices, -1, axis).astype(jnp.int64)
    # lax.top_k has no smallest ones, and not every integer has a negative.
    indices = lax.slice_in_dim(jnp.argsort(x, axis=axis, stable=True), 0, k, axis=axis)
    return jnp.take_along_axis(x, indices, axis=axis, mode="fill"), indices


@uncompiled
@bind
def nonzero(x):
    return jnp.argwhere(x).T


@uncompiled
@bind
def compress(x, condition, *, axis):
    return jnp.compress(condition, x, axis=axis)


@uncompiled
@bind
def unique(x, *, axis, sorted):
    y, first, inverse, counts = jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = jnp.reshape(inverse, -1)
    if not sorted:
        order = jnp.argsort(first)
        y, inverse = jnp.take(y, order, axis=axis or 0), jnp.argsort(order)[inverse]
        first, counts = first[order], counts[order]
    return y, first, inverse, counts


bind.unsupported("non_max_suppression", reason="JAX has none")
