"""Normalizations: ``(x - mean) / sqrt(variance + epsilon)`` over some axes, then scaled and shifted.

Variances are biased (divided by the number of elements). All but inference-time batch normalization take the statistics
from ``x`` itself, so one gradient serves them all.
"""

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import positive
from metaop.ops.rules import normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.ops.windows import accumulator
from metaop.types import FLOATING, TensorType

# -- shapes ------------------------------------------------------------------------------------------------------------


def _check_epsilon(epsilon):
    if not 0 <= epsilon < np.inf:
        raise AttributeValueError(f"epsilon takes a number >= 0; got {epsilon}")


def _per_channel(least):
    """The rule of an operator whose further tensors hold one value per channel of ``x``."""

    def rule(x, *channelwise, **attrs):
        _check_epsilon(attrs["epsilon"])
        require_rank("x", x, least)
        channels = None if x.shape is None else x.shape[1]
        for name, tensor in zip(("scale", "bias", "mean", "var")[: len(channelwise)], channelwise, strict=True):
            require_rank(name, tensor, 1, 1)
            if tensor.shape is not None:
                channels = unify_size(channels, tensor.shape[0], f"the channels of x and {name}")
        groups = attrs.get("num_groups", 1)
        if groups < 1:
            raise AttributeValueError(f"num_groups takes an integer >= 1; got {groups}")
        if channels is not None and channels % groups:
            raise ShapeError(f"x: {channels} channels cannot be divided into num_groups={groups} equal groups")
        return TensorType(x.dtype, None if x.shape is None else (x.shape[0], channels, *x.shape[2:]))

    return rule


def _layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    _check_epsilon(epsilon)
    require_rank("x", x, 1)
    shape = x.shape
    if shape is None:
        return x
    first = normalise_axis(axis, len(shape))
    for name, tensor in (("scale", scale), ("bias", bias)):
        if tensor is None or tensor.shape is None:
            continue
        what = f"{name} and the axes of x from {first} on"
        if len(tensor.shape) != len(shape) - first:
            raise ShapeError(f"{what} must have one shape; got {tensor} for {x}")
        shape = (*shape[:first], *(unify_size(a, b, what) for a, b in zip(shape[first:], tensor.shape, strict=True)))
    return x.with_shape(shape)


# -- references --------------------------------------------------------------------------------------------------------


def _standardised(x, axes, epsilon):
    """``x`` with mean zero and variance one over ``axes``, in the dtype in which sums are taken."""
    if not x.size:
        return x.astype(accumulator(x.dtype))
    x = x.astype(accumulator(x.dtype))
    centred = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(np.square(centred), axis=axes, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(epsilon))


def _along_channels(x, vector):
    """A vector with one value per channel, made to broadcast against ``x``."""
    return vector.reshape(-1, *[1] * (x.ndim - 2))


# -- gradients ---------------------------------------------------------------------------------------------------------


def _standardise(m, x, axes, epsilon):
    """``x`` standardised over ``axes``, and one over its standard deviation."""
    centred = m.subtract(x, m.reduce_mean(x, axes=axes, keepdims=True))
    inverse = m.rsqrt(m.add(m.reduce_mean(m.square(centred), axes=axes, keepdims=True), epsilon))
    return m.multiply(centred, inverse), inverse


def _through_statistics(m, g, standard, inverse, axes):
    """The gradient of ``x`` from that of the standardised ``x``: mean and variance depend on ``x`` too."""
    mean = m.reduce_mean(g, axes=axes, keepdims=True)
    slope = m.reduce_mean(m.multiply(g, standard), axes=axes, keepdims=True)
    return m.multiply(inverse, m.subtract(m.subtract(g, mean), m.multiply(standard, slope)))


def _channel_vector(m, x, vector):
    """As :func:`_along_channels`, in meta operators."""
    return m.reshape(vector, shape=(m.shape(x)[1], *[1] * (len(m.shape(x)) - 2)))


def _over_channels(m, x):
    """All axes but that of the channels."""
    return (0, *range(2, len(m.shape(x))))


def _zeros(m, *inputs):
    return tuple(None if t is None else m.zeros_like(t) for t in inputs)


# -- declarations ------------------------------------------------------------------------------------------------------


