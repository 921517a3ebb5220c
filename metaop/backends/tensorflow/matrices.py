"""TensorFlow's matrices."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind


@bind
def trilu(x, *, k, upper):
    rows, columns = (int(s) for s in x.shape[-2:])
    k = max(-rows, min(k, columns))
    if upper and k <= 0:
        return tf.linalg.band_part(x, -k, -1)
    if not upper and k >= 0:
        return tf.linalg.band_part(x, -1, k)
    # A band contains the main diagonal: these are what such a band leaves.
    everywhere = tf.ones([rows, columns], tf.bool)
    band = tf.linalg.band_part(everywhere, -1, k - 1) if upper else tf.linalg.band_part(everywhere, -k - 1, -1)
    return tf.where(band, tf.zeros([], x.dtype), x)


@bind
def eye_like(x, *, k, dtype):
    rows, columns = (int(s) for s in x.shape)
    k = max(-rows, min(k, columns))
    dtype = x.dtype if dtype is None else tf.as_dtype(dtype)
    # tf.eye has the main diagonal only: the k-th is that of a larger matrix, of which a part is taken.
    below, right = max(k, 0), max(-k, 0)
    return tf.eye(rows + below, num_columns=columns + right, dtype=dtype)[below:, right:]


@bind
def det(x):
    return tf.linalg.det(x)
