"""TensorFlow's normalizations: ``tf.nn.moments`` and ``tf.nn.batch_normalization``, which serve every shape.

Not its fused batch normalization, which raises every epsilon below 1.001e-5 to that, in silence.
"""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind


def along_channels(vector, rank):
    if rank == 2:
        return vector
    return tf.reshape(vector, [1, vector.shape[0]] + [1] * (rank - 2))


def normalise(x, axes, scale, bias, epsilon):
    mean, variance = tf.nn.moments(x, axes=axes, keepdims=True)
    return tf.nn.batch_normalization(
        x, mean=mean, variance=variance, offset=bias, scale=scale, variance_epsilon=epsilon
    )


@bind
def batch_norm(x, scale, bias, mean, var, *, epsilon, training):
    rank = len(x.shape)
    scale, bias = along_channels(scale, rank), along_channels(bias, rank)
    if training:
        return normalise(x, [0] + list(range(2, rank)), scale, bias, epsilon)
    return tf.nn.batch_normalization(
        x,
        mean=along_channels(mean, rank),
        variance=along_channels(var, rank),
        offset=bias,
        scale=scale,
        variance_epsilon=epsilon,
    )


@bind
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    rank = len(x.shape)
    return normalise(x, list(range(axis % rank, rank)), scale, bias, epsilon)


@bind
def group_norm(x, scale, bias, *, num_groups, epsilon):
    sizes = list(x.shape)
    groups = [num_groups, sizes[1] // num_groups]
    vector = [1] + groups + [1] * (len(sizes) - 2)
    grouped = tf.reshape(x, sizes[:1] + groups + sizes[2:])
    y = normalise(grouped, list(range(2, len(sizes) + 1)), tf.reshape(scale, vector), tf.reshape(bias, vector), epsilon)
    return tf.reshape(y, sizes)


@bind
def instance_norm(x, scale, bias, *, epsilon):
    rank = len(x.shape)
    return normalise(x, list(range(2, rank)), along_channels(scale, rank), along_channels(bias, rank), epsilon)
