"""TensorFlow's repeating, cropping, shuffling and counting."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last


@bind
def tile(x, *, repeats):
    return tf.tile(x, np.array(repeats, np.int64))


@bind
def center_crop_pad(x, *, shape, axes):
    rank = len(x.shape)
    cut, widths = [slice(None)] * rank, np.zeros((rank, 2), np.int32)
    for i, size in enumerate(shape):
        axis = i if axes is None else axes[i] % rank
        less = int(x.shape[axis]) - size
        if less > 0:
            cut[axis] = slice(less // 2, less // 2 + size)
        else:
            widths[axis] = -less // 2, -less - -less // 2
    return tf.pad(x[tuple(cut)], widths, mode="CONSTANT", constant_values=x.dtype.as_numpy_dtype(0))


def regroup(x, outer, inner):
    """The channels, numbered (outer, inner), numbered (inner, outer)."""
    n, h, w, _ = x.shape
    return tf.reshape(tf.transpose(tf.reshape(x, [n, h, w, outer, inner]), [0, 1, 2, 4, 3]), [n, h, w, outer * inner])


@bind
def depth_to_space(x, *, blocksize, mode):
    square = blocksize * blocksize
    y = channels_last(x)
    if mode == "CRD":
        y = regroup(y, x.shape[1] // square, square)
    return channels_first(tf.nn.depth_to_space(y, blocksize) if blocksize > 1 else y)


@bind
def space_to_depth(x, *, blocksize, mode):
    square = blocksize * blocksize
    y = channels_last(x)
    y = tf.nn.space_to_depth(y, blocksize) if blocksize > 1 else y
    if mode == "CRD":
        y = regroup(y, square, x.shape[1])
    return channels_first(y)


@bind
def reverse_sequence(x, sequence_lens, *, batch_axis, time_axis):
    rank = len(x.shape)
    return tf.reverse_sequence(x, sequence_lens, seq_axis=time_axis % rank, batch_axis=batch_axis % rank)


@bind
def range(*, start, limit, delta, dtype):
    # TensorFlow refuses a step that leads away from the limit; there is nothing between them then.
    limit = limit if (limit - start) * delta > 0 else start
    return tf.range(start, limit, delta, dtype=tf.as_dtype(dtype))
