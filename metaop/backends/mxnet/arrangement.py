"""MXNet's repeating, cropping, shuffling and counting."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import bind, legacy, take_no_empty
from metaop.backends.mxnet.movement import movable, pad

to_space = legacy(mx.nd.depth_to_space)
to_depth = legacy(mx.nd.space_to_depth)
reverse = legacy(mx.nd.SequenceReverse)


@bind
@movable
def tile(x, *, repeats):
    return mx.np.tile(x, repeats)


@bind
@movable
def center_crop_pad(x, *, shape, axes):
    rank = len(x.shape)
    cut, pads = [slice(None)] * rank, [0] * (2 * rank)
    for i, size in enumerate(shape):
        axis = i if axes is None else axes[i] % rank
        less = x.shape[axis] - size
        if less > 0:
            cut[axis] = slice(less // 2, less // 2 + size)
        else:
            pads[axis], pads[rank + axis] = -less // 2, -less - -less // 2
    return pad(x[tuple(cut)], pads=tuple(pads), mode="constant", value=0.0)


def regroup(x, outer, inner):
    """The channels, numbered (outer, inner), numbered (inner, outer)."""
    n, c, h, w = x.shape
    return mx.np.reshape(mx.np.swapaxes(mx.np.reshape(x, (n, outer, inner, h, w)), 1, 2), (n, c, h, w))


@bind
@movable
def depth_to_space(x, *, blocksize, mode):
    square = blocksize * blocksize
    take_no_empty("depth_to_space", x)
    if mode == "CRD":
        x = regroup(x, x.shape[1] // square, square)
    return to_space(x, block_size=blocksize)


@bind
@movable
def space_to_depth(x, *, blocksize, mode):
    take_no_empty("space_to_depth", x)
    y = to_depth(x, block_size=blocksize)
    return regroup(y, blocksize * blocksize, x.shape[1]) if mode == "CRD" else y


@bind
@movable
def reverse_sequence(x, sequence_lens, *, batch_axis, time_axis):
    take_no_empty("SequenceReverse", x)
    axes = (time_axis % len(x.shape), batch_axis % len(x.shape))
    y = reverse(mx.np.moveaxis(x, axes, (0, 1)), sequence_lens, use_sequence_length=True, axis=0)
    return mx.np.moveaxis(y, (0, 1), axes)


@bind
def range(*, start, limit, delta, dtype):
    limit = limit if (limit - start) * delta > 0 else start
    return mx.np.arange(start, limit, delta, dtype=np.dtype(dtype).name)
