"""JAX's matrices."""

import jax.numpy as jnp

from metaop.backends.jax.bindings import bind
from metaop.errors import UnsupportedOpError


def near(k, rows, columns):
    """The diagonal, or the first beyond the corners, where nothing changes: farther on JAX's numbers end."""
    return max(-rows - 1, min(k, columns + 1))


@bind
def trilu(x, *, k, upper):
    k = near(k, *x.shape[-2:])
    return jnp.triu(x, k=k) if upper else jnp.tril(x, k=k)


@bind
def eye_like(x, *, k, dtype):
    return jnp.eye(*x.shape, k=near(k, *x.shape), dtype=x.dtype if dtype is None else dtype)


@bind
def det(x):
    # Two or three rows have formulas of their own.
    if x.dtype.itemsize < 4 and x.shape[-1] > 3:
        raise UnsupportedOpError("JAX factorises no {} matrices; cast to float32".format(x.dtype))
    return jnp.linalg.det(x)
