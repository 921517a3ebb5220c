"""Losses from JAX's functions: JAX itself has none."""

import jax
import jax.numpy as jnp
from jax.scipy.special import xlog1py, xlogy

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.indices import within


@jax.custom_jvp
def times(weight, logarithm):
    """With 0 * -Inf = 0, and the derivatives of a product: ``xlogy`` for logarithms that are there already."""
    return jnp.where((weight == 0) & ~jnp.isnan(logarithm), 0.0, weight * logarithm)


times.defjvps(
    lambda change, _, weight, logarithm: change * logarithm, lambda change, _, weight, logarithm: change * weight
)


def reduced(losses, reduction):
    if reduction == "mean":
        return jnp.mean(losses)
    return jnp.sum(losses) if reduction == "sum" else losses


@bind
def mse(prediction, target, *, reduction):
    return reduced(jnp.square(prediction - target), reduction)


@bind
def mae(prediction, target, *, reduction):
    return reduced(jnp.abs(prediction - target), reduction)


@bind
def huber(prediction, target, *, delta, reduction):
    # The part within delta squared, what is beyond it linear; no branch is computed in vain.
    distance = jnp.abs(prediction - target)
    near = jnp.minimum(distance, delta)
    return reduced(0.5 * jnp.square(near) + delta * (distance - near), reduction)


@bind
def hinge(prediction, target, *, reduction):
    return reduced(jax.nn.relu(1.0 - target * prediction), reduction)


@bind
def binary_cross_entropy(prediction, target, *, reduction):
    return reduced(-(xlogy(target, prediction) + xlog1py(1.0 - target, -prediction)), reduction)


@bind
def binary_cross_entropy_with_logits(prediction, target, *, reduction):
    yes, no = jax.nn.log_sigmoid(prediction), jax.nn.log_sigmoid(-prediction)
    return reduced(-(target * yes + (1.0 - target) * no), reduction)


@bind
def categorical_cross_entropy(prediction, target, *, axis, reduction):
    return reduced(-jnp.sum(xlogy(target, prediction), axis=axis), reduction)


@bind
def softmax_cross_entropy(prediction, target, *, axis, reduction):
    return reduced(-jnp.sum(times(target, jax.nn.log_softmax(prediction, axis=axis)), axis=axis), reduction)


@before("sparse_softmax_cross_entropy")
def labels_exist(prediction, target, *, reduction):
    within("target", target, 0, prediction.shape[1])


@bind
def sparse_softmax_cross_entropy(prediction, target, *, reduction):
    logarithms = jax.nn.log_softmax(prediction, axis=1)
    chosen = jnp.take_along_axis(logarithms, jnp.expand_dims(target, 1), axis=1, mode="fill")
    return reduced(-jnp.squeeze(chosen, axis=1), reduction)


@bind
def kl_div(prediction, target, *, reduction):
    return reduced(xlogy(target, target) - times(target, prediction), reduction)


@bind
def cosine_similarity(x, y, *, axis, epsilon):
    lengths = jnp.linalg.norm(x, axis=axis) * jnp.linalg.norm(y, axis=axis)
    return jnp.sum(x * y, axis=axis) / jnp.maximum(lengths, epsilon)
