"""Signals."""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.models.onnx.read import DTYPES, dtype_name
from metaop.models.onnx.table import Call, Refused, onnx_op


def _one(call: Call, index: int, default: Any = None) -> Any:
    """A number given as a tensor: as a Python number, or as the node that computes it."""
    if not call.has(index):
        return default
    node = call.input(index)
    value = call.converter.value(node)
    if value is not None and value.size == 1:
        return value.reshape(()).item()
    if value is not None or any(size not in (1, None) for size in node.shape or ()):
        raise Refused(f"input {index} must be one number; got {node.type}")
    return node if node.shape == () else call.part(f"input_{index}", "reshape", node, shape=())


def _dtype(call: Call) -> np.dtype:
    number = call.attr("output_datatype", 1)
    if number not in DTYPES:
        raise Refused(f"output_datatype {dtype_name(number)} is not a dtype of metaop")
    return DTYPES[number]


@onnx_op("DFT", since=17)
def dft(call: Call) -> Any:
    x = call.input(0)
    axis = call.attr("axis", 1) if call.opset < 20 else _one(call, 2, -2)
    given = {"inverse": call.flag("inverse"), "onesided": call.flag("onesided"), "dft_length": _one(call, 1)}
    return call.make("dft", x, axis=axis, **given)


@onnx_op("STFT", since=17)
def stft(call: Call) -> Any:
    step, length = _one(call, 1), _one(call, 3)
    if step is None:
        raise Refused("frame_step is missing")
    given = {"frame_step": step, "frame_length": length, "onesided": call.flag("onesided", True)}
    return call.make("stft", call.input(0), call.optional(2), **given)


def _window(op: str) -> Any:
    def mapping(call: Call) -> Any:
        size = _one(call, 0)
        return call.make(op, size=size, periodic=call.flag("periodic", True), output_datatype=_dtype(call))

    return mapping


for _name, _op in {
    "HannWindow": "hann_window",
    "HammingWindow": "hamming_window",
    "BlackmanWindow": "blackman_window",
}.items():
    onnx_op(_name, since=17)(_window(_op))


@onnx_op("MelWeightMatrix", since=17)
def mel_weight_matrix(call: Call) -> Any:
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    given = {name: _one(call, index) for index, name in enumerate(names)}
    return call.make("mel_weight_matrix", **given, output_datatype=_dtype(call))
