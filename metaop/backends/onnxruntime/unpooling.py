"""Maxima with their positions, and windows put back into an image."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind


@bind
def max_pool_with_indices(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    y, places = o.MaxPool(
        x,
        auto_pad="NOTSET",
        storage_order=0,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        dilations=dilations,
        ceil_mode=ceil_mode,
        outputs=2,
    )
    places.dtype = np.dtype(np.int64)
    return y, places


@bind
def col2im(o, x, *, image_shape, block_shape, strides, pads, dilations):
    return o.Col2Im(x, image_shape, block_shape, strides=strides, pads=pads, dilations=dilations)
