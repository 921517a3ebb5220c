"""Recurrent networks, in ONNX's layout, gate order and default activations.

Sizes: T steps, N sequences, I inputs, H hidden units, D directions (2 for bidirectional, else 1). All sequences have
the full length T. With ``reverse`` the steps run from the last to the first, and ``y`` stays aligned with ``x``.
"""

import re
from typing import Literal

import numpy as np

from metaop.errors import ShapeError
from metaop.ops.domain import reals
from metaop.ops.rules import require_rank
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, TensorType

Direction = Literal["forward", "reverse", "bidirectional"]

# For each direction, in the order of axis D: whether it runs backwards.
_REVERSED = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

_SMALL = reals(-1.0, 1.0)

# -- sizes ----------------------------------------------------------------------------------------------------------


def _fit(tensors, known=()):
    """The sizes that all tensors agree on, by letter, ``None`` where unknown.

    ``tensors`` are (name, layout, type) with a layout such as ``"D 4H I"``; ``known`` are (letter, size, where from).
    """
    sizes = {letter: (size, source) for letter, size, source in known}
    for name, layout, tensor in tensors:
        axes = layout.split()
        if tensor is None or tensor.shape is None:
            continue
        require_rank(f"{name} [{', '.join(axes)}]", tensor, len(axes), len(axes))
        for axis, size in zip(axes, tensor.shape, strict=True):
            if size is None:
                continue
            factor, letter = re.fullmatch(r"(\d*)(\w)", axis).groups()
            if size % int(factor or 1):
                raise ShapeError(f"{name} [{', '.join(axes)}]: {axis} is a multiple of {factor}; got {tensor}")
            size //= int(factor or 1)
            seen, source = sizes.setdefault(letter, (size, f"{name} {tensor}"))
            if seen != size:
                raise ShapeError(
                    f"{name} [{', '.join(axes)}] does not fit: {tensor} says {letter} = {size}, and {source} says "
                    f"{letter} = {seen}"
                )
    return lambda letter: sizes[letter][0] if letter in sizes else None


def _sequence_types(gates, direction, x, w, r, b, *states):
    rows = f"{gates}H" if gates > 1 else "H"
    size = _fit(
        [
            ("x", "T N I", x),
            ("w", f"D {rows} I", w),
            ("r", f"D {rows} H", r),
            ("b", f"D {2 * gates}H", b),
            *[(name, "D N H", state) for name, state in zip(("h0", "c0"), states, strict=False)],
        ],
        known=[("D", len(_REVERSED[direction]), f"direction={direction!r}")],
    )
    last = TensorType(x.dtype, (size("D"), size("N"), size("H")))
    return TensorType(x.dtype, (size("T"), *last.shape)), *[last for _ in states]


def _lstm_rule(x, w, r, b=None, h0=None, c0=None, *, direction):
    return _sequence_types(4, direction, x, w, r, b, h0, c0)


def _gru_rule(x, w, r, b=None, h0=None, *, direction, linear_before_reset):
    return _sequence_types(3, direction, x, w, r, b, h0)


def _rnn_rule(x, w, r, b=None, h0=None, *, direction, activation):
    return _sequence_types(1, direction, x, w, r, b, h0)


def _lstm_cell_rule(x, h, c, w, r, b=None):
    size = _fit([("x", "N I", x), ("h", "N H", h), ("c", "N H", c), ("w", "4H I", w), ("r", "4H H", r), ("b", "8H", b)])
    new = TensorType(x.dtype, (size("N"), size("H")))
    return new, new


# -- the references ---------------------------------------------------------------------------------------------------


def _sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _halves(b, d, gates, r):
    """The input bias and the recurrent bias of direction ``d``; zeros where there is no ``b``."""
    hidden = r.shape[-1]
    both = np.zeros(2 * gates * hidden, r.dtype) if b is None else b[d]
    return both[: gates * hidden], both[gates * hidden :]


