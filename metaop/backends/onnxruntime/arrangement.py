"""Repeating, cropping, shuffling and counting."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.elementwise import cast
from metaop.backends.onnxruntime.graph import NoKernel, node

bind.rename({"depth_to_space": node("DepthToSpace", blocksize="blocksize", mode="mode")})


@bind
def tile(o, x, *, repeats):
    # Releases up to 1.15 tile no scalars.
    return o.Tile(x, repeats) if repeats else o.Identity(x)


@bind
def center_crop_pad(o, x, *, shape, axes):
    # Some releases take an empty list of axes for none given.
    return o.CenterCropPad(x, shape, axes=axes) if shape else o.Identity(x)


@bind
def space_to_depth(o, x, *, blocksize, mode):
    y = o.SpaceToDepth(x, blocksize=blocksize)
    if mode == "DCR":
        return y
    # ONNX has the other order from opset 28 on: the channels are numbered anew.
    n, c, h, w = x.shape
    h, w, square = h // blocksize, w // blocksize, blocksize * blocksize
    split = o.Transpose(o.Reshape(y, (n, square, c, h, w), allowzero=1), perm=(0, 2, 1, 3, 4))
    return o.Reshape(split, (n, square * c, h, w), allowzero=1)


@bind
def reverse_sequence(o, x, sequence_lens, *, batch_axis, time_axis):
    axes = batch_axis % x.rank, time_axis % x.rank
    if max(axes) > 1:
        raise NoKernel("ONNX's ReverseSequence has batch and time in the first two axes")
    return o.ReverseSequence(x, cast(o, sequence_lens, to=np.dtype(np.int64)), batch_axis=axes[0], time_axis=axes[1])


@bind
def range(o, *, start, limit, delta, dtype):
    return o.Range(*[o.constant(v, dtype) for v in (start, limit, delta)])
