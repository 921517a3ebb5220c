"""JAX's normalizations: ``jax.nn.standardize``, which serves every shape.

It is given the variance, for by itself it takes the mean square less the squared mean, which cancel.
"""

import jax
import jax.numpy as jnp

from metaop.backends.jax.bindings import bind


def standardize(x, axes, epsilon):
    mean, variance = jnp.mean(x, axis=axes, keepdims=True), jnp.var(x, axis=axes, keepdims=True)
    return jax.nn.standardize(x, axis=axes, mean=mean, variance=variance, epsilon=epsilon)


def along_channels(vector, rank):
    return jnp.reshape(vector, (-1,) + (1,) * (rank - 2))


@bind
def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
    axes = (0,) + tuple(range(2, x.ndim))
    if training:
        y = standardize(x, axes, epsilon)
    else:
        mean, var = along_channels(mean, x.ndim), along_channels(var, x.ndim)
        y = jax.nn.standardize(x, axis=axes, mean=mean, variance=var, epsilon=epsilon)
    return y * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)


@bind
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    y = standardize(x, tuple(range(axis % x.ndim, x.ndim)), epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


@bind
def group_norm(x, scale, bias, *, num_groups, epsilon):
    grouped = jnp.reshape(x, (x.shape[0], num_groups, x.shape[1] // num_groups) + x.shape[2:])
    y = jnp.reshape(standardize(grouped, tuple(range(2, grouped.ndim)), epsilon), x.shape)
    return y * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)


@bind
def instance_norm(x, scale, bias, *, epsilon):
    y = standardize(x, tuple(range(2, x.ndim)), epsilon)
    return y * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)
