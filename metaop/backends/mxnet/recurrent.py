"""MXNet's recurrent networks: other gate orders, all parameters in one vector, directions side by side."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind

# For each of MXNet's gates, the place where ONNX has it: i f c o from i o f c, and r z n from z r h.
LSTM_GATES = (0, 2, 3, 1)
GRU_GATES = (1, 0, 2)


def reordered(tensor, gates, axis):
    blocks = mx.np.split(tensor, len(gates), axis=axis)
    return mx.np.concatenate([blocks[i] for i in gates], axis=axis)


def parameters(w, r, b, gates):
    """All weights, direction by direction, then all biases."""
    w, r = reordered(w, gates, 1), reordered(r, gates, 1)
    if b is None:
        biases = mx.np.zeros((2 * w.shape[0] * w.shape[1],), dtype=w.dtype, ctx=w.ctx)
    else:
        biases = mx.np.concatenate([reordered(half, gates, 1) for half in mx.np.split(b, 2, axis=1)], axis=1)
    weights = [t[d].reshape(-1) for d in range(w.shape[0]) for t in (w, r)]
    return mx.np.concatenate(weights + [biases.reshape(-1)], axis=0)


def run(mode, x, states, params, direction):
    """``y`` as [T, D, N, H], and the last states."""
    backwards = direction == "reverse"
    directions, batch, hidden = states[0].shape
    y, *last = mx.npx.rnn(
        mx.np.flip(x, 0) if backwards else x,
        params,
        *states,
        mode=mode,
        state_size=hidden,
        num_layers=1,
        bidirectional=direction == "bidirectional",
        p=0.0,
        state_outputs=True,
    )
    y = mx.np.transpose(y.reshape((x.shape[0], batch, directions, hidden)), (0, 2, 1, 3))
    return [mx.np.flip(y, 0) if backwards else y] + last


def zeros(x, r):
    return mx.np.zeros((r.shape[0], x.shape[1], r.shape[2]), dtype=x.dtype, ctx=x.ctx)


@bind
def lstm(x, w, r, b=None, h0=None, c0=None, *, direction):
    h0 = zeros(x, r) if h0 is None else h0
    c0 = zeros(x, r) if c0 is None else c0
    return run("lstm", x, (h0, c0), parameters(w, r, b, LSTM_GATES), direction)


@bind
def gru(x, w, r, b=None, h0=None, *, direction, linear_before_reset):
    h0 = zeros(x, r) if h0 is None else h0
    if linear_before_reset:
        return run("gru", x, (h0,), parameters(w, r, b, GRU_GATES), direction)
    # MXNet resets after the recurrent product only.
    steps, last = [], []
    for d in range(w.shape[0]):
        biases = (None, None) if b is None else mx.np.split(b[d], 2)
        y, h = gru_direction(x, w[d], r[d], biases, h0[d], direction == "reverse" or d == 1)
        steps.append(y)
        last.append(h)
    return mx.np.stack(steps, axis=1), mx.np.stack(last)


def linear(x, w, b):
    return mx.npx.fully_connected(x, w, b, num_hidden=w.shape[0], no_bias=b is None, flatten=False)


def gru_direction(x, w, r, biases, h, backwards):
    size = h.shape[1]
    recurrent = mx.np.split(r, [2 * size])
    recurrent_biases = (None, None) if biases[1] is None else mx.np.split(biases[1], [2 * size])
    inputs = linear(x, w, biases[0])
    y = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
        gates, hidden = mx.np.split(inputs[t], [2 * size], axis=1)
        gates = mx.npx.sigmoid(gates + linear(h, recurrent[0], recurrent_biases[0]))
        update, reset = mx.np.split(gates, 2, axis=1)
        hidden = mx.np.tanh(hidden + linear(reset * h, recurrent[1], recurrent_biases[1]))
        h = (1 - update) * hidden + update * h
        y[t] = h
    return mx.np.stack(y), h


@bind
def rnn(x, w, r, b=None, h0=None, *, direction, activation):
    h0 = zeros(x, r) if h0 is None else h0
    return run("rnn_" + activation, x, (h0,), parameters(w, r, b, (0,)), direction)


@bind
def lstm_cell(x, h, c, w, r, b=None):
    # As gluon.rnn.LSTMCell, with ONNX's gates.
    biases = (None, None) if b is None else mx.np.split(b, 2)
    gates = linear(x, w, biases[0]) + linear(h, r, biases[1])
    i, o, f, z = mx.np.split(gates, 4, axis=1)
    c = mx.npx.sigmoid(f) * c + mx.npx.sigmoid(i) * mx.np.tanh(z)
    return mx.npx.sigmoid(o) * mx.np.tanh(c), c
