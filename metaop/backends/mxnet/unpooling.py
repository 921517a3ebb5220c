"""MXNet's ``col2im`` came with release 1.7; its pooling gives no positions."""

import mxnet as mx

from metaop.backends.mxnet.bindings import VERSION, bind, legacy
from metaop.errors import UnsupportedOpError

bind.unsupported("max_pool_with_indices", reason="its Pooling gives no positions")

if VERSION >= (1, 7):
    put_back = legacy(mx.nd.col2im)

    @bind
    def col2im(x, *, image_shape, block_shape, strides, pads, dilations):
        count = len(image_shape)
        pads = pads or (0,) * (2 * count)
        if count != 2 or pads[:count] != pads[count:]:
            raise UnsupportedOpError("mxnet: col2im makes images of two axes, and pads both ends alike")
        return put_back(
            x,
            output_size=image_shape,
            kernel=block_shape,
            stride=strides or (1,) * count,
            dilate=dilations or (1,) * count,
            pad=pads[:count],
        )

else:
    bind.unsupported("col2im", reason="MXNet has it from 1.7 on")
