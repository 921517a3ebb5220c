"""Padding, which other operators need too where MXNet pads both ends of an axis alike."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import VERSION, legacy, product
from metaop.errors import UnsupportedOpError

if VERSION >= (1, 7):

    def padded(x, begins, ends, mode, value):
        widths = tuple(zip(begins, ends))
        if mode == "constant":
            return mx.np.pad(x, widths, mode=mode, constant_values=value)
        return mx.np.pad(x, widths, mode=mode)
else:
    pad_last = legacy(mx.nd.Pad)

    def padded(x, begins, ends, mode, value):
        if np.dtype(x.dtype).kind != "f":
            raise UnsupportedOpError("mxnet: Pad takes floating tensors only, and np.pad came with MXNet 1.7")
        for axis, (begin, end) in enumerate(zip(begins, ends)):
            if begin or end:
                # This release pads the last axes of tensors that have four.
                shape = x.shape
                rows = x.reshape((1, product(shape[:axis]), shape[axis], product(shape[axis + 1 :])))
                y = pad_last(rows, mode=mode, pad_width=(0, 0, 0, 0, begin, end, 0, 0), constant_value=value)
                x = y.reshape(shape[:axis] + (begin + shape[axis] + end,) + shape[axis + 1 :])
        return x
