"""TensorFlow's Fourier transforms, which go along the last axis, and its one window that ONNX has too."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.errors import UnsupportedOpError


def refuse_half(x):
    if x.dtype == tf.float16:
        raise UnsupportedOpError("TensorFlow has complex numbers of float32 and float64; cast first")


def as_complex(x):
    if x.shape[-1] == 2:
        return tf.complex(x[..., 0], x[..., 1])
    return tf.complex(x[..., 0], tf.zeros_like(x[..., 0]))


def as_pairs(z):
    return tf.stack([tf.math.real(z), tf.math.imag(z)], axis=-1)


def moved(x, source, target):
    """With one axis in another place."""
    order = [i for i in range(len(x.shape)) if i != source]
    order.insert(target, source)
    return x if order == list(range(len(order))) else tf.transpose(x, order)


def fitted(z, length):
    """Cut, or lengthened by zeros, along the last axis.

    TensorFlow's transforms do so too, but then their gradients do not fit.
    """
    missing = length - z.shape[-1]
    if missing <= 0:
        return z[..., :length]
    return tf.pad(z, [[0, 0]] * (len(z.shape) - 1) + [[0, missing]])


@bind
def dft(x, *, dft_length, axis, inverse, onesided):
    refuse_half(x)
    axis, last = axis % len(x.shape), len(x.shape) - 2
    if dft_length is None:
        dft_length = 2 * (x.shape[axis] - 1) if inverse and onesided else x.shape[axis]
    if onesided and not inverse:
        y = tf.signal.rfft(fitted(moved(x[..., 0], axis, last), dft_length), [dft_length])
        return as_pairs(moved(y, last, axis))
    z = moved(as_complex(x), axis, last)
    if onesided:
        return moved(tf.signal.irfft(fitted(z, dft_length // 2 + 1), [dft_length]), last, axis)[..., tf.newaxis]
    z = fitted(z, dft_length)
    return as_pairs(moved(tf.signal.ifft(z) if inverse else tf.signal.fft(z), last, axis))


@bind
def stft(signal, window=None, *, frame_step, frame_length, onesided):
    refuse_half(signal)
    length = frame_length or (signal.shape[1] if window is None else window.shape[0])
    if onesided:
        y = tf.signal.stft(
            signal[..., 0],
            frame_length=length,
            frame_step=frame_step,
            fft_length=length,
            window_fn=None if window is None else lambda size, dtype: window,
            pad_end=False,
        )
        return as_pairs(y)
    # tf.signal.stft is of real numbers, and one-sided.
    frames = tf.signal.frame(signal, length, frame_step, pad_end=False, axis=1)
    return as_pairs(tf.signal.fft(as_complex(frames if window is None else frames * window[:, tf.newaxis])))


@bind
def hann_window(*, size, periodic, output_datatype):
    dtype = tf.float32 if output_datatype is None else tf.dtypes.as_dtype(output_datatype)
    return tf.signal.hann_window(size, periodic=periodic, dtype=dtype)


bind.unsupported("hamming_window", reason="its coefficients are 0.54 and 0.46, and ONNX's 25/46 and 21/46")
bind.unsupported("blackman_window", reason="TensorFlow has none")
bind.unsupported("mel_weight_matrix", reason="tf.signal.linear_to_mel_weight_matrix does not round the edges to bins")
