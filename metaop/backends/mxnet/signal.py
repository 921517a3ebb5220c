"""Signals: MXNet has NumPy's windows, and Fourier transforms on GPUs only."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind
from metaop.errors import UnsupportedOpError

bind.unsupported("dft", "stft", reason="mx.contrib.fft is a GPU operator, of float32 only")


def window_of(function, size, periodic, output_datatype):
    if output_datatype is not None and output_datatype.name != "float32":
        raise UnsupportedOpError("mxnet computes windows in float32, whatever dtype it is asked for; cast after")
    # Both ends are part of NumPy's windows.
    y = function(size + 1 if periodic else size, dtype="float32")
    return y[:size] if periodic else y


@bind
def hann_window(*, size, periodic, output_datatype):
    return window_of(mx.np.hanning, size, periodic, output_datatype)


@bind
def blackman_window(*, size, periodic, output_datatype):
    return window_of(mx.np.blackman, size, periodic, output_datatype)


bind.unsupported("hamming_window", reason="its coefficients are 0.54 and 0.46, and ONNX's 25/46 and 21/46")
bind.unsupported("mel_weight_matrix", reason="MXNet has none")
