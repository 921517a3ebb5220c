"""Attention and rotation as TensorFlow's users write them: it has neither as an operator of its own."""

import math

import numpy as np
import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind


@bind
def attention(q, k, v, bias=None, mask=None, *, scale, is_causal, softcap):
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = tf.repeat(k, shared, axis=1), tf.repeat(v, shared, axis=1)
    scores = tf.linalg.matmul(q, k, transpose_b=True) * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if softcap:
        scores = softcap * tf.math.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if is_causal:
        earlier = tf.constant(np.tri(q.shape[2], k.shape[2], dtype=bool))
        mask = earlier if mask is None else tf.math.logical_and(mask, earlier)
    if mask is not None:
        scores = tf.where(mask, scores, tf.constant(-math.inf, scores.dtype))
    if bias is None and mask is None:
        return tf.linalg.matmul(tf.nn.softmax(scores, axis=-1), v)
    # Where nothing is left the softmax would be NaN, also on the way back: there it is taken of zeros.
    left = tf.math.reduce_max(scores, axis=-1, keepdims=True) > -math.inf
    weights = tf.nn.softmax(tf.where(left, scores, tf.zeros_like(scores)), axis=-1)
    return tf.linalg.matmul(tf.where(left, weights, tf.zeros_like(weights)), v)


@bind
def rotary_embedding(x, cos, sin, position_ids=None, *, interleaved, rotary_embedding_dim):
    turned = rotary_embedding_dim or x.shape[3]
    if position_ids is not None:
        cos, sin = tf.gather(cos, position_ids, axis=0), tf.gather(sin, position_ids, axis=0)
    head = x[..., :turned]
    if interleaved:
        cos, sin = tf.repeat(cos, 2, axis=-1), tf.repeat(sin, 2, axis=-1)
        crossed = tf.reshape(tf.stack([-head[..., 1::2], head[..., ::2]], axis=-1), head.shape)
    else:
        cos, sin = tf.concat([cos, cos], axis=-1), tf.concat([sin, sin], axis=-1)
        first, second = tf.split(head, 2, axis=-1)
        crossed = tf.concat([-second, first], axis=-1)
    y = head * tf.expand_dims(cos, 1) + crossed * tf.expand_dims(sin, 1)
    return y if turned == x.shape[3] else tf.concat([y, x[..., turned:]], axis=-1)