@meta_op(rule=_per_channel(2), dtypes=FLOATING, domain={"var": positive()})
def batch_norm(x, scale, bias, mean, var, *, epsilon: float = 1e-5, training: bool = False):
    """``x [N, C, ...]`` normalised per channel, then times ``scale [C]`` plus ``bias [C]``.

    With ``training`` the statistics are those of ``x`` over all other axes, and ``mean`` and ``var`` are ignored
    (updating them is the caller's affair); without it they are ``mean [C]`` and ``var [C]``.
    """
    if training:
        standard = _standardised(x, (0, *range(2, x.ndim)), epsilon)
    else:
        work = accumulator(x.dtype)
        deviation = np.sqrt(var.astype(work) + work.type(epsilon))
        standard = (x.astype(work) - _along_channels(x, mean)) / _along_channels(x, deviation)
    return (standard * _along_channels(x, scale) + _along_channels(x, bias)).astype(x.dtype)


@batch_norm.vjp
def batch_norm_vjp(m, g, y, x, scale, bias, mean, var, *, epsilon, training):
    if 0 in m.shape(x):
        return _zeros(m, x, scale, bias, mean, var)
    axes = _over_channels(m, x)
    scaled = m.multiply(g, _channel_vector(m, x, scale))
    dbias = m.reduce_sum(g, axes=axes)
    if training:
        standard, inverse = _standardise(m, x, axes, epsilon)
        dx = _through_statistics(m, scaled, standard, inverse, axes)
        return (dx, m.reduce_sum(m.multiply(g, standard), axes=axes), dbias, m.zeros_like(mean), m.zeros_like(var))
    inverse = m.rsqrt(m.add(var, epsilon))
    dx = m.multiply(scaled, _channel_vector(m, x, inverse))
    centred = m.subtract(x, _channel_vector(m, x, mean))
    dscale = m.multiply(m.reduce_sum(m.multiply(g, centred), axes=axes), inverse)
    dmean = m.negative(m.multiply(m.multiply(dbias, scale), inverse))
    dvar = m.multiply(m.multiply(m.multiply(dscale, scale), m.square(inverse)), -0.5)
    return (dx, dscale, dbias, dmean, dvar)


@batch_norm.samples
def batch_norm_samples(draw):
    def channels(n):
        return dict.fromkeys(("scale", "bias", "mean", "var"), (n,))

    for training in (False, True):
        yield draw(x=(4, 3, 2, 5), **channels(3), training=training)
        yield draw(x=(4, 3), **channels(3), training=training)
        yield draw(x=(2, 2, 3), **channels(2), training=training, epsilon=0.1)
        yield draw(x=(2, 2, 3, 2, 2), **channels(2), training=training)
        yield draw(x=(3, 1, 1, 1), **channels(1), training=training, epsilon=1e-3)
        x = np.linspace(-1.0, 1.0, 12).reshape(2, 2, 3)
        x[0, 0, 0] = np.nan
        yield draw(x=x, **channels(2), training=training, special=True)
    yield draw(x=(0, 3, 2, 2), **channels(3))


@batch_norm.rejects
def batch_norm_rejects(reject):
    def channels(n, **others):
        return dict.fromkeys(("scale", "bias", "mean", "var"), f"float32[{n}]") | others

    yield reject(x="float32[3]", **channels(3), message="x must have rank at least 2")
    yield reject(x="float32[2, 3, 4]", **channels(4), message="channels of x and scale")
    yield reject(x="float32[2, ?, 4]", **channels(4, var="float32[3]"), message="channels of x and var")
    yield reject(x="float32[2, 3]", **channels(3, mean="float32[1, 3]"), message="mean must have rank 1")
    yield reject(x="float32[2, 3]", **channels(3), epsilon=-1.0, message="epsilon takes")
    yield reject(x="float32[2, 3]", **channels(3), training=1, message="'training' takes")
    yield reject(x="float32[2, 3]", **channels(3, bias="float64[3]"), message="one dtype")
    yield reject(x="float32[2, 3]", scale="float32[3]", bias="float32[3]", mean=None, var=None, message="'mean'")


@meta_op(rule=_layer_norm, dtypes=FLOATING)
def layer_norm(x, scale=None, bias=None, *, axis: int = -1, epsilon: float = 1e-5):
    """``x`` normalised over the axes from ``axis`` on, then times ``scale`` plus ``bias`` (these axes only)."""
    y = _standardised(x, tuple(range(normalise_axis(axis, x.ndim), x.ndim)), epsilon)
    y = y if scale is None else y * scale
    y = y if bias is None else y + bias
    return y.astype(x.dtype)


