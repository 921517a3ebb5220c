"""TensorFlow's losses.

Those of Keras are not used: they average the last axis whatever is asked for, clip probabilities, and some compute in
float32 only.
"""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind


def reduced(losses, reduction):
    if reduction == "mean":
        return tf.math.reduce_mean(losses)
    return tf.math.reduce_sum(losses) if reduction == "sum" else losses


def times(probability, logarithm):
    """With 0 * log 0 = 0. Not ``tf.math.xlogy``, whose gradient is 0 wherever the probability is."""
    return tf.math.multiply_no_nan(logarithm, probability)


@bind
def mse(prediction, target, *, reduction):
    return reduced(tf.math.squared_difference(prediction, target), reduction)


@bind
def mae(prediction, target, *, reduction):
    return reduced(tf.math.abs(prediction - target), reduction)


@bind
def huber(prediction, target, *, delta, reduction):
    # The part within delta squared, what is beyond it linear; no branch is computed in vain.
    distance = tf.math.abs(prediction - target)
    near = tf.math.minimum(distance, delta)
    return reduced(0.5 * tf.math.square(near) + delta * (distance - near), reduction)


@bind
def hinge(prediction, target, *, reduction):
    return reduced(tf.nn.relu(1.0 - target * prediction), reduction)


@bind
def binary_cross_entropy(prediction, target, *, reduction):
    losses = times(target, tf.math.log(prediction)) + times(1.0 - target, tf.math.log1p(-prediction))
    return reduced(-losses, reduction)


@bind
def binary_cross_entropy_with_logits(prediction, target, *, reduction):
    return reduced(tf.nn.sigmoid_cross_entropy_with_logits(labels=target, logits=prediction), reduction)


@bind
def categorical_cross_entropy(prediction, target, *, axis, reduction):
    return reduced(-tf.math.reduce_sum(times(target, tf.math.log(prediction)), axis=axis), reduction)


@bind
def softmax_cross_entropy(prediction, target, *, axis, reduction):
    # Of the negative axes TensorFlow takes only -1.
    axis = axis % len(prediction.shape)
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=prediction, axis=axis)
    return reduced(losses, reduction)


@bind
def sparse_softmax_cross_entropy(prediction, target, *, reduction):
    rank = len(prediction.shape)
    logits = tf.transpose(prediction, [0] + list(range(2, rank)) + [1]) if rank > 2 else prediction
    return reduced(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits), reduction)


@bind
def kl_div(prediction, target, *, reduction):
    return reduced(times(target, tf.math.log(target)) - times(target, prediction), reduction)


@bind
def cosine_similarity(x, y, *, axis, epsilon):
    lengths = tf.norm(x, axis=axis) * tf.norm(y, axis=axis)
    return tf.math.reduce_sum(x * y, axis=axis) / tf.math.maximum(lengths, epsilon)
