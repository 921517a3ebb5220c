"""PyTorch's Fourier transforms and windows."""

import torch
import torch.fft

from metaop.backends.torch.bindings import VERSION, bind
from metaop.errors import UnsupportedOpError

DTYPES = {None: torch.float32, "float16": torch.float16, "float32": torch.float32, "float64": torch.float64}


def as_complex(x):
    if x.dtype == torch.float16:
        raise UnsupportedOpError("PyTorch transforms float16 on GPUs only; cast to float32 first")
    return x[..., 0] if x.shape[-1] == 1 else torch.view_as_complex(x.contiguous())


def as_pairs(z):
    # Not torch.view_as_real, which does not take what the inverse transform of real numbers gives: a lazy conjugate.
    return torch.stack((z.real, z.imag), -1)


@bind
def dft(x, *, dft_length, axis, inverse, onesided):
    z, axis = as_complex(x), axis % x.dim()
    if not onesided:
        return as_pairs((torch.fft.ifft if inverse else torch.fft.fft)(z, n=dft_length, dim=axis))
    if inverse:
        return torch.fft.irfft(z, n=dft_length, dim=axis)[..., None]
    return as_pairs(torch.fft.rfft(z, n=dft_length, dim=axis))


if VERSION < (1, 8):
    bind.unsupported("stft", reason="torch.stft gives complex numbers, and can be differentiated, since PyTorch 1.8")
else:

    @bind
    def stft(signal, window=None, *, frame_step, frame_length, onesided):
        length = frame_length or (signal.shape[1] if window is None else window.shape[0])
        y = torch.stft(
            as_complex(signal),
            n_fft=length,
            hop_length=frame_step,
            win_length=length,
            # Without a window PyTorch warns that it takes this one.
            window=signal.new_ones(length) if window is None else window,
            center=False,
            normalized=False,
            onesided=onesided,
            return_complex=True,
        )
        return as_pairs(y).permute(0, 2, 1, 3)


def window_of(function, size, periodic, output_datatype, **more):
    dtype = DTYPES[output_datatype and output_datatype.name]
    return function(size, periodic=periodic, dtype=dtype, **more)


@bind
def hann_window(*, size, periodic, output_datatype):
    return window_of(torch.hann_window, size, periodic, output_datatype)


@bind
def hamming_window(*, size, periodic, output_datatype):
    return window_of(torch.hamming_window, size, periodic, output_datatype, alpha=25 / 46, beta=21 / 46)


@bind
def blackman_window(*, size, periodic, output_datatype):
    return window_of(torch.blackman_window, size, periodic, output_datatype)


bind.unsupported("mel_weight_matrix", reason="PyTorch has none; torchaudio's does not round the edges to bins")
