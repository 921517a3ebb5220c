"""TensorFlow's gathers and scatters."""

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.movement import from_the_front, product
from metaop.errors import UnsupportedOpError

UPDATES = {
    "none": tf.tensor_scatter_nd_update,
    "add": tf.tensor_scatter_nd_add,
    "max": getattr(tf, "tensor_scatter_nd_max", None),
    "min": getattr(tf, "tensor_scatter_nd_min", None),
}


def places(indices, axis, size):
    """For each element the index along every axis: its own place, but along ``axis`` what ``indices`` say."""
    rank = len(indices.shape)
    where = list(np.indices(tuple(indices.shape), dtype=indices.dtype.as_numpy_dtype))
    where[axis % rank] = from_the_front(indices, size)
    return tf.stack(where, axis=-1)


def places_nd(indices, sizes):
    """The indices of the last axis, from the front."""
    return tf.where(indices < 0, indices + tf.constant(np.array(sizes), indices.dtype), indices)


def scattered(x, where, updates, reduction):
    if reduction == "mul":
        # TensorFlow scatters no factors into a tensor, but multiplies those of each place. Of two indices one number is
        # made for that, which may hide that one is out of range; reading there does not.
        tf.gather_nd(x, where)
        depth = where.shape[-1]
        sizes = [int(s) for s in x.shape[:depth]]
        strides = np.array([product(sizes[i + 1 :]) for i in range(depth)])
        place = tf.reduce_sum(where * tf.constant(strides, where.dtype), axis=-1)
        rest = [int(s) for s in x.shape[depth:]]
        rows = tf.reshape(updates, [product(place.shape)] + rest)
        factors = tf.math.unsorted_segment_prod(rows, tf.reshape(place, [-1]), num_segments=product(sizes))
        return x * tf.reshape(factors, [int(s) for s in x.shape])
    if UPDATES[reduction] is None:
        raise UnsupportedOpError("TensorFlow {} scatters no extreme values; later releases do".format(tf.__version__))
    return UPDATES[reduction](x, where, updates)


@bind
def gather_elements(x, indices, *, axis):
    return tf.gather_nd(x, places(indices, axis, x.shape[axis]), batch_dims=0)


@bind
def gather_nd(x, indices, *, batch_dims):
    depth = indices.shape[-1]
    where = places_nd(indices, [int(s) for s in x.shape[batch_dims : batch_dims + depth]])
    if len(indices.shape) == 1:
        # Of one index alone TensorFlow finds no way back.
        return tf.gather_nd(x, where[tf.newaxis], batch_dims=0)[0]
    return tf.gather_nd(x, where, batch_dims=batch_dims)


@bind
def scatter_elements(x, indices, updates, *, axis, reduction):
    return scattered(x, places(indices, axis, x.shape[axis]), updates, reduction)


@bind
def scatter_nd(x, indices, updates, *, reduction):
    where = places_nd(indices, [int(s) for s in x.shape[: indices.shape[-1]]])
    if len(indices.shape) == 1:
        # TensorFlow wants several, if only one.
        where, updates = where[tf.newaxis], updates[tf.newaxis]
    return scattered(x, where, updates, reduction)


@bind
def tensor_scatter(x, update, write_indices=None, *, axis, mode):
    rank = len(x.shape)
    axis = axis % rank
    size = int(x.shape[axis])
    own = np.indices(tuple(update.shape), dtype=np.int64)
    where = list(own)
    if write_indices is not None:
        start = tf.reshape(tf.cast(write_indices, tf.int64), [-1] + [1] * (rank - 1))
        where[axis] = start + own[axis]
        if mode == "circular":
            where[axis] = tf.math.floormod(where[axis], tf.constant(size, tf.int64))
    return tf.tensor_scatter_nd_update(x, tf.stack(where, axis=-1), update)


@bind
def one_hot(indices, values, *, depth, axis):
    places = from_the_front(indices, depth)
    # The values are chosen afterwards, for TensorFlow does not differentiate by them.
    hot = tf.one_hot(places, depth, on_value=True, off_value=False, axis=axis % (len(indices.shape) + 1), dtype=tf.bool)
    return tf.where(hot, values[1], values[0])