def _lstm_step(x, h, c, w, r, wb, rb):
    i, o, f, z = np.split(x @ w.T + h @ r.T + (wb + rb), 4, axis=-1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(z)
    return _sigmoid(o) * np.tanh(c), c


def _gru_step(x, h, w, r, wb, rb, linear_before_reset):
    hidden = h.shape[-1]
    gates = x @ w.T + wb
    z, reset = np.split(_sigmoid(gates[:, : 2 * hidden] + h @ r[: 2 * hidden].T + rb[: 2 * hidden]), 2, axis=-1)
    if linear_before_reset:
        recurrent = reset * (h @ r[2 * hidden :].T + rb[2 * hidden :])
    else:
        recurrent = (reset * h) @ r[2 * hidden :].T + rb[2 * hidden :]
    return (1 - z) * np.tanh(gates[:, 2 * hidden :] + recurrent) + z * h


def _initial(state, x, r):
    return np.zeros((r.shape[0], x.shape[1], r.shape[2]), x.dtype) if state is None else state


def _run(step, x, states, direction):
    """``y`` and the last states, where ``step(d, x_t, *states)`` gives the next states of direction ``d``, h first."""
    y = np.empty((x.shape[0], *states[0].shape), x.dtype)
    last = [np.array(s) for s in states]
    for d, backwards in enumerate(_REVERSED[direction]):
        now = [s[d] for s in states]
        for t in range(len(x))[:: -1 if backwards else 1]:
            now = step(d, x[t], *now)
            y[t, d] = now[0]
        for kept, state in zip(last, now, strict=True):
            kept[d] = state
    return (y, *last)


# -- back-propagation, in meta operators ----------------------------------------------------------------------------


def _at(m, x, index):
    """``x[index]``, with the index as data: every step then is the same operator to backends that compile."""
    return m.gather(x, m.constant(index, np.int64), axis=0)


def _product(m, *factors):
    result = factors[0]
    for factor in factors[1:]:
        result = m.multiply(result, factor)
    return result


def _sigmoid_slope(m, y):
    return m.multiply(y, m.subtract(1.0, y))


def _tanh_slope(m, y):
    return m.subtract(1.0, m.square(y))


def _linear(m, x, w, bias):
    product = m.matmul(x, m.transpose(w, perm=(1, 0)))
    return product if bias is None else m.add(product, bias)


def _rows(m, x):
    """All steps and sequences along one axis."""
    shape = m.shape(x)
    return m.reshape(x, shape=(int(np.prod(shape[:-1])), shape[-1]))


def _steps(m, tensors, x, width):
    """One tensor per step along a new first axis; a sequence may have no steps."""
    return m.stack(*tensors, axis=0) if tensors else m.constant(np.zeros((0, m.shape(x)[1], width)), m.dtype(x))


def _weight_gradient(m, g, x):
    return m.matmul(m.transpose(_rows(m, g), perm=(1, 0)), _rows(m, x))


def _lstm_forward(m, gates, h, c, r):
    """One step from the input's part of the gates; also what the way back needs."""
    i, o, f, z = m.split(m.add(gates, _linear(m, h, r, None)), axis=1, num_outputs=4)
    i, o, f, z = m.sigmoid(i), m.sigmoid(o), m.sigmoid(f), m.tanh(z)
    new_c = m.add(m.multiply(f, c), m.multiply(i, z))
    t = m.tanh(new_c)
    return m.multiply(o, t), new_c, (i, o, f, z, c, t)


def _lstm_backward(m, gh, gc, saved):
    """The gradients of the gates (before activation) and of the previous c."""
    i, o, f, z, c, t = saved
    gc = m.add(gc, _product(m, gh, o, _tanh_slope(m, t)))
    gates = m.concat(
        _product(m, gc, z, _sigmoid_slope(m, i)),
        _product(m, gh, t, _sigmoid_slope(m, o)),
        _product(m, gc, c, _sigmoid_slope(m, f)),
        _product(m, gc, i, _tanh_slope(m, z)),
        axis=1,
    )
    return gates, m.multiply(gc, f)


def _gru_forward(m, gates, h, r, bias, linear_before_reset):
    hidden = m.shape(h)[1]
    xz, xr, xn = m.split(gates, axis=1, num_outputs=3)
    if linear_before_reset:
        hz, hr, inner = m.split(_linear(m, h, r, bias), axis=1, num_outputs=3)
    else:
        upper, lower = m.split(r, axis=0, split=(2 * hidden, hidden))
        hz, hr = m.split(_linear(m, h, upper, None), axis=1, num_outputs=2)
    z, reset = m.sigmoid(m.add(xz, hz)), m.sigmoid(m.add(xr, hr))
    if not linear_before_reset:
        inner = m.multiply(reset, h)
    n = m.tanh(m.add(xn, m.multiply(reset, inner) if linear_before_reset else _linear(m, inner, lower, None)))
    new = m.add(m.multiply(m.subtract(1.0, z), n), m.multiply(z, h))
    return new, (z, reset, n, h, inner)


def _gru_backward(m, gh, saved, r, linear_before_reset):
    """The gradients of the input's and of the recurrent part of the gates, and of the previous h."""
    z, reset, n, h, inner = saved
    hidden = m.shape(h)[1]
    gz = _product(m, gh, m.subtract(h, n), _sigmoid_slope(m, z))
    gn = _product(m, gh, m.subtract(1.0, z), _tanh_slope(m, n))
    previous = m.multiply(gh, z)
    if linear_before_reset:
        gr = _product(m, gn, inner, _sigmoid_slope(m, reset))
        recurrent = m.concat(gz, gr, m.multiply(gn, reset), axis=1)
        return m.concat(gz, gr, gn, axis=1), recurrent, m.add(previous, m.matmul(recurrent, r))
    upper, lower = m.split(r, axis=0, split=(2 * hidden, hidden))
    ginner = m.matmul(gn, lower)
    gr = _product(m, ginner, h, _sigmoid_slope(m, reset))
    previous = m.add(previous, m.multiply(ginner, reset))
    previous = m.add(previous, m.matmul(m.concat(gz, gr, axis=1), upper))
    both = m.concat(gz, gr, gn, axis=1)
    return both, both, previous


def _padded(inputs, count):
    return [*inputs, *[None] * (count - len(inputs))]


def _start(m, state, d, x, hidden):
    """The initial state of direction ``d``."""
    return m.constant(np.zeros((m.shape(x)[1], hidden)), m.dtype(x)) if state is None else _at(m, state, d)


def _bias_gradient(m, g):
    return m.reduce_sum(_rows(m, g), axes=(0,))


def _collect(m, found, inputs):
    """Per-direction gradients, x first, as those of the inputs: x is shared by the directions, the others stacked."""
    total = found[0][0]
    for one in found[1:]:
        total = m.add(total, one[0])
    stacked = [
        None if group[0] is None else m.stack(*group, axis=0) for group in zip(*[f[1:] for f in found], strict=True)
    ]
    return tuple(g if given is not None else None for g, given in zip([total, *stacked], inputs, strict=False))


# -- declarations ---------------------------------------------------------------------------------------------------

_WEIGHTS = {"w": _SMALL, "r": _SMALL, "b": _SMALL}


@meta_op(rule=_lstm_rule, dtypes=FLOATING, domain={**_WEIGHTS, "h0": _SMALL, "c0": _SMALL}, outputs=("y", "h", "c"))
def lstm(x, w, r, b=None, h0=None, c0=None, *, direction: Direction = "forward"):
    """Long short-term memory over a sequence: all hidden states, the last hidden state and the last cell state.

    ``x`` is ``[T, N, I]``, ``w`` ``[D, 4H, I]`` and ``r`` ``[D, 4H, H]`` with the gates in the order input, output,
    forget, cell; ``b`` ``[D, 8H]`` is the input bias followed by the recurrent bias; ``h0`` and ``c0`` are
    ``[D, N, H]``. The results are ``y`` ``[T, D, N, H]``, ``h`` and ``c`` ``[D, N, H]``. What is left out is zero.
    """

    def step(d, xt, h, c):
        return _lstm_step(xt, h, c, w[d], r[d], *_halves(b, d, 4, r))

    return _run(step, x, [_initial(h0, x, r), _initial(c0, x, r)], direction)


@lstm.vjp
def lstm_vjp(m, g, y, *inputs, direction):
    x, w, r, b, h0, c0 = _padded(inputs, 6)
    steps, hidden = m.shape(x)[0], m.shape(r)[2]
    found = []
    for d, backwards in enumerate(_REVERSED[direction]):
        wd, rd = _at(m, w, d), _at(m, r, d)
        bias = None if b is None else m.add(*m.split(_at(m, b, d), axis=0, num_outputs=2))
        gates = _linear(m, x, wd, bias)
        h, c = _start(m, h0, d, x, hidden), _start(m, c0, d, x, hidden)
        order = range(steps)[:: -1 if backwards else 1]
        before, saved = [None] * steps, [None] * steps
        for t in order:
            before[t] = h
            h, c, saved[t] = _lstm_forward(m, _at(m, gates, t), h, c, rd)
        gh, gc = _at(m, g[1], d), _at(m, g[2], d)
        ggates = [None] * steps
        for t in reversed(order):
            gh = m.add(gh, _at(m, _at(m, g[0], t), d))
            ggates[t], gc = _lstm_backward(m, gh, gc, saved[t])
            gh = m.matmul(ggates[t], rd)
        ggates = _steps(m, ggates, x, 4 * hidden)
        gbias = None if b is None else _bias_gradient(m, ggates)
        found.append(
            (
                m.matmul(ggates, wd),
                _weight_gradient(m, ggates, x),
                _weight_gradient(m, ggates, _steps(m, before, x, hidden)),
                None if b is None else m.concat(gbias, gbias, axis=0),
                gh,
                gc,
            )
        )
    return _collect(m, found, inputs)


@lstm.samples
def lstm_samples(draw):
    yield draw(x=(3, 2, 4), w=(1, 12, 4), r=(1, 12, 3))
    yield draw(x=(3, 2, 4), w=(1, 12, 4), r=(1, 12, 3), b=(1, 24))
    yield draw(x=(3, 2, 4), w=(1, 12, 4), r=(1, 12, 3), h0=(1, 2, 3), c0=(1, 2, 3))
    yield draw(x=(3, 2, 4), w=(1, 12, 4), r=(1, 12, 3), b=(1, 24), h0=(1, 2, 3), c0=(1, 2, 3), direction="reverse")
    yield draw(
        x=(3, 2, 4), w=(2, 12, 4), r=(2, 12, 3), b=(2, 24), h0=(2, 2, 3), c0=(2, 2, 3), direction="bidirectional"
    )
    yield draw(x=(2, 1, 2), w=(2, 8, 2), r=(2, 8, 2), direction="bidirectional")
    yield draw(x=(2, 2, 3), w=(1, 8, 3), r=(1, 8, 2), b=(1, 16), h0=(1, 2, 2))
    yield draw(x=(2, 2, 3), w=(1, 8, 3), r=(1, 8, 2), c0=(1, 2, 2), direction="reverse")
    yield draw(x=(1, 1, 1), w=(1, 4, 1), r=(1, 4, 1), b=(1, 8))


@lstm.rejects
def lstm_rejects(reject):
    good = {"x": "float32[3, 2, 4]", "w": "float32[1, 12, 4]", "r": "float32[1, 12, 3]"}
    yield reject(**{**good, "x": "float32[2, 4]"}, message="x [T, N, I] must have rank 3")
    yield reject(**{**good, "w": "float32[1, 12, 5]"}, message="w [D, 4H, I] does not fit")
    yield reject(**{**good, "w": "float32[?, 13, ?]"}, message="4H is a multiple of 4")
    yield reject(**{**good, "r": "float32[1, 12, 4]"}, message="r [D, 4H, H] does not fit")
    yield reject(**good, b="float32[1, 12]", message="b [D, 8H]: 8H is a multiple of 8")
    yield reject(**good, b="float32[1, 16]", message="b [D, 8H] does not fit")
    yield reject(**good, h0="float32[1, 5, 3]", message="h0 [D, N, H] does not fit")
    yield reject(**good, c0="float32[1, 2, 4]", message="c0 [D, N, H] does not fit")
    yield reject(**good, h0="float32[2, 3]", message="h0 [D, N, H] must have rank 3")
    yield reject(**good, direction="bidirectional", message="direction='bidirectional' says D = 2")
    yield reject(**good, direction="backward", message="'forward' or 'reverse' or 'bidirectional'")
    yield reject(**{**good, "w": "float64[1, 12, 4]"}, message="one dtype")


@meta_op(rule=_gru_rule, dtypes=FLOATING, domain={**_WEIGHTS, "h0": _SMALL}, outputs=("y", "h"))
def gru(x, w, r, b=None, h0=None, *, direction: Direction = "forward", linear_before_reset: bool = False):
    """Gated recurrent units over a sequence: all hidden states and the last one.

    ``x`` is ``[T, N, I]``, ``w`` ``[D, 3H, I]`` and ``r`` ``[D, 3H, H]`` with the gates in the order update, reset,
    hidden; ``b`` ``[D, 6H]`` is the input bias followed by the recurrent bias; ``h0`` is ``[D, N, H]``. The results
    are ``y`` ``[T, D, N, H]`` and ``h`` ``[D, N, H]``. With ``linear_before_reset`` the reset gate scales the recurrent
    product and its bias, else the hidden state that goes into the product. What is left out is zero.
    """

    def step(d, xt, h):
        return (_gru_step(xt, h, w[d], r[d], *_halves(b, d, 3, r), linear_before_reset),)

    return _run(step, x, [_initial(h0, x, r)], direction)


@gru.vjp
def gru_vjp(m, g, y, *inputs, direction, linear_before_reset):
    x, w, r, b, h0 = _padded(inputs, 5)
    steps, hidden = m.shape(x)[0], m.shape(r)[2]
    found = []
    for d, backwards in enumerate(_REVERSED[direction]):
        wd, rd = _at(m, w, d), _at(m, r, d)
        wb, rb = (None, None) if b is None else m.split(_at(m, b, d), axis=0, num_outputs=2)
        if b is not None and not linear_before_reset:
            wb = m.add(wb, rb)
        gates = _linear(m, x, wd, wb)
        h = _start(m, h0, d, x, hidden)
        order = range(steps)[:: -1 if backwards else 1]
        saved = [None] * steps
        for t in order:
            h, saved[t] = _gru_forward(m, _at(m, gates, t), h, rd, rb, linear_before_reset)
        gh = _at(m, g[1], d)
        gx, gr = [None] * steps, [None] * steps
        for t in reversed(order):
            gh = m.add(gh, _at(m, _at(m, g[0], t), d))
            gx[t], gr[t], gh = _gru_backward(m, gh, saved[t], rd, linear_before_reset)
        gx, gr = _steps(m, gx, x, 3 * hidden), _steps(m, gr, x, 3 * hidden)
        before = _steps(m, [s[3] for s in saved], x, hidden)
        if linear_before_reset:
            grd = _weight_gradient(m, gr, before)
        else:
            upper, lower = m.split(gr, axis=2, split=(2 * hidden, hidden))
            inner = _steps(m, [s[4] for s in saved], x, hidden)
            grd = m.concat(_weight_gradient(m, upper, before), _weight_gradient(m, lower, inner), axis=0)
        gb = None if b is None else m.concat(_bias_gradient(m, gx), _bias_gradient(m, gr), axis=0)
        found.append((m.matmul(gx, wd), _weight_gradient(m, gx, x), grd, gb, gh))
    return _collect(m, found, inputs)


@gru.samples
def gru_samples(draw):
    for linear in (False, True):
        yield draw(x=(3, 2, 4), w=(1, 9, 4), r=(1, 9, 3), linear_before_reset=linear)
        yield draw(x=(3, 2, 4), w=(1, 9, 4), r=(1, 9, 3), b=(1, 18), linear_before_reset=linear)
        yield draw(
            x=(3, 2, 4),
            w=(1, 9, 4),
            r=(1, 9, 3),
            b=(1, 18),
            h0=(1, 2, 3),
            direction="reverse",
            linear_before_reset=linear,
        )
        yield draw(
            x=(2, 2, 3),
            w=(2, 6, 3),
            r=(2, 6, 2),
            b=(2, 12),
            h0=(2, 2, 2),
            direction="bidirectional",
            linear_before_reset=linear,
        )
    yield draw(x=(2, 1, 2), w=(1, 6, 2), r=(1, 6, 2), h0=(1, 1, 2))
    yield draw(x=(1, 1, 1), w=(1, 3, 1), r=(1, 3, 1), b=(1, 6))


@gru.rejects
def gru_rejects(reject):
    good = {"x": "float32[3, 2, 4]", "w": "float32[1, 9, 4]", "r": "float32[1, 9, 3]"}
    yield reject(**{**good, "x": "float32[3, 2, 4, 1]"}, message="x [T, N, I] must have rank 3")
    yield reject(**{**good, "w": "float32[1, 9, 5]"}, message="w [D, 3H, I] does not fit")
    yield reject(**{**good, "r": "float32[1, 12, ?]"}, message="r [D, 3H, H] does not fit")
    yield reject(**{**good, "r": "float32[...]", "w": "float32[1, 8, 4]"}, message="3H is a multiple of 3")
    yield reject(**good, b="float32[1, 9]", message="b [D, 6H]: 6H is a multiple of 6")
    yield reject(**good, h0="float32[1, 2, 4]", message="h0 [D, N, H] does not fit")
    yield reject(**good, direction="bidirectional", message="direction='bidirectional' says D = 2")
    yield reject(**good, linear_before_reset=1, message="True or False")


@meta_op(rule=_rnn_rule, dtypes=FLOATING, domain={**_WEIGHTS, "h0": _SMALL}, outputs=("y", "h"))
def rnn(
    x,
    w,
    r,
    b=None,
    h0=None,
    *,
    direction: Direction = "forward",
    activation: Literal["tanh", "relu"] = "tanh",
):
    """The plain recurrent network, ``h = activation(x @ w.T + h @ r.T + b)``: all hidden states and the last one.

    ``x`` is ``[T, N, I]``, ``w`` ``[D, H, I]``, ``r`` ``[D, H, H]``; ``b`` ``[D, 2H]`` is the input bias followed by
    the recurrent bias; ``h0`` is ``[D, N, H]``. The results are ``y`` ``[T, D, N, H]`` and ``h`` ``[D, N, H]``. What is
    left out is zero.
    """

    def step(d, xt, h):
        before = xt @ w[d].T + h @ r[d].T + sum(_halves(b, d, 1, r))
        return (np.tanh(before) if activation == "tanh" else np.maximum(before, 0),)

    return _run(step, x, [_initial(h0, x, r)], direction)


@rnn.vjp
def rnn_vjp(m, g, y, *inputs, direction, activation):
    x, w, r, b, h0 = _padded(inputs, 5)
    steps, hidden = m.shape(x)[0], m.shape(r)[2]
    found = []
    for d, backwards in enumerate(_REVERSED[direction]):
        wd, rd = _at(m, w, d), _at(m, r, d)
        bias = None if b is None else m.add(*m.split(_at(m, b, d), axis=0, num_outputs=2))
        given = _linear(m, x, wd, bias)
        h = _start(m, h0, d, x, hidden)
        order = range(steps)[:: -1 if backwards else 1]
        before, after = [None] * steps, [None] * steps
        for t in order:
            before[t] = h
            h = m.add(_at(m, given, t), _linear(m, h, rd, None))
            h = after[t] = m.tanh(h) if activation == "tanh" else m.relu(h)
        gh = _at(m, g[1], d)
        inner = [None] * steps
        for t in reversed(order):
            gh = m.add(gh, _at(m, _at(m, g[0], t), d))
            if activation == "tanh":
                inner[t] = m.multiply(gh, _tanh_slope(m, after[t]))
            else:
                inner[t] = m.where(m.greater(after[t], 0.0), gh, m.zeros_like(gh))
            gh = m.matmul(inner[t], rd)
        inner = _steps(m, inner, x, hidden)
        gbias = None if b is None else _bias_gradient(m, inner)
        found.append(
            (
                m.matmul(inner, wd),
                _weight_gradient(m, inner, x),
                _weight_gradient(m, inner, _steps(m, before, x, hidden)),
                None if b is None else m.concat(gbias, gbias, axis=0),
                gh,
            )
        )
    return _collect(m, found, inputs)


@rnn.samples
def rnn_samples(draw):
    for activation in ("tanh", "relu"):
        yield draw(x=(3, 2, 4), w=(1, 3, 4), r=(1, 3, 3), activation=activation)
        yield draw(x=(3, 2, 4), w=(1, 3, 4), r=(1, 3, 3), b=(1, 6), activation=activation)
        yield draw(
            x=(3, 2, 4),
            w=(1, 3, 4),
            r=(1, 3, 3),
            b=(1, 6),
            h0=(1, 2, 3),
            direction="reverse",
            activation=activation,
        )
        yield draw(
            x=(2, 2, 3),
            w=(2, 2, 3),
            r=(2, 2, 2),
            b=(2, 4),
            h0=(2, 2, 2),
            direction="bidirectional",
            activation=activation,
        )
    yield draw(x=(2, 1, 2), w=(1, 2, 2), r=(1, 2, 2), h0=(1, 1, 2))
    yield draw(x=(1, 1, 1), w=(1, 1, 1), r=(1, 1, 1), b=(1, 2))


@rnn.rejects
def rnn_rejects(reject):
    good = {"x": "float32[3, 2, 4]", "w": "float32[1, 5, 4]", "r": "float32[1, 5, 5]"}
    yield reject(**{**good, "x": "float32[2, 4]"}, message="x [T, N, I] must have rank 3")
    yield reject(**{**good, "w": "float32[1, 5, 3]"}, message="w [D, H, I] does not fit")
    yield reject(**{**good, "r": "float32[1, 5, 4]"}, message="r [D, H, H] does not fit")
    yield reject(**good, b="float32[1, 5]", message="b [D, 2H]: 2H is a multiple of 2")
    yield reject(**good, h0="float32[1, 2, 4]", message="h0 [D, N, H] does not fit")
    yield reject(**good, direction="bidirectional", message="direction='bidirectional' says D = 2")
    yield reject(**good, activation="sigmoid", message="'tanh' or 'relu'")


@meta_op(rule=_lstm_cell_rule, dtypes=FLOATING, domain={**_WEIGHTS, "h": _SMALL, "c": _SMALL}, outputs=("h", "c"))
def lstm_cell(x, h, c, w, r, b=None):
    """One step of :func:`lstm`: the next hidden state and the next cell state.

    ``x`` is ``[N, I]``, ``h`` and ``c`` are ``[N, H]``, ``w`` is ``[4H, I]``, ``r`` ``[4H, H]``, ``b`` ``[8H]``.
    """
    wb, rb = _halves(None if b is None else b[None], 0, 4, r)
    return _lstm_step(x, h, c, w, r, wb, rb)


@lstm_cell.vjp
def lstm_cell_vjp(m, g, y, *inputs):
    x, h, c, w, r, b = _padded(inputs, 6)
    bias = None if b is None else m.add(*m.split(b, axis=0, num_outputs=2))
    _, _, saved = _lstm_forward(m, _linear(m, x, w, bias), h, c, r)
    gates, gc = _lstm_backward(m, g[0], g[1], saved)
    gb = None
    if b is not None:
        gbias = _bias_gradient(m, gates)
        gb = m.concat(gbias, gbias, axis=0)
    found = (
        m.matmul(gates, w),
        m.matmul(gates, r),
        gc,
        _weight_gradient(m, gates, x),
        _weight_gradient(m, gates, h),
        gb,
    )
    return found[: len(inputs)]


@lstm_cell.samples
def lstm_cell_samples(draw):
    yield draw(x=(2, 4), h=(2, 3), c=(2, 3), w=(12, 4), r=(12, 3))
    yield draw(x=(2, 4), h=(2, 3), c=(2, 3), w=(12, 4), r=(12, 3), b=(24,))
    yield draw(x=(1, 1), h=(1, 1), c=(1, 1), w=(4, 1), r=(4, 1), b=(8,))


@lstm_cell.rejects
def lstm_cell_rejects(reject):
    good = {
        "x": "float32[2, 4]",
        "h": "float32[2, 3]",
        "c": "float32[2, 3]",
        "w": "float32[12, 4]",
        "r": "float32[12, 3]",
    }
    yield reject(**{**good, "x": "float32[1, 2, 4]"}, message="x [N, I] must have rank 2")
    yield reject(**{**good, "x": "float32[3, 4]"}, message="h [N, H] does not fit")
    yield reject(**{**good, "c": "float32[2, 4]"}, message="c [N, H] does not fit")
    yield reject(**{**good, "w": "float32[12, ?]", "r": "float32[16, 3]"}, message="r [4H, H] does not fit")
    yield reject(**{**good, "w": "float32[9, 4]"}, message="4H is a multiple of 4")
    yield reject(**good, b="float32[12]", message="8H is a multiple of 8")
