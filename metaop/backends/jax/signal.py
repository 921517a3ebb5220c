"""JAX's Fourier transforms, and its windows, which are symmetric: a periodic one is a longer one without its end.

``jax.scipy.signal.stft`` divides by the sum of the window.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax

from metaop.backends.jax.bindings import bind


def as_complex(x):
    """Pairs as complex numbers, single numbers as real ones; XLA transforms float32 and float64."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return x[..., 0] if x.shape[-1] == 1 else lax.complex(x[..., 0], x[..., 1])


def as_pairs(z, dtype):
    return jnp.stack([jnp.real(z), jnp.imag(z)], axis=-1).astype(dtype)


def of_real(x, n, axis):
    """The full spectrum of real numbers: its second half mirrors the first.

    ``jnp.fft.fft`` takes them for complex ones, and rounds what is nothing: the imaginary part of the middle.
    """
    half = jnp.fft.rfft(x, n=n, axis=axis)
    mirrored = jnp.flip(lax.slice_in_dim(half, 1, (n + 1) // 2, axis=axis), axis)
    return jnp.concatenate([half, jnp.conj(mirrored)], axis=axis)


@bind
def dft(x, *, dft_length, axis, inverse, onesided):
    z, axis = as_complex(x), axis % x.ndim
    if not onesided and x.shape[-1] == 1:
        n = dft_length or x.shape[axis]
        y = of_real(z, n, axis)
        return as_pairs(jnp.conj(y) / n if inverse else y, x.dtype)
    if not onesided:
        return as_pairs((jnp.fft.ifft if inverse else jnp.fft.fft)(z, n=dft_length, axis=axis), x.dtype)
    if inverse:
        return jnp.expand_dims(jnp.fft.irfft(z, n=dft_length, axis=axis), -1).astype(x.dtype)
    return as_pairs(jnp.fft.rfft(z, n=dft_length, axis=axis), x.dtype)


@bind
def stft(signal, window=None, *, frame_step, frame_length, onesided):
    size = signal.shape[1]
    length = frame_length or (size if window is None else window.shape[0])
    starts = np.arange(0, size - length + 1, frame_step)
    frames = as_complex(signal)[:, starts[:, None] + np.arange(length)]
    if window is not None:
        frames = frames * window
    if onesided:
        return as_pairs(jnp.fft.rfft(frames, axis=-1), signal.dtype)
    last = frames.ndim - 1
    y = of_real(frames, length, last) if signal.shape[-1] == 1 else jnp.fft.fft(frames, axis=last)
    return as_pairs(y, signal.dtype)


def cut(window, size, periodic, output_datatype):
    return window(size + periodic)[:size].astype(jnp.float32 if output_datatype is None else output_datatype)


@bind
def hann_window(*, size, periodic, output_datatype):
    return cut(jnp.hanning, size, periodic, output_datatype)


@bind
def blackman_window(*, size, periodic, output_datatype):
    return cut(jnp.blackman, size, periodic, output_datatype)


bind.unsupported(
    "hamming_window", reason="jnp.hamming has the coefficients 0.54 and 0.46, and ONNX's is 25/46 and 21/46"
)
bind.unsupported("mel_weight_matrix", reason="JAX has none")
