"""Recurrent networks, step by step with ``lax.scan``: JAX's own run on NVIDIA's devices only."""

import jax
import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import bind

REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def linear(x, w, bias):
    y = jnp.matmul(x, w.T, precision=lax.Precision.HIGHEST)
    return y if bias is None else y + bias


def halves(b):
    return (None, None) if b is None else jnp.split(b, 2)


def lstm_step(states, x, w, r, b):
    h, c = states
    wb, rb = halves(b)
    i, o, f, z = jnp.split(linear(x, w, wb) + linear(h, r, rb), 4, axis=1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(z)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru_step(states, x, w, r, b, linear_before_reset):
    (h,) = states
    wb, rb = halves(b)
    split = 2 * h.shape[1]
    outer, inner = (None, None) if rb is None else jnp.split(rb, [split])
    xz, xr, xn = jnp.split(linear(x, w, wb), 3, axis=1)
    hz, hr = jnp.split(linear(h, r[:split], outer), 2, axis=1)
    z, reset = jax.nn.sigmoid(xz + hz), jax.nn.sigmoid(xr + hr)
    if linear_before_reset:
        n = jnp.tanh(xn + reset * linear(h, r[split:], inner))
    else:
        n = jnp.tanh(xn + linear(reset * h, r[split:], inner))
    return (z * h + (1.0 - z) * n,)


def run(step, x, w, r, b, states, direction):
    """All hidden states and the last states, where ``step(states, x_t, w, r, b)`` gives the next states, h first."""
    start = jnp.zeros((r.shape[0], x.shape[1], r.shape[2]), x.dtype)
    states = [start if state is None else state for state in states]
    sequences, last = [], []
    for d, backwards in enumerate(REVERSED[direction]):

        def scanned(now, x_t, d=d):
            now = step(now, x_t, w[d], r[d], None if b is None else b[d])
            return now, now[0]

        now, hidden = lax.scan(scanned, tuple(state[d] for state in states), x, reverse=backwards)
        sequences.append(hidden)
        last.append(now)
    return (jnp.stack(sequences, axis=1),) + tuple(jnp.stack(states) for states in zip(*last))


@bind
def lstm(x, w, r, b=None, h0=None, c0=None, *, direction):
    return run(lstm_step, x, w, r, b, [h0, c0], direction)


@bind
def gru(x, w, r, b=None, h0=None, *, direction, linear_before_reset):
    def step(states, x_t, w_d, r_d, b_d):
        return gru_step(states, x_t, w_d, r_d, b_d, linear_before_reset)

    return run(step, x, w, r, b, [h0], direction)


@bind
def lstm_cell(x, h, c, w, r, b=None):
    return lstm_step((h, c), x, w, r, b)


@bind
def rnn(x, w, r, b=None, h0=None, *, direction, activation):
    activate = jnp.tanh if activation == "tanh" else jax.nn.relu

    def step(states, x_t, w_d, r_d, b_d):
        wb, rb = halves(b_d)
        return (activate(linear(x_t, w_d, wb) + linear(states[0], r_d, rb)),)

    return run(step, x, w, r, b, [h0], direction)
