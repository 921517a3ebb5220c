"""TensorFlow's activations."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import RELEASE, bind
from metaop.errors import UnsupportedOpError, UsageError

bind.rename(
    {
        "sigmoid": tf.math.sigmoid,
        "tanh": tf.math.tanh,
        "relu": tf.nn.relu,
        "softplus": tf.math.softplus,
        "softsign": tf.nn.softsign,
        "leaky_relu": (tf.nn.leaky_relu, {"alpha": "alpha"}),
        "softmax": (tf.nn.softmax, {"axis": "axis"}),
        "log_softmax": (tf.nn.log_softmax, {"axis": "axis"}),
    }
)

# The constants in TensorFlow's kernel, which takes none; others that round to the same are as good.
_ALPHA, _GAMMA = np.float32(1.6732632423543772), np.float32(1.0507009873554804)


@bind
def selu(x, *, alpha, gamma):
    if np.float32(alpha) != _ALPHA or np.float32(gamma) != _GAMMA:
        raise UnsupportedOpError("tensorflow: selu has alpha={} and gamma={} built in".format(_ALPHA, _GAMMA))
    return tf.nn.selu(x)


if RELEASE >= (2, 4):

    @bind
    def silu(x):
        return tf.nn.silu(x)

    @bind
    def gelu(x, *, approximate):
        return tf.nn.gelu(x, approximate=approximate == "tanh")

else:
    # tf.nn.swish, its older name, fails outside of graphs there.
    @bind
    def silu(x):
        return tf.multiply(x, tf.sigmoid(x))

    bind.unsupported("gelu", reason="TensorFlow has it from 2.4 on, this is " + tf.__version__)


@bind
def elu(x, *, alpha):
    y = tf.nn.elu(x)
    # TensorFlow's has no alpha; Keras scales its negative side in this way.
    return y if alpha == 1.0 else tf.where(x > 0, y, alpha * y)


@bind
def prelu(x, slope):
    # As Keras's PReLU does: two rectifiers.
    return tf.nn.relu(x) - slope * tf.nn.relu(-x)


@bind
def hard_sigmoid(x, *, alpha, beta):
    return tf.clip_by_value(alpha * x + beta, clip_value_min=0.0, clip_value_max=1.0)


@bind
def hard_swish(x):
    return x * tf.nn.relu6(x + 3.0) * (1 / 6)


@bind
def hardmax(x, *, axis):
    if 0 in x.shape:
        return tf.zeros_like(x)
    return tf.one_hot(tf.math.argmax(x, axis=axis), x.shape[axis], axis=axis % len(x.shape), dtype=x.dtype)


@bind
def dropout(x, mask=None, *, ratio, training):
    if not training:
        return tf.identity(x)
    if mask is None:
        raise UsageError("dropout: a mask is required while training")
    return tf.where(mask, x / (1 - ratio), tf.zeros_like(x))
