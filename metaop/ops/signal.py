"""Signals: discrete Fourier transforms, the windows that go before them and the mel scale that comes after.

A complex number is a pair along the last axis, real part first, as in ONNX; a real one is a single number there.
"""

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import positive
from metaop.ops.rules import normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, TensorType, describe_dtypes

# -- Fourier transforms -----------------------------------------------------------------------------------------------


def _parts(what, tensor, accepted=(1, 2)):
    """Whether the last axis holds single numbers (1) or pairs (2); ``None`` where unknown."""
    if tensor.shape is None or tensor.shape[-1] is None:
        return None
    if tensor.shape[-1] not in accepted:
        names = " or ".join({1: "1 (real numbers)", 2: "2 (real and imaginary parts)"}[n] for n in accepted)
        raise ShapeError(f"the last axis of {what} must be of size {names}; got {tensor}")
    return tensor.shape[-1]


def _length(size, dft_length, inverse, onesided):
    if dft_length is not None or size is None:
        return dft_length
    return 2 * (size - 1) if inverse and onesided else size


def _dft_rule(x, *, dft_length, axis, inverse, onesided):
    if dft_length is not None and dft_length < 1:
        raise AttributeValueError(f"dft_length takes an integer >= 1, or None; got {dft_length}")
    require_rank("x", x, 2)
    _parts("x", x, ((2,) if inverse else (1,)) if onesided else (1, 2))
    if x.shape is None:
        return x
    axis = normalise_axis(axis, len(x.shape))
    if axis == len(x.shape) - 1:
        raise AttributeValueError(f"axis {axis} of {x} holds real and imaginary parts; transform another one")
    size = _length(x.shape[axis], dft_length, inverse, onesided)
    if size is not None and size < 1:
        raise ShapeError(f"x: axis {axis} is too short to be transformed; got {x}")
    if onesided and not inverse and size is not None:
        size = size // 2 + 1
    return TensorType(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 : -1], 1 if onesided and inverse else 2))


def _complex(x):
    """Pairs as complex numbers, single numbers as real ones; in float32 at least."""
    x = x.astype(np.result_type(x.dtype, np.float32))
    return x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]


def _pairs(z, dtype):
    return np.stack([z.real, z.imag], axis=-1).astype(dtype)


@meta_op(rule=_dft_rule, dtypes=FLOATING)
def dft(x, *, dft_length: int | None = None, axis: int = -2, inverse: bool = False, onesided: bool = False):
    """The discrete Fourier transform of ``x`` along ``axis``; the last axis holds the parts of complex numbers.

    ``x`` is cut, or lengthened by zeros, to ``dft_length`` elements. The inverse divides by that length. With
    ``onesided`` the transform of real numbers gives the first half of a spectrum, ``dft_length // 2 + 1`` elements, and
    the inverse makes real numbers from such a half; their number is ``2 * (size - 1)`` unless ``dft_length`` says so.
    """
    axis = axis % x.ndim
    n = _length(x.shape[axis], dft_length, inverse, onesided)
    if not onesided:
        return _pairs((np.fft.ifft if inverse else np.fft.fft)(_complex(x), n, axis), x.dtype)
    if inverse:
        return np.fft.irfft(_complex(x), n, axis)[..., None].astype(x.dtype)
    return _pairs(np.fft.rfft(_complex(x), n, axis), x.dtype)


def _fitted(m, x, axis, size):
    """Cut, or lengthened by zeros, to ``size`` elements along ``axis``."""
    shape = m.shape(x)
    if shape[axis] > size:
        return m.slice(x, starts=(0,), ends=(size,), axes=(axis,))
    if shape[axis] == size:
        return x
    ends = tuple(size - shape[axis] if i == axis else 0 for i in range(len(shape)))
    return m.pad(x, pads=(0,) * len(shape) + ends)


def _real_part(m, x):
    return m.slice(x, starts=(0,), ends=(1,), axes=(len(m.shape(x)) - 1,))


