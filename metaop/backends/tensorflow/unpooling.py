"""TensorFlow's maxima with their positions."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind
from metaop.backends.tensorflow.layout import channels_first, channels_last
from metaop.errors import UnsupportedOpError

bind.unsupported("col2im", reason="it takes images apart (extract_patches) but does not put them together")


@bind
def max_pool_with_indices(x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    if len(kernel_shape) != 2 or any(pads or ()) or any(d != 1 for d in dilations or ()) or ceil_mode:
        raise UnsupportedOpError(
            "tensorflow: max_pool_with_argmax is for images, without pads, dilations and ceil_mode"
        )
    y, places = tf.nn.max_pool_with_argmax(
        channels_last(x),
        ksize=list(kernel_shape),
        strides=list(strides or (1, 1)),
        padding="VALID",
        output_dtype=tf.int64,
        include_batch_in_index=True,
    )
    # Positions count channels last; they are wanted channels first.
    _, channels, height, width = x.shape
    plane = height * width
    pixel, channel = places // channels, places % channels
    moved = (pixel // plane * channels + channel) * plane + pixel % plane
    return channels_first(y), channels_first(moved)
