"""TensorFlow's further activations, as Keras computes those that TensorFlow has no kernel for."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import RELEASE, bind


@bind
def celu(x, *, alpha):
    zero = tf.constant(0.0, x.dtype)
    return tf.math.maximum(zero, x) + alpha * tf.math.expm1(tf.math.minimum(zero, x) / alpha)


@bind
def mish(x):
    return x * tf.math.tanh(tf.math.softplus(x))


@bind
def thresholded_relu(x, *, alpha):
    return tf.where(x > tf.constant(alpha, x.dtype), x, tf.constant(0.0, x.dtype))


@bind
def shrink(x, *, bias, lambd):
    shrunk = x if bias == 0.0 else tf.where(x > 0, x - bias, x + bias)
    return tf.where(tf.math.abs(x) > tf.constant(lambd, x.dtype), shrunk, tf.constant(0.0, x.dtype))


@bind
def swiglu(gate, x, *, alpha):
    if alpha == 1.0 and RELEASE >= (2, 4):
        return tf.nn.silu(gate) * x
    return gate * tf.math.sigmoid(alpha * gate) * x
