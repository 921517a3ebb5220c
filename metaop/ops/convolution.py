"""Convolutions and transposed convolutions over one, two and three spatial axes.

Inputs are ``[N, C, spatial...]``. One reference, one shape rule and one gradient rule serve every rank: the gradients
of a convolution are themselves (transposed) convolutions of the same rank.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.rules import require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.ops.windows import accumulator, axes_of, extents, per_axis, window_count
from metaop.types import FLOATING, Ints, TensorType

# -- shapes ------------------------------------------------------------------------------------------------------------


def _kernel_of(what, shape):
    for size in shape[2:]:
        if size == 0:
            raise ShapeError(f"{what}: a kernel has at least one element along each axis; got sizes {shape[2:]}")
    return shape[2:]


def _check_bias(b, channels):
    if b is not None:
        require_rank("b", b, 1, 1)
        unify_size(None if b.shape is None else b.shape[0], channels, "b and the output channels")


def _divides(group, channels, what):
    if group < 1:
        raise AttributeValueError(f"group takes an integer >= 1; got {group}")
    if channels is not None and channels % group:
        raise ShapeError(f"{what}: {channels} channels cannot be divided into group={group} equal groups")


def _convolution(spatial, *, depthwise=False):
    """The rule of a convolution over ``spatial`` axes; a depthwise one has as many groups as input channels."""

    def rule(x, w, b=None, *, strides, pads, dilations, group=1):
        per_axis(spatial, strides=strides, pads=pads, dilations=dilations)
        sizes, weights = axes_of("x", x, spatial), axes_of("w", w, spatial)
        channels, features = sizes[1], weights[0]
        if depthwise:
            unify_size(weights[1], 1, "axis 1 of w, which a depthwise kernel has only one of")
            if channels == 0:
                raise ShapeError("x: a depthwise convolution needs at least one channel")
            if channels is not None and features is not None and features % channels:
                raise ShapeError(f"w: axis 0 must be a multiple of the {channels} channels of x; got {features}")
        else:
            _divides(group, channels, "x")
            _divides(group, features, "w")
            if channels is not None and weights[1] is not None and channels != weights[1] * group:
                raise ShapeError(
                    f"w: axis 1 must be the {channels} channels of x divided by group={group}; got {weights[1]}"
                )
        _check_bias(b, features)
        kernel = _kernel_of("w", weights)
        reach = [None if k is None else (k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        counts = (
            window_count(f"axis {i + 2} of x", sizes[i + 2], reach[i], strides[i], pads[i], pads[i + spatial])
            for i in range(spatial)
        )
        return TensorType(x.dtype, (sizes[0], features, *counts))

    return rule


def _transposed(spatial):
    """The rule of a transposed convolution over ``spatial`` axes."""

    def rule(x, w, b=None, *, strides, pads, output_padding, dilations, group):
        per_axis(spatial, strides=strides, pads=pads, output_padding=output_padding, dilations=dilations)
        for extra, stride, dilation in zip(output_padding, strides, dilations, strict=True):
            if extra >= max(stride, dilation):
                raise AttributeValueError(
                    f"output_padding must be smaller than the stride or the dilation of its axis; got "
                    f"output_padding={output_padding} with strides={strides} and dilations={dilations}"
                )
        sizes, weights = axes_of("x", x, spatial), axes_of("w", w, spatial)
        _divides(group, unify_size(sizes[1], weights[0], "the channels of x and axis 0 of w"), "x")
        features = None if weights[1] is None else weights[1] * group
        _check_bias(b, features)
        kernel = _kernel_of("w", weights)
        result = []
        for i in range(spatial):
            if sizes[i + 2] is None or kernel[i] is None:
                result.append(None)
                continue
            full = (sizes[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + output_padding[i]
            left = full - pads[i] - pads[i + spatial]
            if left < 1:
                raise ShapeError(
                    f"axis {i + 2} of x: pads {pads[i]} and {pads[i + spatial]} leave nothing of the {full} elements "
                    f"that the output would have without them"
                )
            result.append(left)
        return TensorType(x.dtype, (sizes[0], features, *result))

    return rule


# -- references --------------------------------------------------------------------------------------------------------


def _add_bias(y, b):
    return y if b is None else y + b.reshape(-1, *[1] * (y.ndim - 2))


def _convolve(x, w, b, strides, pads, dilations, group):
    """Windows as columns of a matrix, one matrix product per group."""
    spatial = len(strides)
    axes = tuple(range(2, spatial + 2))
    work = accumulator(x.dtype)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])
    windows = sliding_window_view(padded, extents(w.shape[2:], dilations), axes)
    steps = [slice(None, None, s) for s in (*strides, *dilations)]
    windows = windows[(slice(None), slice(None), *steps)]
    batch, channels, counts = x.shape[0], x.shape[1] // group, windows.shape[2 : spatial + 2]
    features, taps = w.shape[0] // group, int(np.prod(w.shape[2:]))
    # [C, kernel..., N, windows...]: the long, contiguous axes last.
    columns = np.transpose(windows, (1, *range(spatial + 2, 2 * spatial + 2), 0, *axes)).astype(work)
    columns = columns.reshape(group, channels * taps, batch * int(np.prod(counts)))
    y = w.reshape(group, features, channels * taps).astype(work) @ columns
    y = np.moveaxis(y.reshape(group * features, batch, *counts), 1, 0)
    return np.ascontiguousarray(_add_bias(y, b), dtype=x.dtype)


def _convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group):
    """Every input element spreads a copy of the kernel; what ``pads`` names is cut off the ends."""
    spatial = len(strides)
    work = accumulator(x.dtype)
    batch, sizes, kernel = x.shape[0], x.shape[2:], w.shape[2:]
    channels, features = x.shape[1] // group, w.shape[1]
    spread = [
        (n - 1) * s + extent + extra
        for n, s, extent, extra in zip(sizes, strides, extents(kernel, dilations), output_padding, strict=True)
    ]
    columns = np.moveaxis(x, 0, 1).astype(work).reshape(group, channels, batch * int(np.prod(sizes)))
    weights = w.reshape(group, channels, features * int(np.prod(kernel))).astype(work)
    pieces = np.matmul(np.swapaxes(weights, 1, 2), columns).reshape(group, features, *kernel, batch, *sizes)
    y = np.zeros((group, features, batch, *spread), work)
    for tap in np.ndindex(*kernel):
        places = [
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        ]
        y[(..., *places)] += pieces[(slice(None), slice(None), *tap)]
    kept = [slice(p, n - q) for n, p, q in zip(spread, pads[:spatial], pads[spatial:], strict=True)]
    y = np.moveaxis(y.reshape(group * features, batch, *spread), 1, 0)[(..., *kept)]
    return np.ascontiguousarray(_add_bias(y, b), dtype=x.dtype)


# -- gradients ---------------------------------------------------------------------------------------------------------


def _cut(m, x, sizes):
    """The first ``sizes`` elements along the spatial axes."""
    if m.shape(x)[2:] == tuple(sizes):
        return x
    return m.slice(x, starts=(0,) * len(sizes), ends=tuple(sizes), axes=tuple(range(2, len(sizes) + 2)))


def _weight_gradient(m, signal, outer, kernel, strides, pads, dilations, group):
    """What correlates ``signal`` (where windows slide) with ``outer`` (one element per window), for every tap.

    That is a convolution in which batch and channels change places, and so do strides and dilations: the windows'
    starts are ``strides`` apart and the taps ``dilations``. Groups stay groups once they stand before the batch.
    """
    spatial = len(kernel)
    swap = (1, 0, *range(2, spatial + 2))
    batch, channels, *sizes = m.shape(signal)
    if group == 1:
        moved = m.transpose(signal, perm=swap)
    else:
        moved = m.reshape(signal, shape=(batch, group, channels // group, *sizes))
        moved = m.transpose(moved, perm=(2, 1, 0, *range(3, spatial + 3)))
        moved = m.reshape(moved, shape=(channels // group, group * batch, *sizes))
    convolve = getattr(m, f"conv{spatial}d")
    found = convolve(moved, m.transpose(outer, perm=swap), strides=dilations, pads=pads, dilations=strides, group=group)
    # Input that no window reached looks like further taps.
    return m.transpose(_cut(m, found, kernel), perm=swap)


def _bias_gradients(m, g, bias):
    axes = (0, *range(2, len(m.shape(g))))
    return [None if b is None else m.reduce_sum(g, axes=axes) for b in bias]


def _zeros(m, *inputs):
    return tuple(None if t is None else m.zeros_like(t) for t in inputs)


def _convolution_vjp(m, g, y, x, w, *b, strides, pads, dilations, group):
    if 0 in m.shape(x):
        return _zeros(m, x, w, *b)
    spatial = len(strides)
    sizes, kernel = m.shape(x)[2:], m.shape(w)[2:]
    # What no window reached at the end of the input is output padding seen from the other side.
    rest = tuple(
        (n + pads[i] + pads[i + spatial] - extent) % strides[i]
        for i, (n, extent) in enumerate(zip(sizes, extents(kernel, dilations), strict=True))
    )
    spread = getattr(m, f"conv_transpose{spatial}d")
    dx = spread(g, w, strides=strides, pads=pads, output_padding=rest, dilations=dilations, group=group)
    dw = _weight_gradient(m, x, g, kernel, strides, pads, dilations, group)
    return (dx, dw, *_bias_gradients(m, g, b))


def _transposed_vjp(m, g, y, x, w, *b, strides, pads, output_padding, dilations, group):
    if 0 in m.shape(x):
        return _zeros(m, x, w, *b)
    convolve = getattr(m, f"conv{len(strides)}d")
    dx = convolve(g, w, strides=strides, pads=pads, dilations=dilations, group=group)
    dw = _weight_gradient(m, g, x, m.shape(w)[2:], strides, pads, dilations, group)
    # Output padding of a whole stride (a dilated kernel allows it) is room for one window more.
    return (_cut(m, dx, m.shape(x)[2:]), dw, *_bias_gradients(m, g, b))


# -- samples that every rank needs -------------------------------------------------------------------------------------


def _with_nan(*shape):
    values = np.linspace(-1.0, 1.0, int(np.prod(shape))).reshape(shape)
    values[(0,) * len(shape)] = np.nan
    return values


def _convolution_samples(op, spatial):
    sizes, kernel = (7, 6, 5)[:spatial], (3, 2, 3)[:spatial]
    uneven = (1, 0, 2)[:spatial] + (2, 1, 0)[:spatial]
    strides, dilations, ones = (2, 3, 2)[:spatial], (2, 3, 1)[:spatial], (1,) * spatial

    @op.samples
    def convolution(draw):
        yield draw(x=(2, 3, *sizes), w=(4, 3, *kernel), b=(4,))
        yield draw(x=(2, 3, *sizes), w=(2, 3, *kernel), pads=uneven)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *kernel), b=(2,), strides=strides)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *kernel), dilations=dilations)
        yield draw(x=(2, 4, *sizes), w=(6, 2, *kernel), b=(6,), group=2, strides=strides, pads=uneven)
        yield draw(x=(2, 4, *sizes), w=(4, 1, *kernel), group=4, strides=strides, dilations=dilations, pads=uneven)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *ones), strides=(2,) * spatial, pads=(2,) * (2 * spatial))
        yield draw(x=(2, 3, *ones), w=(2, 3, *ones), b=(2,))
        yield draw(x=(0, 3, *sizes), w=(4, 3, *kernel), b=(4,))
        yield draw(x=_with_nan(1, 2, *sizes), w=(2, 2, *kernel), special=True)

    @op.rejects
    def do_not_fit(reject):
        x, w = _text(2, 4, *sizes), _text(6, 4, *kernel)
        yield reject(x=_text(2, 4), w=w, message="x must have rank")
        yield reject(x=x, w=_text(6, 4), message="w must have rank")
        yield reject(x=x, w=_text(6, 3, *kernel), message="channels of x")
        yield reject(x=x, w=w, group=2, message="group=2")
        yield reject(x=_text(2, 3, *sizes), w="float32[...]", group=2, message="x: 3 channels")
        yield reject(x=_text(2, "?", *sizes), w=_text(3, 2, *kernel), group=2, message="w: 3 channels")
        yield reject(x=x, w=w, group=0, message="group takes")
        yield reject(x=x, w=w, b="float32[4]", message="b and the output channels")
        yield reject(x=x, w=w, b="float32[6, 1]", message="b must have rank 1")
        yield reject(x="float32[...]", w=w, strides=(0,) * spatial, message="strides takes")
        yield reject(x=x, w=w, strides=(1,) * (spatial + 1), message="strides takes")
        yield reject(x=x, w=w, dilations=(1,) * (spatial - 1), message="dilations takes")
        yield reject(x=x, w=w, pads=(1,) * spatial, message="pads takes")
        yield reject(x=x, w=w, pads=(-1,) * (2 * spatial), message="pads takes")
        yield reject(x=_text("?", 4, *[2] * spatial), w=_text(6, 4, *[3] * spatial), message="the window spans 3")
        yield reject(x=x, w=_text(6, 4, *[0] * spatial), message="at least one element")
        yield reject(x=x, w="float64" + w[7:], message="one dtype")
        yield reject(x="int32" + x[7:], w="int32" + w[7:], message="takes float16")


def _transposed_samples(op, spatial):
    sizes, kernel = (4, 3, 3)[:spatial], (3, 2, 3)[:spatial]
    uneven = (1, 0, 2)[:spatial] + (2, 1, 0)[:spatial]
    strides, dilations, ones = (2, 3, 2)[:spatial], (2, 3, 1)[:spatial], (1,) * spatial
    extra = (1, 2, 1)[:spatial]

    @op.samples
    def transposed(draw):
        yield draw(x=(2, 3, *sizes), w=(3, 4, *kernel), b=(4,))
        yield draw(x=(2, 3, *sizes), w=(3, 2, *kernel), pads=uneven)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *kernel), b=(2,), strides=strides)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *kernel), strides=strides, output_padding=extra, pads=uneven)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *kernel), dilations=dilations)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *kernel), dilations=(2,) * spatial, output_padding=ones)
        yield draw(x=(2, 4, *sizes), w=(4, 3, *kernel), b=(6,), group=2, strides=strides, pads=uneven)
        yield draw(x=(2, 4, *sizes), w=(4, 1, *kernel), group=4, strides=strides, dilations=dilations, pads=uneven)
        yield draw(x=(1, 2, *sizes), w=(2, 2, *ones), strides=(2,) * spatial, pads=(1,) * (2 * spatial))
        yield draw(x=(2, 3, *ones), w=(3, 2, *ones), b=(2,))
        yield draw(x=(0, 3, *sizes), w=(3, 4, *kernel), b=(4,))
        yield draw(x=_with_nan(1, 2, *sizes), w=(2, 2, *kernel), special=True)

    @op.rejects
    def do_not_fit(reject):
        x, w = _text(2, 4, *sizes), _text(4, 3, *kernel)
        yield reject(x=_text(2, 4), w=w, message="x must have rank")
        yield reject(x=x, w=_text(4, 3), message="w must have rank")
        yield reject(x=x, w=_text(3, 4, *kernel), message="channels of x and axis 0 of w")
        yield reject(x=x, w=w, group=3, message="group=3")
        yield reject(x=x, w=w, group=-1, message="group takes")
        yield reject(x=x, w=w, b="float32[3]", group=2, message="b and the output channels")
        yield reject(x="float32[...]", w=w, strides=(0,) * spatial, message="strides takes")
        yield reject(x=x, w=w, strides=(1,) * (spatial + 1), message="strides takes")
        yield reject(x=x, w=w, dilations=(0,) * spatial, message="dilations takes")
        yield reject(x=x, w=w, pads=(1,) * spatial, message="pads takes")
        yield reject(x=x, w=w, output_padding=(1,) * (spatial + 1), message="output_padding takes")
        yield reject(x=x, w=w, output_padding=(1,) * spatial, message="output_padding must be smaller")
        yield reject(x=_text("?", 4, *ones), w=_text(4, 2, *ones), pads=(1,) * (2 * spatial), message="leave nothing")
        yield reject(x=x, w=_text(4, 3, *[0] * spatial), message="at least one element")
        yield reject(x="int32" + x[7:], w="int32" + w[7:], message="takes float16")


def _text(*sizes):
    return f"float32[{', '.join(str(s) for s in sizes)}]"


# -- declarations ------------------------------------------------------------------------------------------------------


@meta_op(rule=_convolution(1), dtypes=FLOATING)
def conv1d(x, w, b=None, *, strides: Ints = (1,), pads: Ints = (0, 0), dilations: Ints = (1,), group: int = 1):
    """Convolution of ``x [N, C, L]`` with ``w [M, C/group, k]``, plus ``b [M]``; the kernel is not flipped.

    ``pads`` are zeros before and after; with groups, each part of the output channels sees its part of the input's.
    """
    return _convolve(x, w, b, strides, pads, dilations, group)


conv1d.vjp(_convolution_vjp)
_convolution_samples(conv1d, 1)


@meta_op(rule=_convolution(2), dtypes=FLOATING)
def conv2d(
    x, w, b=None, *, strides: Ints = (1, 1), pads: Ints = (0, 0, 0, 0), dilations: Ints = (1, 1), group: int = 1
):
    """Convolution of ``x [N, C, H, W]`` with ``w [M, C/group, kH, kW]``, plus ``b [M]``; the kernel is not flipped.

    ``pads`` are zeros: top, left, bottom, right. With groups, each part of the output channels sees its part of the
    input's.
    """
    return _convolve(x, w, b, strides, pads, dilations, group)


conv2d.vjp(_convolution_vjp)
_convolution_samples(conv2d, 2)


@meta_op(rule=_convolution(3), dtypes=FLOATING)
def conv3d(
    x,
    w,
    b=None,
    *,
    strides: Ints = (1, 1, 1),
    pads: Ints = (0, 0, 0, 0, 0, 0),
    dilations: Ints = (1, 1, 1),
    group: int = 1,
):
    """Convolution of ``x [N, C, D, H, W]`` with ``w [M, C/group, kD, kH, kW]``, plus ``b [M]``; no flipping.

    ``pads`` are zeros: three begins, then three ends. With groups, each part of the output channels sees its part of
    the input's.
    """
    return _convolve(x, w, b, strides, pads, dilations, group)


conv3d.vjp(_convolution_vjp)
_convolution_samples(conv3d, 3)


@meta_op(rule=_transposed(1), dtypes=FLOATING)
def conv_transpose1d(
    x,
    w,
    b=None,
    *,
    strides: Ints = (1,),
    pads: Ints = (0, 0),
    output_padding: Ints = (0,),
    dilations: Ints = (1,),
    group: int = 1,
):
    """What ``conv1d`` with the same ``w [C, M/group, k]`` does to a gradient: ``x [N, C, L]`` to ``[N, M, ...]``.

    ``pads`` are cut off the result; ``output_padding`` lengthens its end.
    """
    return _convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)


conv_transpose1d.vjp(_transposed_vjp)
_transposed_samples(conv_transpose1d, 1)


@meta_op(rule=_transposed(2), dtypes=FLOATING)
def conv_transpose2d(
    x,
    w,
    b=None,
    *,
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    output_padding: Ints = (0, 0),
    dilations: Ints = (1, 1),
    group: int = 1,
):
    """What ``conv2d`` with the same ``w [C, M/group, kH, kW]`` does to a gradient: ``x [N, C, H, W]`` to
    ``[N, M, ...]``.

    ``pads`` are cut off the result (top, left, bottom, right); ``output_padding`` lengthens its ends.
    """
    return _convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)


conv_transpose2d.vjp(_transposed_vjp)
_transposed_samples(conv_transpose2d, 2)


@meta_op(rule=_transposed(3), dtypes=FLOATING)
def conv_transpose3d(
    x,
    w,
    b=None,
    *,
    strides: Ints = (1, 1, 1),
    pads: Ints = (0, 0, 0, 0, 0, 0),
    output_padding: Ints = (0, 0, 0),
    dilations: Ints = (1, 1, 1),
    group: int = 1,
):
    """What ``conv3d`` with the same ``w [C, M/group, kD, kH, kW]`` does to a gradient: ``x [N, C, D, H, W]`` to
    ``[N, M, ...]``.

    ``pads`` are cut off the result (three begins, then three ends); ``output_padding`` lengthens its ends.
    """
    return _convolve_transposed(x, w, b, strides, pads, output_padding, dilations, group)


conv_transpose3d.vjp(_transposed_vjp)
_transposed_samples(conv_transpose3d, 3)


@meta_op(rule=_convolution(2, depthwise=True), dtypes=FLOATING)
def depthwise_conv2d(x, w, b=None, *, strides: Ints = (1, 1), pads: Ints = (0, 0, 0, 0), dilations: Ints = (1, 1)):
    """Each channel of ``x [N, C, H, W]`` convolved with its own ``M`` kernels of ``w [C*M, 1, kH, kW]``, plus
    ``b [C*M]``.

    The same as ``conv2d`` with ``group=C``.
    """
    return _convolve(x, w, b, strides, pads, dilations, x.shape[1])


@depthwise_conv2d.vjp
def depthwise_conv2d_vjp(m, g, y, x, w, *b, strides, pads, dilations):
    group = m.shape(x)[1]
    return _convolution_vjp(m, g, y, x, w, *b, strides=strides, pads=pads, dilations=dilations, group=group)


@depthwise_conv2d.samples
def depthwise_conv2d_samples(draw):
    yield draw(x=(2, 3, 6, 5), w=(3, 1, 3, 2), b=(3,))
    yield draw(x=(2, 3, 6, 5), w=(6, 1, 3, 3), pads=(1, 0, 2, 1))
    yield draw(x=(1, 2, 6, 7), w=(4, 1, 3, 3), b=(4,), strides=(2, 2), pads=(1, 1, 1, 1))
    yield draw(x=(1, 2, 6, 7), w=(2, 1, 3, 3), strides=(2, 3), pads=(0, 1, 1, 0))
    yield draw(x=(1, 2, 6, 7), w=(2, 1, 3, 3), dilations=(2, 2))
    yield draw(x=(1, 2, 7, 7), w=(4, 1, 3, 2), strides=(2, 2), dilations=(2, 3), pads=(1, 0, 2, 1))
    yield draw(x=(2, 1, 1, 1), w=(1, 1, 1, 1), b=(1,))
    yield draw(x=(0, 3, 6, 5), w=(3, 1, 3, 2), b=(3,))
    yield draw(x=_with_nan(1, 2, 4, 4), w=(2, 1, 2, 2), special=True)


@depthwise_conv2d.rejects
def depthwise_conv2d_rejects(reject):
    x, w = "float32[2, 3, 6, 5]", "float32[6, 1, 3, 3]"
    yield reject(x="float32[2, 3, 6]", w=w, message="x must have rank 4")
    yield reject(x=x, w="float32[6, 3, 3, 3]", message="axis 1 of w")
    yield reject(x=x, w="float32[4, 1, 3, 3]", message="multiple of the 3 channels")
    yield reject(x="float32[2, 0, 6, 5]", w=w, message="at least one channel")
    yield reject(x=x, w=w, b="float32[3]", message="b and the output channels")
    yield reject(x=x, w=w, strides=(1,), message="strides takes 2")
    yield reject(x=x, w=w, pads=(0, 0), message="pads takes 4")
    yield reject(x="float32[2, 3, 2, 5]", w=w, message="the window spans 3")
    yield reject(x=x, w=w, group=3, message="no attribute")
