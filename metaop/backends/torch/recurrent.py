"""PyTorch's recurrent networks: its gates stand in another order, and its directions side by side in the last axis."""

import torch
import torch.nn.functional as F

from metaop.backends.torch.bindings import bind

# For each of PyTorch's gates, the place where ONNX has it: i f g o from i o f c, and r z n from z r h.
LSTM_GATES = (0, 2, 3, 1)
GRU_GATES = (1, 0, 2)


def reordered(tensor, gates, axis):
    blocks = torch.chunk(tensor, len(gates), axis)
    return torch.cat([blocks[i] for i in gates], axis)


def parameters(w, r, b, gates):
    """Per direction: input weights, recurrent weights and, if there are any, the two biases."""
    tensors = [reordered(w, gates, 1), reordered(r, gates, 1)]
    if b is not None:
        tensors += [reordered(half, gates, 1) for half in torch.chunk(b, 2, 1)]
    return [tensor[d] for d in range(w.shape[0]) for tensor in tensors]


def run(function, x, states, params, has_biases, direction):
    """``y`` as [T, D, N, H], and the last states."""
    backwards = direction == "reverse"
    if backwards:
        x = torch.flip(x, (0,))
    bidirectional = direction == "bidirectional"
    # On some devices only what ran in training mode can be differentiated; without dropout it changes no value.
    training = any(tensor.requires_grad for tensor in [x, *states, *params])
    hx = states if len(states) > 1 else states[0]
    y, *last = function(x, hx, params, has_biases, 1, 0.0, training, bidirectional, False)
    directions, batch, hidden = states[0].shape
    y = y.reshape(x.shape[0], batch, directions, hidden).permute(0, 2, 1, 3)
    return [torch.flip(y, (0,)) if backwards else y] + last


def zeros(x, r):
    return x.new_zeros((r.shape[0], x.shape[1], r.shape[2]))


@bind
def lstm(x, w, r, b=None, h0=None, c0=None, *, direction):
    h0 = zeros(x, r) if h0 is None else h0
    c0 = zeros(x, r) if c0 is None else c0
    return run(torch.lstm, x, (h0, c0), parameters(w, r, b, LSTM_GATES), b is not None, direction)


@bind
def gru(x, w, r, b=None, h0=None, *, direction, linear_before_reset):
    h0 = zeros(x, r) if h0 is None else h0
    if linear_before_reset:
        return run(torch.gru, x, (h0,), parameters(w, r, b, GRU_GATES), b is not None, direction)
    # PyTorch resets after the recurrent product only.
    steps, last = [], []
    for d in range(w.shape[0]):
        biases = (None, None) if b is None else torch.chunk(b[d], 2)
        y, h = gru_direction(x, w[d], r[d], biases, h0[d], direction == "reverse" or d == 1)
        steps.append(y)
        last.append(h)
    return torch.stack(steps, 1), torch.stack(last)


def gru_direction(x, w, r, biases, h, backwards):
    size = h.shape[1]
    split = [2 * size, size]
    recurrent = torch.split(r, split)
    recurrent_biases = (None, None) if biases[1] is None else torch.split(biases[1], split)
    inputs = F.linear(x, w, biases[0])
    y = [None] * x.shape[0]
    for t in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
        gates, hidden = torch.split(inputs[t], split, 1)
        update, reset = torch.chunk(torch.sigmoid(gates + F.linear(h, recurrent[0], recurrent_biases[0])), 2, 1)
        hidden = torch.tanh(hidden + F.linear(reset * h, recurrent[1], recurrent_biases[1]))
        h = (1 - update) * hidden + update * h
        y[t] = h
    return torch.stack(y), h


@bind
def rnn(x, w, r, b=None, h0=None, *, direction, activation):
    h0 = zeros(x, r) if h0 is None else h0
    function = torch.rnn_tanh if activation == "tanh" else torch.rnn_relu
    return run(function, x, (h0,), parameters(w, r, b, (0,)), b is not None, direction)


@bind
def lstm_cell(x, h, c, w, r, b=None):
    w, r = reordered(w, LSTM_GATES, 0), reordered(r, LSTM_GATES, 0)
    if b is None:
        return torch.lstm_cell(x, (h, c), w, r)
    return torch.lstm_cell(x, (h, c), w, r, *[reordered(half, LSTM_GATES, 0) for half in torch.chunk(b, 2)])
