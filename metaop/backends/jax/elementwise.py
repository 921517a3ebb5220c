"""JAX's elementwise arithmetic."""

import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import bind

bind.rename(
    {
        "add": jnp.add,
        "subtract": jnp.subtract,
        "multiply": jnp.multiply,
        "div": jnp.divide,
        "pow": jnp.power,
        "maximum": jnp.maximum,
        "minimum": jnp.minimum,
        "negative": jnp.negative,
        "inv": jnp.reciprocal,
        "square": jnp.square,
        "sqrt": jnp.sqrt,
        "rsqrt": lax.rsqrt,
        "abs": jnp.abs,
        "sign": jnp.sign,
        "exp": jnp.exp,
        "log": jnp.log,
        "sin": jnp.sin,
        "cos": jnp.cos,
        "erf": lax.erf,
        "floor": jnp.floor,
        "ceil": jnp.ceil,
        "round": jnp.round,
    }
)


@bind
def trunc_div(x, y):
    # Of integers, jnp's own divisions give a floor or a float.
    return lax.div(*jnp.broadcast_arrays(x, y))


@bind
def clip(x, *, min, max):
    # A float bound would make the result floating.
    number = float if jnp.issubdtype(x.dtype, jnp.floating) else int
    return jnp.clip(x, None if min is None else number(min), None if max is None else number(max))


@bind
def identity(x):
    return x


@bind
def cast(x, *, to):
    return x.astype(to)
