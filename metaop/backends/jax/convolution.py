"""JAX's convolutions: ``lax.conv_general_dilated``, which knows groups, uneven padding and dilations of both sides."""

import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import bind

LAYOUTS = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")}


def with_bias(y, b):
    return y if b is None else y + jnp.reshape(b, (-1,) + (1,) * (y.ndim - 2))


def convolve(x, w, b, strides, pads, dilations, group):
    spatial = len(strides)
    y = lax.conv_general_dilated(
        x,
        w,
        window_strides=strides,
        padding=list(zip(pads[:spatial], pads[spatial:])),
        lhs_dilation=(1,) * spatial,
        rhs_dilation=dilations,
        dimension_numbers=LAYOUTS[spatial],
        feature_group_count=group,
        batch_group_count=1,
        precision=lax.Precision.HIGHEST,
        preferred_element_type=None,
    )
    return with_bias(y, b)


def convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group):
    # A convolution of the input spread out by the strides, with the kernel the other way round: lax.conv_transpose is
    # the same, but knows neither uneven padding nor groups.
    spatial = len(strides)
    reach = [(size - 1) * dilation for size, dilation in zip(w.shape[2:], dilations)]
    padding = [(reach[i] - pads[i], reach[i] - pads[i + spatial] + output_padding[i]) for i in range(spatial)]
    # [C, M/group, ...] as [M, C/group, ...].
    channels, features = w.shape[:2]
    w = jnp.reshape(w, (group, channels // group, features) + w.shape[2:])
    w = jnp.reshape(jnp.swapaxes(w, 1, 2), (group * features, channels // group) + w.shape[3:])
    y = lax.conv_general_dilated(
        x,
        jnp.flip(w, range(2, spatial + 2)),
        window_strides=(1,) * spatial,
        padding=padding,
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=LAYOUTS[spatial],
        feature_group_count=group,
        batch_group_count=1,
        precision=lax.Precision.HIGHEST,
        preferred_element_type=None,
    )
    return with_bias(y, b)


def convolution(name):
    def conv(x, w, b=None, *, strides, pads, dilations, group):
        return convolve(x, w, b, strides, pads, dilations, group)

    conv.__name__ = name
    bind(conv)


def transposed_convolution(name):
    def conv_transpose(x, w, b=None, *, strides, pads, output_padding, dilations, group):
        return convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)

    conv_transpose.__name__ = name
    bind(conv_transpose)


for rank in "123":
    convolution("conv{}d".format(rank))
    transposed_convolution("conv_transpose{}d".format(rank))


@bind
def depthwise_conv2d(x, w, b=None, *, strides, pads, dilations):
    return convolve(x, w, b, strides, pads, dilations, x.shape[1])
