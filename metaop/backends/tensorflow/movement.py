"""TensorFlow's reshaping, joining, slicing and padding."""

import builtins

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import RELEASE, bind


def product(sizes):
    result = 1
    for size in sizes:
        result *= int(size)
    return result


@bind
def transpose(x, *, perm):
    return tf.transpose(x, perm=perm)


@bind
def reshape(x, *, shape):
    return tf.reshape(x, np.array(shape, np.int64))


@bind
def flatten(x, *, axis):
    axis = axis + len(x.shape) if axis < 0 else axis
    return tf.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


@bind
def squeeze(x, *, axes):
    # To TensorFlow an empty list means all axes of size 1.
    return tf.identity(x) if axes == () else tf.squeeze(x, axis=axes)


@bind
def unsqueeze(x, *, axes):
    rank = len(x.shape) + len(axes)
    x = tf.identity(x) if not axes else x
    for axis in sorted(a % rank for a in axes):
        x = tf.expand_dims(x, axis=axis)
    return x


@bind
def expand(x, *, shape):
    rank = max(len(shape), len(x.shape))
    own = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    wanted = (1,) * (rank - len(shape)) + tuple(shape)
    sizes = [a if b == 1 else b for a, b in zip(own, wanted)]
    # In old releases the gradient takes int32 only.
    return tf.broadcast_to(x, np.array(sizes, np.int64 if RELEASE >= (2, 4) else np.int32))


@bind
def concat(*inputs, axis):
    return tf.concat(inputs, axis=axis)


@bind
def stack(*inputs, axis):
    return tf.stack(inputs, axis=axis)


@bind
def split(x, *, axis, split, num_outputs):
    if split is None:
        size = x.shape[axis]
        each = -(-size // num_outputs)
        split = [each] * (num_outputs - 1) + [size - each * (num_outputs - 1)]
    return tf.split(x, num_or_size_splits=list(split), axis=axis)


@bind
def slice(x, *, starts, ends, axes, steps):
    where = [builtins.slice(None)] * len(x.shape)
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = i if axes is None else axes[i]
        where[axis] = clamped(start, end, 1 if steps is None else steps[i], x.shape[axis])
    return x[tuple(where)] if where else tf.identity(x)


def clamped(start, end, step, size):
    """Positions that fit 32 bits; ONNX, unlike Python, moves a start that is too far onto the nearest element."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return builtins.slice(min(max(start, 0), size), min(max(end, 0), size), step)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return builtins.slice(start, None if end == -1 else end, step) if size else builtins.slice(0, 0)


def from_the_front(indices, size):
    """TensorFlow's gathers know no negative indices."""
    return tf.where(indices < 0, indices + tf.constant(size, indices.dtype), indices)


@bind
def gather(x, indices, *, axis):
    return tf.gather(x, from_the_front(indices, x.shape[axis]), axis=axis, batch_dims=0)


@bind
def scatter_add(indices, updates, *, axis, size):
    count = len(indices.shape)
    rank = len(updates.shape) - count + 1
    axis = axis % rank
    spread = list(range(axis, axis + count))
    others = [i for i in range(len(updates.shape)) if i not in spread]
    # TensorFlow adds along the first axis; TensorFlow Lite, moreover, only where there is one axis of indices.
    moved = tf.transpose(updates, spread + others)
    if count != 1:
        moved = tf.reshape(moved, [product(indices.shape)] + list(moved.shape[count:]))
        indices = tf.reshape(indices, [product(indices.shape)])
    y = tf.math.unsorted_segment_sum(moved, from_the_front(indices, size), num_segments=size)
    return tf.transpose(y, list(range(1, axis + 1)) + [0] + list(range(axis + 1, rank)))


@bind
def pad(x, *, pads, mode, value):
    rank = len(x.shape)
    if not rank:
        return tf.identity(x)
    widths = np.array([pads[:rank], pads[rank:]], np.int32).T
    if mode == "constant":
        return tf.pad(x, widths, mode="CONSTANT", constant_values=x.dtype.as_numpy_dtype(value))
    if mode == "reflect":
        return tf.pad(x, widths, mode="REFLECT")
    for axis, (before, after) in enumerate(widths):
        if before or after:
            source = np.clip(np.arange(-before, x.shape[axis] + after), 0, x.shape[axis] - 1)
            x = tf.gather(x, source, axis=axis)
    return x
