"""TensorFlow's sorting and selecting."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.errors import UnsupportedOpError


def backwards(x):
    """Numbers in the opposite order, none of them lost."""
    return -x if x.dtype.is_floating else tf.bitwise.invert(x)


@bind
def topk(x, *, k, axis, largest, sorted):
    rank = len(x.shape)
    axis = axis % rank
    # TensorFlow takes the largest of the last axis.
    there = [i for i in range(rank) if i != axis] + [axis]
    back = [there.index(i) for i in range(rank)]
    rows = x if axis == rank - 1 else tf.transpose(x, there)
    values, indices = tf.math.top_k(rows if largest else backwards(rows), k=k, sorted=sorted)
    values = values if largest else backwards(values)
    indices = tf.cast(indices, tf.int64)
    return (values, indices) if axis == rank - 1 else (tf.transpose(values, back), tf.transpose(indices, back))


@bind
def nonzero(x):
    if not len(x.shape):
        raise UnsupportedOpError("tf.where takes no scalars")
    return tf.transpose(tf.where(x if x.dtype == tf.bool else tf.not_equal(x, tf.zeros([], x.dtype))))


@bind
def compress(x, condition, *, axis):
    if axis is None:
        x, axis = tf.reshape(x, [-1]), 0
    kept = tf.reshape(tf.where(condition), [-1])
    return tf.gather(x, kept, axis=axis, batch_dims=0)


@bind
def unique(x, *, axis, sorted):
    if axis is None:
        x, axis = tf.reshape(x, [-1]), 0
    axis = axis % len(x.shape)
    y, inverse, counts = tf.raw_ops.UniqueWithCountsV2(x=x, axis=[axis], out_idx=tf.int64)
    number, size = tf.size(counts, out_type=tf.int64), x.shape[axis]
    # TensorFlow does not say where each first occurs: the lowest place of each.
    first = tf.math.unsorted_segment_min(tf.range(size, dtype=tf.int64), inverse, num_segments=number)
    if sorted:
        if len(x.shape) > 1:
            raise UnsupportedOpError("TensorFlow lists distinct slices as they first occur, and cannot sort them")
        if x.dtype == tf.bool:
            raise UnsupportedOpError("TensorFlow sorts no booleans")
        order = tf.argsort(y, direction="ASCENDING", stable=True)
        y, first, counts = (tf.gather(t, order) for t in (y, first, counts))
        inverse = tf.gather(tf.cast(tf.math.invert_permutation(order), tf.int64), inverse)
    return y, first, inverse, counts


@bind
def non_max_suppression(boxes, scores, *, max_output_boxes_per_class, iou_threshold, score_threshold, center_point_box):
    if center_point_box:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        boxes = tf.concat([middle - half, middle + half], axis=-1)
    rows = [tf.zeros([0, 3], tf.int64)]
    for batch in range(scores.shape[0]):
        for kind in range(scores.shape[1]):
            kept = tf.image.non_max_suppression(
                boxes[batch],
                scores[batch, kind],
                max_output_size=max_output_boxes_per_class,
                iou_threshold=iou_threshold,
                score_threshold=float("-inf") if score_threshold is None else score_threshold,
            )
            kept = tf.cast(kept, tf.int64)
            rows.append(
                tf.stack([tf.fill(tf.shape(kept), tf.constant(n, tf.int64)) for n in (batch, kind)] + [kept], 1)
            )
    return tf.concat(rows, axis=0)
