"""TensorFlow's shapes."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind


@bind
def shape_of(x, *, start, end):
    return tf.shape(x, out_type=tf.int64)[start:end]


@bind
def size_of(x):
    return tf.size(x, out_type=tf.int64)
