"""TensorFlow's sums of products."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import RELEASE, bind


@bind
def matmul(x, y):
    # TensorFlow multiplies matrices only: a vector is a row on the left and a column on the right. The row is no
    # expand_dims, for the converter of TensorFlow Lite would undo that and then refuse the vector.
    row, column = len(x.shape) == 1, len(y.shape) == 1
    z = tf.linalg.matmul(x[tf.newaxis, :] if row else x, tf.expand_dims(y, 1) if column else y)
    gone = ([-2] if row else []) + ([-1] if column else [])
    return tf.squeeze(z, axis=gone) if gone else z


@bind
def linear(x, w, b=None):
    # A vector is a row, as in matmul.
    vector = len(x.shape) == 1
    y = tf.linalg.matmul(x[tf.newaxis, :] if vector else x, w, transpose_b=True)
    y = tf.squeeze(y, axis=[0]) if vector else y
    return y if b is None else tf.math.add(y, b)


@bind
def einsum(*inputs, equation):
    if RELEASE < (2, 1):  # which plans the contraction in one way only
        return tf.einsum(equation, *inputs)
    return tf.einsum(equation, *inputs, optimize="greedy")


@bind
def embedding(indices, weight):
    return tf.nn.embedding_lookup(weight, indices)