@layer_norm.vjp
def layer_norm_vjp(m, g, y, x, *affine, axis, epsilon):
    rank = len(m.shape(x))
    first = normalise_axis(axis, rank)
    if 0 in m.shape(x):
        return _zeros(m, x, *affine)
    axes, others = tuple(range(first, rank)), tuple(range(first))

    def summed(gradient):
        return m.reduce_sum(gradient, axes=others) if others else gradient

    scale = affine[0] if affine else None
    standard, inverse = _standardise(m, x, axes, epsilon)
    dx = _through_statistics(m, g if scale is None else m.multiply(g, scale), standard, inverse, axes)
    parts = (m.multiply(g, standard), g)[: len(affine)]
    return (dx, *[None if t is None else summed(part) for t, part in zip(affine, parts, strict=True)])


@layer_norm.samples
def layer_norm_samples(draw):
    yield draw(x=(2, 3, 5), scale=(5,), bias=(5,))
    yield draw(x=(2, 3, 5), scale=(3, 5), bias=(3, 5), axis=1)
    yield draw(x=(2, 3, 4), scale=(2, 3, 4), bias=(2, 3, 4), axis=-3)
    yield draw(x=(2, 3, 5))
    yield draw(x=(2, 5), scale=(5,))
    yield draw(x=(2, 5), bias=(5,))
    yield draw(x=(4,), scale=(4,), bias=(4,), epsilon=0.1)
    yield draw(x=(3, 1), scale=(1,), bias=(1,), epsilon=1e-3)
    yield draw(x=(0, 4), scale=(4,), bias=(4,))
    yield draw(x=[[np.nan, 1.0, 2.0], [1.0, 2.0, 4.0]], scale=(3,), bias=(3,), special=True)


@layer_norm.rejects
def layer_norm_rejects(reject):
    yield reject(x="float32[]", message="x must have rank at least 1")
    yield reject(x="float32[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[2, 3]", scale="float32[2]", message="scale and the axes of x")
    yield reject(x="float32[2, 3]", scale="float32[3]", axis=0, message="scale and the axes of x")
    yield reject(x="float32[2, ?]", scale="float32[3]", bias="float32[4]", message="bias and the axes of x")
    yield reject(x="float32[2, 3]", epsilon=-1e-5, message="epsilon takes")
    yield reject(x="int32[2, 3]", message="takes float16")


@meta_op(rule=_per_channel(2), dtypes=FLOATING)
def group_norm(x, scale, bias, *, num_groups: int, epsilon: float = 1e-5):
    """``x [N, C, ...]`` normalised within each of ``num_groups`` equal groups of channels of each instance.

    ``scale [C]`` and ``bias [C]`` then apply per channel.
    """
    grouped = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    standard = _standardised(grouped, tuple(range(2, grouped.ndim)), epsilon).reshape(x.shape)
    return (standard * _along_channels(x, scale) + _along_channels(x, bias)).astype(x.dtype)


