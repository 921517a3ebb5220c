"""Quantisation from JAX's arithmetic: it has no quantised kernels for these, but sums of small integers in int32."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from metaop.backends.jax.bindings import bind
from metaop.errors import UnsupportedOpError


def spread(values, shape, axis, block_size):
    """One value for each element of ``shape``, by broadcasting."""
    if values.size == 1:
        return jnp.reshape(values, ())
    if block_size:
        return jnp.take(values, np.arange(shape[axis]) // block_size, axis=axis, mode="clip")
    sizes = [1] * len(shape)
    sizes[axis] = -1
    return jnp.reshape(values, sizes)


def divided(x, y):
    """The quotient, rounded once: where XLA sees a divisor broadcast it multiplies by the reciprocal instead."""
    if not hasattr(lax, "optimization_barrier"):
        raise UnsupportedOpError("jax {}: nothing keeps XLA from rounding a quotient twice".format(jax.__version__))
    return x / lax.optimization_barrier(jnp.broadcast_to(y, x.shape))


def saturated(x, zero_point, dtype):
    """Rounded, moved and held to the range of ``dtype``; in float64, where adding the zero point does not round."""
    whole = jnp.round(x).astype(jnp.float64)
    if zero_point is not None:
        whole = whole + zero_point.astype(jnp.float64)
    limits = jnp.iinfo(dtype)
    return jnp.clip(whole, limits.min, limits.max).astype(dtype)


@bind
def quantize_linear(x, scale, zero_point=None, *, axis, block_size, output_dtype):
    if zero_point is not None:
        dtype = zero_point.dtype
        zero_point = spread(zero_point, x.shape, axis, block_size)
    else:
        dtype = jnp.uint8 if output_dtype is None else output_dtype
    return saturated(divided(x, spread(scale, x.shape, axis, block_size)), zero_point, dtype)


@bind
def dequantize_linear(x, scale, zero_point=None, *, axis, block_size):
    whole = x.astype(jnp.int32)
    if zero_point is not None:
        whole = whole - spread(zero_point.astype(jnp.int32), x.shape, axis, block_size)
    return whole.astype(scale.dtype) * spread(scale, x.shape, axis, block_size)


@bind
def dynamic_quantize_linear(x):
    low, high = jnp.min(x, initial=0), jnp.max(x, initial=0)
    scale = jnp.where(high > low, divided(high - low, jnp.asarray(255, x.dtype)), 1)
    zero_point = saturated(divided(-low, scale), None, jnp.uint8)
    return saturated(divided(x, scale), zero_point, jnp.uint8), scale, zero_point


def beside(values, rank):
    """One number, or one for each element of the first of ``rank`` axes."""
    return jnp.reshape(values, () if values.size == 1 else (-1,) + (1,) * (rank - 1))


def shifted(values, zero_point):
    """In int32, less the zero point."""
    values = values.astype(jnp.int32)
    return values if zero_point is None else values - zero_point.astype(jnp.int32)


def requantised(total, factor, scale, zero_point):
    """The sums, times the scales of what went in over the scale of what comes out."""
    factor = divided(factor, jnp.reshape(scale.astype(factor.dtype), ()))
    return saturated(total.astype(jnp.float64) * factor, jnp.reshape(zero_point, ()), zero_point.dtype)


def wide(scale):
    return scale.astype(jnp.promote_types(scale.dtype, jnp.float32))


@bind
def matmul_integer(a, b, a_zero_point=None, b_zero_point=None):
    if a_zero_point is not None:
        a_zero_point = beside(a_zero_point, 2)
    return jnp.matmul(shifted(a, a_zero_point), shifted(b, b_zero_point))


@bind
def qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    total = matmul_integer(a, b, a_zero_point, b_zero_point)
    return requantised(total, beside(wide(a_scale), 2) * wide(b_scale), y_scale, y_zero_point)


@bind
def conv_integer(x, w, x_zero_point=None, w_zero_point=None, *, strides, pads, dilations, group):
    spatial = w.ndim - 2
    if x_zero_point is not None:
        x_zero_point = beside(x_zero_point, 1)
    if w_zero_point is not None:
        w_zero_point = beside(w_zero_point, w.ndim)
    return lax.conv_general_dilated(
        shifted(x, x_zero_point),
        shifted(w, w_zero_point),
        window_strides=strides or (1,) * spatial,
        padding=[(0, 0)] * spatial if pads is None else list(zip(pads[:spatial], pads[spatial:])),
        lhs_dilation=(1,) * spatial,
        rhs_dilation=dilations or (1,) * spatial,
        dimension_numbers=None,
        feature_group_count=group,
        batch_group_count=1,
        preferred_element_type=jnp.int32,
    )


@bind
def qlinear_conv(
    x,
    x_scale,
    x_zero_point,
    w,
    w_scale,
    w_zero_point,
    y_scale,
    y_zero_point,
    b=None,
    *,
    strides,
    pads,
    dilations,
    group,
):
    total = conv_integer(x, w, x_zero_point, w_zero_point, strides=strides, pads=pads, dilations=dilations, group=group)
    if b is not None:
        total = total + beside(b, w.ndim - 1)
    factor = beside(x_scale, 1) * beside(w_scale, w.ndim - 1)
    return requantised(total, factor, y_scale, y_zero_point)
