"""Padding with MXNet's operator Pad, which serves other operators too where MXNet pads both ends of an axis alike."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import legacy, product
from metaop.errors import UnsupportedOpError

pad_last = legacy(mx.nd.Pad)


def padded(x, begins, ends, mode, value):
    """The tensor with that many elements more before and behind, axis by axis."""
    if np.dtype(x.dtype).kind != "f":
        raise UnsupportedOpError("mxnet: Pad takes floating tensors only")
    if not any(begins) and not any(ends):
        return x
    if len(x.shape) in (4, 5) and not any(begins[:2] + ends[:2]):
        widths = tuple(size for pair in zip(begins, ends) for size in pair)
        return pad_last(x, mode=mode, pad_width=widths, constant_value=value)
    for axis, (begin, end) in enumerate(zip(begins, ends)):
        if begin or end:
            # Pad leaves the first two of four axes alone.
            shape = x.shape
            rows = x.reshape((1, product(shape[:axis]), shape[axis], product(shape[axis + 1 :])))
            y = pad_last(rows, mode=mode, pad_width=(0, 0, 0, 0, begin, end, 0, 0), constant_value=value)
            x = y.reshape(shape[:axis] + (begin + shape[axis] + end,) + shape[axis + 1 :])
    return x
