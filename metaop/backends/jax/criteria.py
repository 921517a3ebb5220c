"""Further losses from JAX's functions."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.indices import within
from metaop.backends.jax.loss import reduced


@before("nll_loss")
def classes_exist(prediction, target, weight=None, *, ignore_index, reduction):
    labels = np.asarray(target)
    within("target", labels if ignore_index is None else labels[labels != ignore_index], 0, prediction.shape[1])


@bind
def nll_loss(prediction, target, weight=None, *, ignore_index, reduction):
    kept = jnp.ones(target.shape, bool) if ignore_index is None else target != ignore_index
    target = jnp.where(kept, target, 0)
    chosen = jnp.take_along_axis(prediction, jnp.expand_dims(target, 1), axis=1, mode="fill")
    each = jnp.ones(target.shape, prediction.dtype) if weight is None else jnp.take(weight, target, mode="fill")
    each = jnp.where(kept, each, 0)
    losses = jnp.where(kept, -jnp.squeeze(chosen, axis=1) * each, 0)
    return jnp.sum(losses) / jnp.sum(each) if reduction == "mean" else reduced(losses, reduction)


@bind
def poisson_nll(prediction, target, *, log_input, full, epsilon, reduction):
    if log_input:
        losses = jnp.exp(prediction) - target * prediction
    else:
        losses = prediction - target * jnp.log(prediction + epsilon)
    if full:
        # Of the small ones, which do not count, also the derivative is to be finite.
        large = jnp.where(target > 1, target, 1)
        stirling = large * jnp.log(large) - large + 0.5 * jnp.log(2 * math.pi * large)
        losses = losses + jnp.where(target > 1, stirling, 0)
    return reduced(losses, reduction)


@bind
def gaussian_nll(prediction, target, var, *, full, epsilon, reduction):
    var = jnp.maximum(var, epsilon)
    losses = 0.5 * (jnp.log(var) + jnp.square(prediction - target) / var)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@bind
def smooth_l1(prediction, target, *, beta, reduction):
    distance = jnp.abs(prediction - target)
    near = jnp.minimum(distance, beta)
    return reduced(jnp.square(near) / (2 * beta) + (distance - near), reduction)


@bind
def log_cosh(prediction, target, *, reduction):
    distance = prediction - target
    return reduced(jnp.logaddexp(distance, -distance) - math.log(2), reduction)


@bind
def margin_ranking(x1, x2, target, *, margin, reduction):
    return reduced(jax.nn.relu(margin - target * (x1 - x2)), reduction)


@bind
def triplet_margin(anchor, positive, negative, *, margin, p, epsilon, swap, reduction):
    def distance(x, y):
        return jnp.linalg.norm(x - y + epsilon, ord=p, axis=-1)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = jnp.minimum(far, distance(positive, negative))
    return reduced(jax.nn.relu(margin + near - far), reduction)
