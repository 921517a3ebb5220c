"""JAX's sums of products, always in full precision: by default some devices round float32 to less."""

import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.indices import within

FULL = lax.Precision.HIGHEST


@bind
def matmul(x, y):
    return jnp.matmul(x, y, precision=FULL)


@bind
def linear(x, w, b=None):
    y = jnp.matmul(x, jnp.transpose(w), precision=FULL)
    return y if b is None else y + b


@bind
def einsum(*inputs, equation):
    return jnp.einsum(equation, *inputs, precision=FULL)


@before("embedding")
def rows_exist(indices, weight):
    within("indices", indices, 0, weight.shape[0])


@bind
def embedding(indices, weight):
    return jnp.take(weight, indices, axis=0, mode="fill")