@dft.vjp
def dft_vjp(m, g, y, x, *, dft_length, axis, inverse, onesided):
    shape = m.shape(x)
    axis = axis % len(shape)
    n = _length(shape[axis], dft_length, inverse, onesided)
    if inverse and onesided:
        # But for the first element, and the middle one of an even number, each stands for two of a full spectrum.
        weights = np.full(n // 2 + 1, 2.0 / n)
        weights[0] = 1.0 / n
        if n % 2 == 0:
            weights[-1] = 1.0 / n
        weights = weights.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        g = m.dft(g, dft_length=n, axis=axis, onesided=True)
        g = m.multiply(g, m.constant(weights, m.dtype(x)))
    else:
        g = m.dft(g, dft_length=n, axis=axis, inverse=not inverse)
        g = m.div(g, float(n)) if inverse else m.multiply(g, float(n))
    g = _fitted(m, g, axis, shape[axis])
    return (_real_part(m, g) if shape[-1] == 1 else g,)


@dft.samples
def dft_samples(draw):
    for inverse in (False, True):
        yield draw(x=(2, 6, 2), inverse=inverse)
        yield draw(x=(2, 5, 1), inverse=inverse)
        yield draw(x=(2, 5, 3, 2), axis=1, inverse=inverse)
        yield draw(x=(6, 3, 1), axis=-3, dft_length=4, inverse=inverse)
        yield draw(x=(2, 5, 2), dft_length=8, inverse=inverse)
    for length in (None, 4, 7):
        yield draw(x=(2, 6, 1), onesided=True, dft_length=length)
        yield draw(x=(2, 4, 2), onesided=True, inverse=True, dft_length=length)
    yield draw(x=(5, 2, 1), axis=0, onesided=True)
    yield draw(x=(4, 2, 2), axis=0, onesided=True, inverse=True)
    yield draw(x=(1, 2))


@dft.rejects
def dft_rejects(reject):
    yield reject(x="float32[4]", message="x must have rank at least 2")
    yield reject(x="float32[2, 4, 3]", message="the last axis of x")
    yield reject(x="float32[2, 4, 2]", onesided=True, message="1 (real numbers)")
    yield reject(x="float32[2, 4, 1]", onesided=True, inverse=True, message="2 (real and imaginary parts)")
    yield reject(x="float32[2, 4, 2]", axis=-1, message="transform another one")
    yield reject(x="float32[2, 4, 2]", axis=3, message="axis 3 is out of range")
    yield reject(x="float32[2, 4, 2]", dft_length=0, message="dft_length takes")
    yield reject(x="float32[2, 0, 2]", message="too short")
    yield reject(x="int64[2, 4, 2]", message="takes float16")


def _frame(signal, window, frame_length):
    """The length of a frame, as far as it is known."""
    given = window.shape[0] if window is not None and window.shape is not None else None
    if frame_length is None and window is None:
        return signal.shape[1] if signal.shape is not None else None
    return unify_size(given, frame_length, "window and frame_length")


def _stft_rule(signal, window=None, *, frame_step, frame_length, onesided):
    if frame_step < 1:
        raise AttributeValueError(f"frame_step takes an integer >= 1; got {frame_step}")
    if frame_length is not None and frame_length < 1:
        raise AttributeValueError(f"frame_length takes an integer >= 1, or None; got {frame_length}")
    require_rank("signal [N, length, 1 or 2]", signal, 3, 3)
    if window is not None:
        require_rank("window", window, 1, 1)
    _parts("signal", signal, (1,) if onesided else (1, 2))
    length = _frame(signal, window, frame_length)
    batch, size = (None, None) if signal.shape is None else signal.shape[:2]
    if length == 0:
        raise ShapeError("a frame has at least one element")
    if None not in (size, length) and size < length:
        raise ShapeError(f"signal: {signal} is shorter than a frame of {length} elements")
    frames = None if None in (size, length) else (size - length) // frame_step + 1
    bins = None if length is None else length // 2 + 1 if onesided else length
    return TensorType(signal.dtype, (batch, frames, bins, 2))


def _places(size, length, step):
    """Where each element of each frame comes from."""
    return np.arange((size - length) // step + 1)[:, None] * step + np.arange(length)


@meta_op(rule=_stft_rule, dtypes=FLOATING, domain={"window": positive()})
def stft(signal, window=None, *, frame_step: int, frame_length: int | None = None, onesided: bool = True):
    """The short-time Fourier transform of ``signal [N, length, 1 or 2]``: ``[N, frames, bins, 2]``.

    Every ``frame_step`` elements a frame of ``frame_length`` elements begins, as long as it lies within the signal; it
    is multiplied by ``window`` and transformed. A frame is as long as the window, or as the signal, unless said. With
    ``onesided`` the signal is real, and the first ``frame_length // 2 + 1`` bins are given.
    """
    length = frame_length or (signal.shape[1] if window is None else len(window))
    frames = _complex(signal)[:, _places(signal.shape[1], length, frame_step)]
    if window is not None:
        frames = frames * window
    return _pairs((np.fft.rfft if onesided else np.fft.fft)(frames, axis=-1), signal.dtype)


@stft.vjp
def stft_vjp(m, g, y, signal, window=None, *, frame_step, frame_length, onesided):
    _, size, parts = m.shape(signal)
    length = frame_length or (size if window is None else m.shape(window)[0])
    places = m.constant(_places(size, length, frame_step), np.int64)
    g = m.multiply(m.dft(g, dft_length=length, axis=2, inverse=True), float(length))
    if parts == 1:
        g = _real_part(m, g)
    if window is None:
        return (m.scatter_add(places, g, axis=1, size=size),)
    beside = m.reshape(window, shape=(length, 1))
    frames = m.gather(signal, places, axis=1)
    return (
        m.scatter_add(places, m.multiply(g, beside), axis=1, size=size),
        m.reduce_sum(m.multiply(g, frames), axes=(0, 1, 3)),
    )


@stft.samples
def stft_samples(draw):
    yield draw(signal=(2, 12, 1), frame_step=4, frame_length=6)
    yield draw(signal=(2, 12, 1), window=(5,), frame_step=3)
    yield draw(signal=(1, 11, 1), window=(4,), frame_step=2, frame_length=4)
    yield draw(signal=(1, 8, 1), window=(4,), frame_step=3, onesided=False)
    yield draw(signal=(2, 9, 2), window=(4,), frame_step=5, onesided=False)
    yield draw(signal=(2, 7, 2), frame_step=1, frame_length=5, onesided=False)
    yield draw(signal=(1, 6, 1), frame_step=1)


@stft.rejects
def stft_rejects(reject):
    signal = "float32[2, 12, 1]"
    yield reject(signal="float32[2, 12]", frame_step=2, message="signal [N, length, 1 or 2] must have rank 3")
    yield reject(signal="float32[2, 12, 2]", frame_step=2, message="1 (real numbers)")
    yield reject(signal="float32[2, 12, 3]", frame_step=2, onesided=False, message="the last axis of signal")
    yield reject(signal=signal, frame_step=0, message="frame_step takes")
    yield reject(signal=signal, frame_step=2, frame_length=0, message="frame_length takes")
    yield reject(signal=signal, frame_step=2, frame_length=13, message="shorter than a frame of 13")
    yield reject(signal=signal, window="float32[4]", frame_step=2, frame_length=5, message="window and frame_length")
    yield reject(signal=signal, window="float32[1, 4]", frame_step=2, message="window must have rank 1")
    yield reject(signal=signal, window="float64[4]", frame_step=2, message="one dtype")


# -- windows ----------------------------------------------------------------------------------------------------------

_NOTHING_GOES_IN = "it has no inputs"
_SINGLE = frozenset([np.dtype("float32")])


def _floating(dtype):
    """The dtype that was asked for; float32 where none was."""
    if dtype is None:
        return np.dtype("float32")
    if dtype not in FLOATING:
        raise AttributeValueError(f"output_datatype takes {describe_dtypes(FLOATING)}; got {dtype.name}")
    return dtype


def _window_rule(*, size, periodic, output_datatype):
    if size < 2:
        raise AttributeValueError(f"size takes an integer >= 2; got {size}")
    return TensorType(_floating(output_datatype), (size,))


def _angles(size, periodic):
    """Once around, for a periodic window without the end, which is the next one's beginning."""
    return 2 * np.pi * np.arange(size) / (size if periodic else size - 1)


def _window_samples(op):
    @op.samples
    def windows(draw):
        yield draw(size=8)
        yield draw(size=8, periodic=False)
        yield draw(size=7, output_datatype="float64")
        yield draw(size=2, output_datatype="float16")
        yield draw(size=5, periodic=False, output_datatype="float64")

    @op.rejects
    def no_window(reject):
        yield reject(size=1, message="size takes an integer >= 2")
        yield reject(size=8, output_datatype="int32", message="output_datatype takes")
        yield reject(message="attribute 'size' is required")


@meta_op(rule=_window_rule, dtypes=_SINGLE, nondifferentiable=_NOTHING_GOES_IN)
def hann_window(*, size: int, periodic: bool = True, output_datatype: np.dtype | None = None):
    """The Hann window, ``(1 - cos(t)) / 2`` once around; a periodic one leaves out the end.

    >>> from metaop.ops import REGISTRY
    >>> REGISTRY["hann_window"](size=4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return np.square(np.sin(_angles(size, periodic) / 2)).astype(_floating(output_datatype))


@meta_op(rule=_window_rule, dtypes=_SINGLE, nondifferentiable=_NOTHING_GOES_IN)
def hamming_window(*, size: int, periodic: bool = True, output_datatype: np.dtype | None = None):
    """The Hamming window with ONNX's coefficients, ``25/46 - 21/46 * cos(t)``; a periodic one leaves out the end.

    NumPy, SciPy and most frameworks round them to 0.54 and 0.46.
    """
    return (25 / 46 - 21 / 46 * np.cos(_angles(size, periodic))).astype(_floating(output_datatype))


@meta_op(rule=_window_rule, dtypes=_SINGLE, nondifferentiable=_NOTHING_GOES_IN)
def blackman_window(*, size: int, periodic: bool = True, output_datatype: np.dtype | None = None):
    """The Blackman window, ``0.42 - 0.5 * cos(t) + 0.08 * cos(2 * t)``; a periodic one leaves out the end."""
    t = _angles(size, periodic)
    return (0.42 - 0.5 * np.cos(t) + 0.08 * np.cos(2 * t)).astype(_floating(output_datatype))


for _op in (hann_window, hamming_window, blackman_window):
    _window_samples(_op)


# -- the mel scale ----------------------------------------------------------------------------------------------------


def _mel_rule(*, num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, output_datatype):
    for name, value in (("num_mel_bins", num_mel_bins), ("dft_length", dft_length), ("sample_rate", sample_rate)):
        if value < 1:
            raise AttributeValueError(f"{name} takes an integer >= 1; got {value}")
    if not 0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2:
        raise AttributeValueError(
            f"0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2 must hold; got {lower_edge_hertz}, "
            f"{upper_edge_hertz} and {sample_rate / 2}"
        )
    return TensorType(_floating(output_datatype), (dft_length // 2 + 1, num_mel_bins))


@meta_op(rule=_mel_rule, dtypes=_SINGLE, nondifferentiable=_NOTHING_GOES_IN)
def mel_weight_matrix(
    *,
    num_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_edge_hertz: float,
    upper_edge_hertz: float,
    output_datatype: np.dtype | None = None,
):
    """Weights ``[dft_length // 2 + 1, num_mel_bins]`` from the bins of a spectrum to bands of the mel scale.

    As in ONNX's operator, ``num_mel_bins + 2`` edges lie ``1 / (num_mel_bins + 2)`` of the range apart on the mel scale
    and are rounded down to whole bins; between three neighbours a band rises to 1 and falls.
    """
    low, high = (2595 * np.log10(1 + hertz / 700) for hertz in (lower_edge_hertz, upper_edge_hertz))
    mels = low + (high - low) * np.arange(num_mel_bins + 2) / (num_mel_bins + 2)
    edges = np.floor((dft_length + 1) * 700 * (10 ** (mels / 2595) - 1) / sample_rate).astype(int)
    bins = np.arange(dft_length // 2 + 1)
    weights = np.zeros((len(bins), num_mel_bins))
    for band, (left, peak, right) in enumerate(zip(edges[:-2], edges[1:-1], edges[2:], strict=True)):
        if left < peak:
            weights[:, band] = np.where((bins >= left) & (bins <= peak), (bins - left) / (peak - left), 0)
        if peak < right:
            falling = (bins > peak) & (bins < right)
            weights[:, band] = np.where(falling, (right - bins) / (right - peak), weights[:, band])
        weights[peak, band] = 1
    return weights.astype(_floating(output_datatype))


@mel_weight_matrix.samples
def mel_weight_matrix_samples(draw):
    audible = {"sample_rate": 8192, "lower_edge_hertz": 0.0, "upper_edge_hertz": 4096.0}
    yield draw(num_mel_bins=8, dft_length=64, **audible)
    yield draw(num_mel_bins=20, dft_length=16, **audible)  # bands narrower than a bin
    yield draw(num_mel_bins=4, dft_length=100, **{**audible, "lower_edge_hertz": 125.0, "upper_edge_hertz": 3000.0})
    yield draw(num_mel_bins=4, dft_length=65, **{**audible, "sample_rate": 16000}, output_datatype="float64")


@mel_weight_matrix.rejects
def mel_weight_matrix_rejects(reject):
    good = {
        "num_mel_bins": 8,
        "dft_length": 64,
        "sample_rate": 8192,
        "lower_edge_hertz": 0.0,
        "upper_edge_hertz": 4096.0,
    }
    yield reject(**{**good, "num_mel_bins": 0}, message="num_mel_bins takes")
    yield reject(**{**good, "upper_edge_hertz": 5000.0}, message="upper_edge_hertz <= sample_rate / 2")
    yield reject(**{**good, "lower_edge_hertz": -1.0}, message="0 <= lower_edge_hertz")
    yield reject(**good, output_datatype="int8", message="output_datatype takes")