@group_norm.vjp
def group_norm_vjp(m, g, y, x, scale, bias, *, num_groups, epsilon):
    shape = m.shape(x)
    if 0 in shape:
        return _zeros(m, x, scale, bias)
    axes = _over_channels(m, x)
    grouped = (shape[0], num_groups, int(np.prod(shape[1:])) // num_groups)
    standard, inverse = _standardise(m, m.reshape(x, shape=grouped), (2,), epsilon)
    scaled = m.reshape(m.multiply(g, _channel_vector(m, x, scale)), shape=grouped)
    dx = m.reshape(_through_statistics(m, scaled, standard, inverse, (2,)), shape=shape)
    dscale = m.reduce_sum(m.multiply(g, m.reshape(standard, shape=shape)), axes=axes)
    return (dx, dscale, m.reduce_sum(g, axes=axes))


@group_norm.samples
def group_norm_samples(draw):
    yield draw(x=(2, 4, 3, 2), scale=(4,), bias=(4,), num_groups=2)
    yield draw(x=(2, 6, 5), scale=(6,), bias=(6,), num_groups=3, epsilon=0.1)
    yield draw(x=(2, 4, 3), scale=(4,), bias=(4,), num_groups=1)
    yield draw(x=(2, 3, 2, 2), scale=(3,), bias=(3,), num_groups=3)
    yield draw(x=(3, 4), scale=(4,), bias=(4,), num_groups=2)
    yield draw(x=(1, 4, 2, 2, 2), scale=(4,), bias=(4,), num_groups=2)
    yield draw(x=(2, 4, 1, 1), scale=(4,), bias=(4,), num_groups=2, epsilon=1e-3)
    yield draw(x=(0, 4, 3), scale=(4,), bias=(4,), num_groups=2)
    x = np.linspace(-1.0, 1.0, 24).reshape(2, 4, 3)
    x[0, 0, 0] = np.nan
    yield draw(x=x, scale=(4,), bias=(4,), num_groups=2, special=True)


@group_norm.rejects
def group_norm_rejects(reject):
    vectors = {"scale": "float32[4]", "bias": "float32[4]"}
    yield reject(x="float32[2, 4, 3]", **vectors, message="'num_groups' is required")
    yield reject(x="float32[2, 4, 3]", **vectors, num_groups=3, message="num_groups=3")
    yield reject(x="float32[...]", **vectors, num_groups=3, message="num_groups=3")
    yield reject(x="float32[2, 4, 3]", **vectors, num_groups=0, message="num_groups takes")
    yield reject(x="float32[2, 6, 3]", **vectors, num_groups=2, message="channels of x and scale")
    yield reject(x="float32[4]", **vectors, num_groups=2, message="x must have rank at least 2")
    yield reject(x="float32[2, 4]", scale="float32[]", bias="float32[4]", num_groups=2, message="scale must have rank")
    yield reject(x="float32[2, 4, 3]", **vectors, num_groups=2, epsilon=float("nan"), message="epsilon takes")


@meta_op(rule=_per_channel(3), dtypes=FLOATING)
def instance_norm(x, scale, bias, *, epsilon: float = 1e-5):
    """``x [N, C, spatial...]`` normalised over the spatial axes of each channel of each instance.

    ``scale [C]`` and ``bias [C]`` then apply per channel.
    """
    standard = _standardised(x, tuple(range(2, x.ndim)), epsilon)
    return (standard * _along_channels(x, scale) + _along_channels(x, bias)).astype(x.dtype)


@instance_norm.vjp
def instance_norm_vjp(m, g, y, x, scale, bias, *, epsilon):
    if 0 in m.shape(x):
        return _zeros(m, x, scale, bias)
    within, axes = tuple(range(2, len(m.shape(x)))), _over_channels(m, x)
    standard, inverse = _standardise(m, x, within, epsilon)
    dx = _through_statistics(m, m.multiply(g, _channel_vector(m, x, scale)), standard, inverse, within)
    return (dx, m.reduce_sum(m.multiply(g, standard), axes=axes), m.reduce_sum(g, axes=axes))


@instance_norm.samples
def instance_norm_samples(draw):
    yield draw(x=(2, 3, 4, 5), scale=(3,), bias=(3,))
    yield draw(x=(2, 3, 6), scale=(3,), bias=(3,), epsilon=0.1)
    yield draw(x=(1, 2, 2, 3, 2), scale=(2,), bias=(2,))
    yield draw(x=(2, 1, 3, 1), scale=(1,), bias=(1,), epsilon=1e-3)
    yield draw(x=(0, 3, 4), scale=(3,), bias=(3,))
    x = np.linspace(-1.0, 1.0, 12).reshape(1, 2, 6)
    x[0, 0, 0] = np.nan
    yield draw(x=x, scale=(2,), bias=(2,), special=True)


@instance_norm.rejects
def instance_norm_rejects(reject):
    yield reject(x="float32[2, 3]", scale="float32[3]", bias="float32[3]", message="x must have rank at least 3")
    yield reject(x="float32[2, 3, 4]", scale="float32[4]", bias="float32[4]", message="channels of x and scale")
    yield reject(x="float32[2, ?, 4]", scale="float32[3]", bias="float32[4]", message="channels of x and bias")
    yield reject(x="float32[2, 3, 4]", scale="float32[3]", bias="float32[3]", epsilon=-1.0, message="epsilon takes")
