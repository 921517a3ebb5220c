"""Signals: ONNX's own operators. What they take as scalars become initializers."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import tensor_dtype

INT64, FLOAT = np.dtype("int64"), np.dtype("float32")


def _datatype(dtype):
    return tensor_dtype(FLOAT if dtype is None else dtype)


@bind
def dft(o, x, *, dft_length, axis, inverse, onesided):
    length = None if dft_length is None else o.constant(dft_length, INT64)
    return o.DFT(x, length, o.constant(axis, INT64), inverse=inverse, onesided=onesided)


@bind
def stft(o, signal, window=None, *, frame_step, frame_length, onesided):
    if frame_length is None and window is None:
        frame_length = signal.shape[1]
    length = None if frame_length is None else o.constant(frame_length, INT64)
    return o.STFT(signal, o.constant(frame_step, INT64), window, length, onesided=onesided)


def _window(o, op_type, size, periodic, output_datatype):
    return o.node(
        op_type,
        (o.constant(size, INT64),),
        {"periodic": periodic, "output_datatype": _datatype(output_datatype)},
    )


@bind
def hann_window(o, *, size, periodic, output_datatype):
    return _window(o, "HannWindow", size, periodic, output_datatype)


@bind
def hamming_window(o, *, size, periodic, output_datatype):
    return _window(o, "HammingWindow", size, periodic, output_datatype)


@bind
def blackman_window(o, *, size, periodic, output_datatype):
    return _window(o, "BlackmanWindow", size, periodic, output_datatype)


@bind
def mel_weight_matrix(o, *, num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, output_datatype):
    whole = [o.constant(n, INT64) for n in (num_mel_bins, dft_length, sample_rate)]
    edges = [o.constant(hertz, FLOAT) for hertz in (lower_edge_hertz, upper_edge_hertz)]
    return o.MelWeightMatrix(*(whole + edges), output_datatype=_datatype(output_datatype))
