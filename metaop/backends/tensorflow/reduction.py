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


reduction("reduce_sum", tf.math.reduce_sum)
reduction("reduce_mean", tf.math.reduce_mean)
reduction("reduce_max", tf.math.reduce_max)
reduction("reduce_min", tf.math.reduce_min)
reduction("reduce_prod", tf.math.reduce_prod)


def position(name, function):
    """Bind the position of an extreme element; TensorFlow knows neither all axes at once nor kept ones."""

    def find(x, *, axis, keepdims):
        rank = len(x.shape)
        y = function(tf.reshape(x, [-1]) if axis is None else x, axis=axis or 0, output_type=tf.int64)
        if not keepdims:
            return y
        return tf.reshape(y, np.ones(rank, np.int32)) if axis is None else tf.expand_dims(y, axis)

    find.__name__ = name
    bind(find)


position("argmax", tf.math.argmax)
position("argmin", tf.math.argmin)

bind.rename({"cumsum": (tf.math.cumsum, {"axis": "axis", "exclusive": "exclusive", "reverse": "reverse"})})
