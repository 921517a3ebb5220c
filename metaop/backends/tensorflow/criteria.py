"""Further losses, from TensorFlow's primitives; of those of Keras see ``loss.py``."""

import math

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.loss import reduced


@bind
def nll_loss(prediction, target, weight=None, *, ignore_index, reduction):
    rank = len(prediction.shape)
    if rank > 2:
        prediction = tf.transpose(prediction, [0] + list(range(2, rank)) + [1])
    kept = None
    if ignore_index is not None:
        kept = tf.math.not_equal(target, ignore_index)
        target = tf.where(kept, target, tf.zeros_like(target))
    losses = -tf.gather(prediction, target, axis=rank - 1, batch_dims=rank - 1)
    each = tf.ones_like(losses) if weight is None else tf.gather(weight, target)
    if kept is not None:
        each = tf.where(kept, each, tf.zeros_like(each))
        losses = tf.where(kept, losses, tf.zeros_like(losses))
    losses = losses * each
    if reduction == "mean":
        return tf.math.reduce_sum(losses) / tf.math.reduce_sum(each)
    return reduced(losses, reduction)


@bind
def poisson_nll(prediction, target, *, log_input, full, epsilon, reduction):
    if log_input:
        return reduced(tf.nn.log_poisson_loss(target, prediction, compute_full_loss=full), reduction)
    losses = prediction - target * tf.math.log(prediction + epsilon)
    if full:
        stirling = target * tf.math.log(target) - target + 0.5 * tf.math.log(2 * math.pi * target)
        losses = losses + tf.where(target > 1, stirling, tf.zeros_like(stirling))
    return reduced(losses, reduction)


@bind
def gaussian_nll(prediction, target, var, *, full, epsilon, reduction):
    spread = tf.math.maximum(var, epsilon)
    losses = 0.5 * (tf.math.log(spread) + tf.math.squared_difference(prediction, target) / spread)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


@bind
def smooth_l1(prediction, target, *, beta, reduction):
    distance = tf.math.abs(prediction - target)
    near = tf.math.minimum(distance, beta)
    return reduced(tf.math.square(near) / (2.0 * beta) + (distance - near), reduction)


@bind
def log_cosh(prediction, target, *, reduction):
    distance = prediction - target
    return reduced(distance + tf.math.softplus(-2.0 * distance) - math.log(2), reduction)


@bind
def margin_ranking(x1, x2, target, *, margin, reduction):
    return reduced(tf.nn.relu(margin - target * (x1 - x2)), reduction)


@bind
def triplet_margin(anchor, positive, negative, *, margin, p, epsilon, swap, reduction):
    def distance(x, y):
        return tf.norm(x - y + epsilon, ord=p, axis=-1)

    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = tf.math.minimum(far, distance(positive, negative))
    return reduced(tf.nn.relu(margin + near - far), reduction)
