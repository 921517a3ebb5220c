"""Recurrent networks, step by step from TensorFlow's primitives: its own layers hold their weights themselves."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind

REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def linear(x, w, bias):
    y = tf.linalg.matmul(x, w, transpose_b=True)
    return y if bias is None else tf.nn.bias_add(y, bias)


def halves(b):
    return (None, None) if b is None else tf.split(b, 2, axis=0)


def lstm_step(x, h, c, w, r, b):
    wb, rb = halves(b)
    i, o, f, z = tf.split(linear(x, w, wb) + linear(h, r, rb), 4, axis=1)
    c = tf.math.sigmoid(f) * c + tf.math.sigmoid(i) * tf.math.tanh(z)
    return tf.math.sigmoid(o) * tf.math.tanh(c), c


def gru_step(x, h, w, r, b, linear_before_reset):
    wb, rb = halves(b)
    hidden = h.shape[1]
    xz, xr, xn = tf.split(linear(x, w, wb), 3, axis=1)
    upper, lower = tf.split(r, [2 * hidden, hidden], axis=0)
    upper_bias, lower_bias = (None, None) if rb is None else tf.split(rb, [2 * hidden, hidden], axis=0)
    hz, hr = tf.split(linear(h, upper, upper_bias), 2, axis=1)
    z, reset = tf.math.sigmoid(xz + hz), tf.math.sigmoid(xr + hr)
    if linear_before_reset:
        hn = reset * linear(h, lower, lower_bias)
    else:
        hn = linear(reset * h, lower, lower_bias)
    n = tf.math.tanh(xn + hn)
    return (z * h + (1.0 - z) * n,)


def run(step, x, w, r, b, states, direction):
    """All hidden states and the last states, where ``step(x_t, *states, w, r, b)`` gives the next states, h first."""
    start = tf.zeros([r.shape[0], x.shape[1], r.shape[2]], x.dtype)
    # None where left out, and missing altogether at the end of the arguments.
    states = [start if state is None else state for state in states]
    sequences, last = [], []
    for d, backwards in enumerate(REVERSED[direction]):
        now = [state[d] for state in states]
        weights = w[d], r[d], None if b is None else b[d]
        steps = tf.unstack(x, axis=0)
        found = []
        for x_t in reversed(steps) if backwards else steps:
            now = step(x_t, *(tuple(now) + weights))
            found.append(now[0])
        if not found:
            sequences.append(tf.zeros([0, x.shape[1], r.shape[2]], x.dtype))
        else:
            sequences.append(tf.stack(found[::-1] if backwards else found, axis=0))
        last.append(now)
    return (tf.stack(sequences, axis=1),) + tuple(tf.stack(states, axis=0) for states in zip(*last))


@bind
def lstm(x, w, r, b=None, h0=None, c0=None, *, direction):
    return run(lstm_step, x, w, r, b, [h0, c0], direction)


@bind
def gru(x, w, r, b=None, h0=None, *, direction, linear_before_reset):
    def step(x_t, h, w_d, r_d, b_d):
        return gru_step(x_t, h, w_d, r_d, b_d, linear_before_reset)

    return run(step, x, w, r, b, [h0], direction)


@bind
def rnn(x, w, r, b=None, h0=None, *, direction, activation):
    function = tf.math.tanh if activation == "tanh" else tf.nn.relu

    def step(x_t, h, w_d, r_d, b_d):
        wb, rb = halves(b_d)
        return (function(linear(x_t, w_d, wb) + linear(h, r_d, rb)),)

    return run(step, x, w, r, b, [h0], direction)


@bind
def lstm_cell(x, h, c, w, r, b=None):
    return lstm_step(x, h, c, w, r, b)
