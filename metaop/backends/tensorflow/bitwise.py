"""TensorFlow's operations on bits."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind, where_kernels_exist

bind.rename(
    {
        "bitwise_and": tf.bitwise.bitwise_and,
        "bitwise_or": tf.bitwise.bitwise_or,
        "bitwise_xor": tf.bitwise.bitwise_xor,
        "bitwise_not": tf.bitwise.invert,
        "bit_cast": (where_kernels_exist(tf.bitcast), {"to": "type"}),
    }
)


@bind
def bit_shift(x, y, *, direction):
    # By documentation TensorFlow shifts in its own way by fewer than no places, or by as many as there are bits.
    bits = tf.constant(8 * x.dtype.size, x.dtype)
    zero = tf.constant(0, x.dtype)
    inside = tf.logical_and(tf.math.greater_equal(y, zero), tf.math.less(y, bits))
    places = tf.where(inside, y, zero)
    if direction == "left":
        return tf.where(inside, tf.bitwise.left_shift(x, places), zero)
    gone = zero if x.dtype.is_unsigned else tf.where(x < zero, tf.constant(-1, x.dtype), zero)
    return tf.where(inside, tf.bitwise.right_shift(x, places), gone)
