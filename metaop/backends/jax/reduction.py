"""JAX's reductions, positions and running sums. Told no dtype, it sums and multiplies small integers in wider ones."""

import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import bind

bind.rename({"reduce_mean": (jnp.mean, {"axes": "axis", "keepdims": "keepdims"})})


@bind
def reduce_sum(x, *, axes, keepdims):
    return jnp.sum(x, axis=axes, dtype=x.dtype, keepdims=keepdims)


@bind
def reduce_prod(x, *, axes, keepdims):
    return jnp.prod(x, axis=axes, dtype=x.dtype, keepdims=keepdims)


def extreme(find, x, worst, axes, keepdims):
    # Of nothing JAX wants to be told; of something the worst might tie with it, and take its share of the gradient.
    return find(x, axis=axes, keepdims=keepdims, initial=None if x.size else jnp.array(worst, x.dtype))


@bind
def reduce_max(x, *, axes, keepdims):
    return extreme(jnp.max, x, extremes(x.dtype)[0], axes, keepdims)


@bind
def reduce_min(x, *, axes, keepdims):
    return extreme(jnp.min, x, extremes(x.dtype)[1], axes, keepdims)


def extremes(dtype):
    if jnp.issubdtype(dtype, jnp.floating):
        return -jnp.inf, jnp.inf
    return (False, True) if jnp.issubdtype(dtype, bool) else (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)


def position(find, x, axis, keepdims, last):
    if not last:
        return find(x, axis=axis, keepdims=keepdims)
    # JAX has no way to ask for the last one.
    size = x.size if axis is None else x.shape[axis]
    return size - 1 - find(jnp.flip(x, axis=axis), axis=axis, keepdims=keepdims)


@bind
def argmax(x, *, axis, keepdims, select_last_index):
    return position(jnp.argmax, x, axis, keepdims, select_last_index)


@bind
def argmin(x, *, axis, keepdims, select_last_index):
    return position(jnp.argmin, x, axis, keepdims, select_last_index)


def scan(accumulate, start, x, axis, exclusive, reverse):
    axis = axis % x.ndim
    if exclusive and x.shape[axis]:
        # One step late: the first is the start, and the last is left out.
        shift = [(0, 0, 0)] * x.ndim
        shift[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
        x = lax.pad(x, jnp.array(start, x.dtype), shift)
    return accumulate(x, axis=axis, reverse=reverse)


@bind
def cumsum(x, *, axis, exclusive, reverse):
    return scan(lax.cumsum, 0, x, axis, exclusive, reverse)


@bind
def cumprod(x, *, axis, exclusive, reverse):
    return scan(lax.cumprod, 1, x, axis, exclusive, reverse)
