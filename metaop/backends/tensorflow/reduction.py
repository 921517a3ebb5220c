"""TensorFlow's reductions and running sums."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind


def reduction(name, function):
    """Bind a reduction; its axes go over as an array, for an empty list would be taken for floats."""

    def reduce(x, *, axes, keepdims):
        axis = None if axes is None else np.array(axes, np.int32)
        return function(x, axis=axis, keepdims=keepdims)

    reduce.__name__ = name
    bind(reduce)


def of_booleans(boolean, numeric):
    """Two reductions as one: TensorFlow has others for booleans."""

    def reduce(x, **attrs):
        return (boolean if x.dtype is tf.bool else numeric)(x, **attrs)

    return reduce


reduction("reduce_sum", tf.math.reduce_sum)
reduction("reduce_mean", tf.math.reduce_mean)
reduction("reduce_max", of_booleans(tf.math.reduce_any, tf.math.reduce_max))
reduction("reduce_min", of_booleans(tf.math.reduce_all, tf.math.reduce_min))
reduction("reduce_prod", tf.math.reduce_prod)


def position(name, function):
    """Bind the position of an extreme element; TensorFlow knows neither all axes at once, kept ones nor the last."""

    def find(x, *, axis, keepdims, select_last_index):
        rank = len(x.shape)
        if axis is None:
            x = tf.reshape(x, [-1])
        if select_last_index:
            x = tf.reverse(x, [axis or 0])
        y = function(x, axis=axis or 0, output_type=tf.int64)
        if select_last_index:
            y = x.shape[axis or 0] - 1 - y
        if not keepdims:
            return y
        return tf.reshape(y, np.ones(rank, np.int32)) if axis is None else tf.expand_dims(y, axis)

    find.__name__ = name
    bind(find)


position("argmax", tf.math.argmax)
position("argmin", tf.math.argmin)

SCAN = {"axis": "axis", "exclusive": "exclusive", "reverse": "reverse"}

bind.rename({"cumsum": (tf.math.cumsum, SCAN), "cumprod": (tf.math.cumprod, SCAN)})
