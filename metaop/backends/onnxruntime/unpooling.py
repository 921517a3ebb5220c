"""Maxima with their positions, and windows put back into an image."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.windows import explicit


@bind
def max_pool_with_indices(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    y, places = o.MaxPool(
        x,
        auto_pad="NOTSET",
        storage_order=0,
        kernel_shape=kernel_shape,
        ceil_mode=ceil_mode,
        outputs=2,
        **explicit(len(kernel_shape), strides, pads, dilations),
    )
    places.dtype = np.dtype(np.int64)
    return y, places


@bind
def col2im(o, x, *, image_shape, block_shape, strides, pads, dilations):
    return o.Col2Im(x, image_shape, block_shape, **explicit(len(block_shape), strides, pads, dilations))
