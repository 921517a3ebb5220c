"""Recurrent layers. ONNX's own layout and gate order are the meta operators'."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind


def _refuse(o, dtype, shape):
    """What the session is built for all the same, to fail when it is run."""
    if dtype == np.float64:
        o.no_kernel("its recurrent kernels do not take float64")
    if 0 in shape:
        o.no_kernel("its recurrent kernels abort the process on empty tensors")


def _directions(direction):
    return 2 if direction == "bidirectional" else 1


def _lstm(o, x, w, r, b, h0, c0, direction, hidden_size):
    return o.LSTM(
        x,
        w,
        r,
        b,
        None,
        h0,
        c0,
        activations=("Sigmoid", "Tanh", "Tanh") * _directions(direction),
        direction=direction,
        hidden_size=hidden_size,
        input_forget=0,
        layout=0,
        outputs=3,
    )


@bind
def lstm(o, x, w, r, b=None, h0=None, c0=None, *, direction):
    _refuse(o, x.dtype, x.shape)
    return _lstm(o, x, w, r, b, h0, c0, direction, r.shape[-1])


@bind
def gru(o, x, w, r, b=None, h0=None, *, direction, linear_before_reset):
    _refuse(o, x.dtype, x.shape)
    return o.GRU(
        x,
        w,
        r,
        b,
        None,
        h0,
        activations=("Sigmoid", "Tanh") * _directions(direction),
        direction=direction,
        hidden_size=r.shape[-1],
        layout=0,
        linear_before_reset=linear_before_reset,
        outputs=2,
    )


@bind
def rnn(o, x, w, r, b=None, h0=None, *, direction, activation):
    _refuse(o, x.dtype, x.shape)
    return o.RNN(
        x,
        w,
        r,
        b,
        None,
        h0,
        activations=({"tanh": "Tanh", "relu": "Relu"}[activation],) * _directions(direction),
        direction=direction,
        hidden_size=r.shape[-1],
        layout=0,
        outputs=2,
    )


@bind
def lstm_cell(o, x, h, c, w, r, b=None):
    _refuse(o, x.dtype, x.shape)
    one = [t if t is None else o.Unsqueeze(t, (0,)) for t in (x, w, r, b, h, c)]
    _, h, c = _lstm(o, *one, direction="forward", hidden_size=r.shape[-1])
    return o.Squeeze(h, (0,)), o.Squeeze(c, (0,))
