"""Quantisation: real numbers as small integers, ``real = (integer - zero_point) * scale``.

Rounding is half to even, saturation is at the ends of the integer type, and products of integers are added up in
int32: integer results are exact, and two backends agree on them bit for bit or one of them is wrong.
"""

import numpy as np

from metaop.errors import AttributeValueError, DtypeError, ShapeError
from metaop.ops.domain import integers, positive
from metaop.ops.rules import broadcast_shapes, normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.ops.windows import axes_of, per_axis, window_count
from metaop.types import FLOATING, Ints, TensorType, describe_dtypes

BYTES = frozenset([np.dtype("int8"), np.dtype("uint8")])
QUANTISED = BYTES | {np.dtype("int16"), np.dtype("uint16")}
STORED = QUANTISED | {np.dtype("int32")}
SCALES = frozenset([np.dtype("float16"), np.dtype("float32")])

_INTEGERS = "the result is made of integers"
_WHOLE = integers(-128, 128)
_FEW = integers(0, 10)

# -- scales and zero points -----------------------------------------------------------------------------------------


def _check_pair(scale, zero_point, names=("scale", "zero_point")):
    """A zero point has the shape of its scale."""
    if zero_point is None or scale.shape is None or zero_point.shape is None:
        return
    what = f"{names[1]} must have the shape of {names[0]}; got {zero_point} for {scale}"
    if scale.rank != zero_point.rank:
        raise ShapeError(what)
    for a, b in zip(scale.shape, zero_point.shape, strict=True):
        unify_size(a, b, what)


def _check_granularity(x, scale, axis, block_size):
    """A scale is one number, one per element of an axis, or one per block along an axis."""
    if block_size < 0:
        raise AttributeValueError(f"block_size takes an integer >= 0 (0: no blocks); got {block_size}")
    if x.shape is None or scale.shape is None:
        return
    if block_size:
        axis = normalise_axis(axis, len(x.shape))
        require_rank(f"scale, with block_size={block_size} and an x of rank {x.rank},", scale, x.rank, x.rank)
        for i, (size, count) in enumerate(zip(x.shape, scale.shape, strict=True)):
            wanted = -(-size // block_size) if i == axis and size is not None else size if i != axis else None
            unify_size(wanted, count, f"axis {i} of scale, with block_size={block_size} along axis {axis} of {x}")
    elif scale.rank == 1 and scale.shape[0] not in (1, None):
        axis = normalise_axis(axis, len(x.shape))
        unify_size(x.shape[axis], scale.shape[0], f"scale and axis {axis} of x")
    else:
        require_rank("scale, without block_size,", scale, 0, 1)


def _spread(values, shape, axis, block_size):
    """One value for each element of ``shape``, by broadcasting."""
    if values.size == 1:
        return values.reshape(())
    if block_size:
        return np.take(values, np.arange(shape[axis]) // block_size, axis=axis)
    return values.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def _saturated(whole, zero_point, dtype):
    """Whole numbers moved by the zero point; in float64, where nothing of that rounds."""
    limits = np.iinfo(dtype)
    return np.clip(whole.astype(np.float64) + zero_point, limits.min, limits.max).astype(dtype)


def _same_dtype(name, tensor, other_name, other):
    if tensor is None or None in (tensor.dtype, other.dtype):
        return
    if tensor.dtype != other.dtype:
        raise DtypeError(f"{name} must have the dtype of {other_name}; got {tensor} for {other}")


# -- to integers and back -------------------------------------------------------------------------------------------


def _quantize_rule(x, scale, zero_point=None, *, axis, block_size, output_dtype):
    _check_pair(scale, zero_point)
    _check_granularity(x, scale, axis, block_size)
    if output_dtype is not None and output_dtype not in QUANTISED:
        raise AttributeValueError(f"output_dtype takes {describe_dtypes(QUANTISED)}; got {output_dtype.name}")
    given = None if zero_point is None else zero_point.dtype
    if None not in (given, output_dtype) and given != output_dtype:
        raise DtypeError(f"output_dtype is {output_dtype.name}, but zero_point is {given.name}; they must agree")
    if zero_point is None:
        given = np.dtype("uint8")
    return TensorType(output_dtype if output_dtype is not None else given, x.shape)


@meta_op(
    rule=_quantize_rule,
    dtypes=FLOATING,
    also={"zero_point": QUANTISED},
    domain={"scale": positive()},
    nondifferentiable=_INTEGERS,
)
def quantize_linear(
    x, scale, zero_point=None, *, axis: int = 1, block_size: int = 0, output_dtype: np.dtype | None = None
):
    """``round(x / scale) + zero_point``, rounded half to even and held to the range of the integer type.

    ``scale`` is a number, a vector with one number per element of ``axis``, or, with ``block_size``, a tensor of the
    rank of ``x`` with one number per block along ``axis``. ``zero_point`` has the shape of ``scale``, and its dtype is
    the result's; without it ``output_dtype`` is, or else uint8.
    """
    dtype = output_dtype if output_dtype is not None else np.dtype("uint8") if zero_point is None else zero_point.dtype
    shift = 0 if zero_point is None else _spread(zero_point, x.shape, axis, block_size)
    with np.errstate(over="ignore"):
        quotient = x / _spread(scale, x.shape, axis, block_size)
    return _saturated(np.asarray(np.rint(quotient)), shift, dtype)


# Quarters, so that every quotient and every tie is exact in each floating dtype.
_QUARTERS = np.arange(-12, 12).reshape(2, 3, 4) / 4.0


@quantize_linear.samples
def quantize_linear_samples(draw):
    yield draw(x=_QUARTERS, scale=0.5)
    yield draw(x=_QUARTERS, scale=0.5, zero_point=np.array(100, "uint8"))
    yield draw(x=_QUARTERS, scale=[0.5], zero_point=np.array([-3], "int8"))
    yield draw(x=_QUARTERS, scale=[0.5, 0.25, 2.0], zero_point=np.array([1, 2, 128], "uint8"))
    yield draw(x=_QUARTERS, scale=[0.5, 0.25], zero_point=np.array([7, -7], "int8"), axis=0)
    yield draw(x=_QUARTERS, scale=[0.5, 0.25, 2.0, 1.0], axis=-1, output_dtype="int8")
    yield draw(x=_QUARTERS, scale=0.125, output_dtype="int16")
    yield draw(x=_QUARTERS, scale=0.125, zero_point=np.array(30, "uint16"), output_dtype="uint16")
    yield draw(x=_QUARTERS * 16, scale=0.25, zero_point=np.array(64, "int8"))  # both ends saturate
    blocks = 2.0 ** -np.arange(12).reshape(2, 3, 2)
    yield draw(x=_QUARTERS, scale=blocks, axis=2, block_size=2, output_dtype="int16")
    yield draw(x=_QUARTERS, scale=blocks[:, :2, :1].repeat(4, 2), axis=1, block_size=2, output_dtype="int8")
    yield draw(
        x=_QUARTERS, scale=blocks, zero_point=np.arange(12, dtype="uint8").reshape(2, 3, 2), axis=-1, block_size=3
    )
    yield draw(x=1.25, scale=0.5)
    yield draw(x=(0, 3), scale=0.5, zero_point=np.array(3, "int8"))
    yield draw(x=[np.inf, -np.inf, -0.0], scale=0.5, zero_point=np.array(10, "uint8"), special=True)


@quantize_linear.rejects
def quantize_linear_rejects(reject):
    x, scale = "float32[2, 3, 4]", "float32[3]"
    yield reject(x=x, scale="float32[4]", message="scale and axis 1 of x")
    yield reject(x=x, scale=scale, axis=3, message="axis 3 is out of range")
    yield reject(x=x, scale="float32[2, 3]", message="without block_size")
    yield reject(x=x, scale=scale, block_size=2, message="must have rank 3")
    yield reject(x=x, scale="float32[2, 3, 3]", block_size=2, axis=2, message="axis 2 of scale")
    yield reject(x=x, scale="float32[1, 3, 2]", block_size=2, axis=2, message="axis 0 of scale")
    yield reject(x=x, scale=scale, block_size=-1, message="block_size takes")
    yield reject(x=x, scale=scale, zero_point="uint8[2]", message="zero_point must have the shape of scale")
    yield reject(x=x, scale=scale, zero_point="uint8[]", message="zero_point must have the shape of scale")
    yield reject(x=x, scale=scale, zero_point="int64[3]", message="takes int8, int16")
    yield reject(x=x, scale=scale, output_dtype="int32", message="output_dtype takes")
    yield reject(x=x, scale=scale, zero_point="int8[3]", output_dtype="uint8", message="they must agree")
    yield reject(x=x, scale="float64[3]", message="one dtype")


def _dequantize_rule(x, scale, zero_point=None, *, axis, block_size):
    _same_dtype("zero_point", zero_point, "x", x)
    _check_pair(scale, zero_point)
    _check_granularity(x, scale, axis, block_size)
    return TensorType(scale.dtype, x.shape)


@meta_op(
    rule=_dequantize_rule,
    dtypes=FLOATING,
    also={"x": STORED, "zero_point": STORED},
    domain={"x": _WHOLE, "scale": positive(), "zero_point": _FEW},
)
def dequantize_linear(x, scale, zero_point=None, *, axis: int = 1, block_size: int = 0):
    """``(x - zero_point) * scale``, in the dtype of ``scale``: what undoes :func:`quantize_linear`, but for rounding.

    ``scale`` and ``zero_point`` are as there; ``zero_point`` has the dtype of ``x``.
    """
    whole = x.astype(np.int64)
    if zero_point is not None:
        whole = whole - _spread(zero_point, x.shape, axis, block_size)
    return np.asarray(whole.astype(scale.dtype) * _spread(scale, x.shape, axis, block_size))


@dequantize_linear.vjp
def dequantize_linear_vjp(m, g, y, x, scale, zero_point=None, *, axis, block_size):
    shape, sizes = m.shape(x), m.shape(scale)
    axis = axis % len(shape) if shape else 0
    blocks = m.constant(np.arange(shape[axis]) // block_size, np.int64) if block_size else None
    whole = m.cast(x, to=np.dtype("int32"))
    if zero_point is not None:
        shift = m.cast(zero_point, to=np.dtype("int32"))
        if block_size:
            shift = m.gather(shift, blocks, axis=axis)
        else:
            per_axis_shape = tuple(-1 if i == axis else 1 for i in range(len(shape)))
            shift = m.reshape(shift, shape=() if np.prod(sizes) == 1 else per_axis_shape)
        whole = m.subtract(whole, shift)
    g = m.multiply(g, m.cast(whole, to=m.dtype(scale)))
    if block_size:
        g = m.scatter_add(blocks, g, axis=axis, size=sizes[axis])
    elif np.prod(sizes) == 1:
        g = m.reshape(m.reduce_sum(g), shape=sizes)
    else:
        g = m.reduce_sum(g, axes=tuple(i for i in range(len(shape)) if i != axis))
    return (None, g) if zero_point is None else (None, g, None)


@dequantize_linear.samples
def dequantize_linear_samples(draw):
    whole = np.arange(-12, 12).reshape(2, 3, 4) * 10
    yield draw(x=(2, 3), scale=())
    yield draw(x=whole.astype("int8"), scale=(), zero_point=np.array(-5, "int8"))
    yield draw(x=(whole + 128).astype("uint8"), scale=(1,), zero_point=np.array([200], "uint8"))
    yield draw(x=whole.astype("int8"), scale=(3,), zero_point=np.array([1, -2, 127], "int8"))
    yield draw(x=(whole + 128).astype("uint8"), scale=(2,), zero_point=np.array([0, 255], "uint8"), axis=0)
    yield draw(x=(whole * 10).astype("int16"), scale=(4,), zero_point=np.array([5, 1, 9, 3], "int16"), axis=-1)
    yield draw(x=(whole + 120).astype("uint16"), scale=(), zero_point=np.array(120, "uint16"))
    yield draw(x=whole.astype("int8"), scale=(2, 3, 2), axis=2, block_size=2)
    yield draw(x=whole.astype("int8"), scale=(2, 2, 4), zero_point=np.ones((2, 2, 4), "int8"), axis=1, block_size=2)
    yield draw(x=whole.astype("int8"), scale=(2, 3, 2), axis=-1, block_size=3)
    yield draw(x=np.array(7, "int8"), scale=(), zero_point=np.array(3, "int8"))
    yield draw(x=np.zeros((0, 3), "uint8"), scale=())


@dequantize_linear.rejects
def dequantize_linear_rejects(reject):
    x = "uint8[2, 3, 4]"
    yield reject(x=x, scale="float32[4]", message="scale and axis 1 of x")
    yield reject(x=x, scale="float32[3]", axis=-4, message="axis -4 is out of range")
    yield reject(x=x, scale="float32[3]", zero_point="int8[3]", message="zero_point must have the dtype of x")
    yield reject(x=x, scale="float32[3]", zero_point="uint8[1]", message="zero_point must have the shape of scale")
    yield reject(x=x, scale="float32[2, 3]", message="without block_size")
    yield reject(x=x, scale="float32[2, 3, 1]", axis=2, block_size=3, message="axis 2 of scale")
    yield reject(x="int64[2]", scale="float32[]", message="'x' takes int8, int16")
    yield reject(x=x, scale="int32[]", message="takes float16")


def _dynamic_rule(x):
    byte = np.dtype("uint8")
    if x.shape is not None and 0 in x.shape:
        raise ShapeError(f"x must have elements, for their range is the scale; got {x}")
    return TensorType(byte, x.shape), TensorType(x.dtype, ()), TensorType(byte, ())


@meta_op(
    rule=_dynamic_rule,
    dtypes=frozenset([np.dtype("float32")]),
    outputs=("y", "y_scale", "y_zero_point"),
    nondifferentiable=_INTEGERS,
)
def dynamic_quantize_linear(x):
    """``x`` as uint8, with the scale and zero point under which its range, widened to hold 0, just fits.

    Where all of ``x`` is 0 the scale is 1.
    """
    low, high = np.minimum(x.min(), 0), np.maximum(x.max(), 0)
    scale = np.asarray((high - low) / x.dtype.type(255) if high > low else 1.0, x.dtype)
    zero_point = np.asarray(np.rint(np.clip(-low / scale, 0, 255))).astype(np.uint8)
    return _saturated(np.asarray(np.rint(x / scale)), zero_point, np.dtype("uint8")), scale, zero_point


@dynamic_quantize_linear.samples
def dynamic_quantize_linear_samples(draw):
    yield draw(x=(2, 3))
    yield draw(x=(4, 1, 5))
    yield draw(x=[0.0, 2.0, -3.0, -2.25, 1.34, 0.5])
    yield draw(x=[-1.0, -2.1, -1.3, -2.5, -3.34, -4.0])
    yield draw(x=[[1.0, 2.1, 1.3], [2.5, 3.34, 4.0]])
    yield draw(x=1.5)
    yield draw(x=[0.0, 0.0])


@dynamic_quantize_linear.rejects
def dynamic_quantize_linear_rejects(reject):
    yield reject(x="float64[2]", message="takes float32")
    yield reject(x="float32[0, 3]", message="x must have elements")


# -- products -------------------------------------------------------------------------------------------------------


def _product_shape(a, b):
    """The shape of a product of matrices."""
    for name, tensor in (("a", a), ("b", b)):
        require_rank(name, tensor, 1)
    if a.shape is None or b.shape is None:
        return None
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    unify_size(left[-1], right[-2], "the last axis of a and the last but one of b")
    rows = left[-2:-1] if len(a.shape) > 1 else ()
    columns = right[-1:] if len(b.shape) > 1 else ()
    return (*broadcast_shapes([left[:-2], right[:-2]]), *rows, *columns)


def _check_rows(name, tensor, matrix, axis):
    """One number, or one for each row (``axis=-2``) or column (``axis=-1``) of a matrix."""
    require_rank(name, tensor, 0, 1)
    if tensor.rank == 1 and tensor.shape[0] not in (None, 1) and matrix.shape is not None:
        size = matrix.shape[axis] if len(matrix.shape) > 1 else 1
        unify_size(tensor.shape[0], size, f"{name}, of which there is one, or one per {_LINES[axis]}")


_LINES = {-2: "row", -1: "column"}


def _per_row(values):
    return values.reshape(-1, 1) if values.size > 1 else values.reshape(())


def _per_column(values):
    return values if values.size > 1 else values.reshape(())


def _shifted(values, zero_point, spread):
    values = values.astype(np.int64)
    return values if zero_point is None else values - spread(zero_point.astype(np.int64))


def _matmul_integer_rule(a, b, a_zero_point=None, b_zero_point=None):
    _same_dtype("b_zero_point", b_zero_point, "b", b)
    for name, point, matrix, axis in (("a_zero_point", a_zero_point, a, -2), ("b_zero_point", b_zero_point, b, -1)):
        if point is not None:
            _check_rows(name, point, matrix, axis)
    return TensorType(np.dtype("int32"), _product_shape(a, b))


@meta_op(
    rule=_matmul_integer_rule,
    dtypes=BYTES,
    also={"b": BYTES, "b_zero_point": BYTES},
    domain={"a": _WHOLE, "b": _WHOLE, "a_zero_point": _FEW, "b_zero_point": _FEW},
    nondifferentiable=_INTEGERS,
)
def matmul_integer(a, b, a_zero_point=None, b_zero_point=None):
    """``(a - a_zero_point) @ (b - b_zero_point)`` of 8-bit integers, added up in int32.

    A zero point is one number, or a vector: one per row of ``a``, one per column of ``b``. It has the dtype of its
    matrix.
    """
    product = np.matmul(_shifted(a, a_zero_point, _per_row), _shifted(b, b_zero_point, _per_column))
    return np.asarray(product).astype(np.int32)


@matmul_integer.samples
def matmul_integer_samples(draw):
    signed, unsigned = np.arange(-6, 6, dtype="int8").reshape(4, 3), np.arange(240, 252, dtype="uint8").reshape(4, 3)
    yield draw(a=(2, 4), b=(4, 3))
    yield draw(a=(2, 4), b=signed, a_zero_point=(), b_zero_point=np.array(-3, "int8"))
    yield draw(a=(2, 4), b=unsigned, a_zero_point=(1,), b_zero_point=np.array([200], "uint8"))
    yield draw(a=(2, 4), b=signed, b_zero_point=np.array([1, -1, 127], "int8"))
    yield draw(a=(3, 2, 4), b=signed, a_zero_point=())
    yield draw(a=(2, 4), b=signed, a_zero_point=(2,))
    yield draw(a=(2, 2, 4), b=(2, 4, 3))
    yield draw(a=(1, 1), b=(1, 1))


@matmul_integer.rejects
def matmul_integer_rejects(reject):
    yield reject(a="uint8[2, 4]", b="uint8[3, 4]", message="the last axis of a")
    yield reject(a="uint8[2, 4]", b="uint8[]", message="b must have rank")
    yield reject(a="uint8[2, 4]", b="int8[4, 3]", b_zero_point="uint8[]", message="the dtype of b")
    yield reject(a="uint8[2, 4]", b="int8[4, 3]", b_zero_point="int8[2]", message="one per column")
    yield reject(a="uint8[2, 4]", b="int8[4, 3]", a_zero_point="uint8[3]", message="one per row")
    yield reject(a="uint8[2, 4]", b="int8[4, 3]", a_zero_point="int8[]", message="one dtype")
    yield reject(a="int32[2, 4]", b="int8[4, 3]", message="takes int8 or uint8")


def _qlinear_matmul_rule(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    _same_dtype("a_zero_point", a_zero_point, "a", a)
    _same_dtype("b_zero_point", b_zero_point, "b", b)
    _check_pair(a_scale, a_zero_point, ("a_scale", "a_zero_point"))
    _check_pair(b_scale, b_zero_point, ("b_scale", "b_zero_point"))
    _check_rows("a_scale", a_scale, a, -2)
    _check_rows("b_scale", b_scale, b, -1)
    _check_one(y_scale=y_scale, y_zero_point=y_zero_point)
    return TensorType(y_zero_point.dtype, _product_shape(a, b))


def _check_one(**tensors):
    for name, tensor in tensors.items():
        require_rank(name, tensor, 0, 1)
        if tensor.rank == 1:
            unify_size(tensor.shape[0], 1, f"{name}, which is one number")


def _requantised(total, factor, zero_point):
    """The int32 sums times the quotient of the scales, in float32 at least."""
    return _saturated(np.rint(total.astype(np.int32) * factor), zero_point.reshape(()), zero_point.dtype)


def _wide(scale):
    return scale.astype(np.result_type(scale.dtype, np.float32))


@meta_op(
    rule=_qlinear_matmul_rule,
    dtypes=SCALES,
    also=dict.fromkeys(("a", "a_zero_point", "b", "b_zero_point", "y_zero_point"), BYTES),
    nondifferentiable=_INTEGERS,
)
def qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    """The product of two quantised matrices, quantised again: the sums of :func:`matmul_integer`, times
    ``a_scale * b_scale / y_scale``, rounded half to even, plus ``y_zero_point``, held to the range of its dtype.

    ``a_scale`` is one number or one per row of ``a``, ``b_scale`` one or one per column of ``b``; zero points have the
    shapes of their scales.
    """
    total = np.matmul(_shifted(a, a_zero_point, _per_row), _shifted(b, b_zero_point, _per_column))
    factor = _per_row(_wide(a_scale)) * _per_column(_wide(b_scale)) / _wide(y_scale).reshape(())
    return _requantised(np.asarray(total), factor, y_zero_point)


_A = np.array([[208, 236, 0, 238], [3, 214, 255, 29]], "uint8")
_B = np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], "uint8")
_SIGNED_B = (_B.astype("int16") - 127).astype("int8")


@qlinear_matmul.samples
def qlinear_matmul_samples(draw):
    byte, signed = (lambda v: np.array(v, "uint8")), (lambda v: np.array(v, "int8"))
    a = {"a": _A, "a_scale": 0.0066, "a_zero_point": byte(113)}
    y = {"y_scale": 0.0107, "y_zero_point": byte(118)}
    yield draw(**a, b=_B, b_scale=0.00705, b_zero_point=byte(114), **y)
    yield draw(**a, b=_SIGNED_B, b_scale=0.00705, b_zero_point=signed(-3), **y)
    yield draw(**a, b=_SIGNED_B, b_scale=[0.007, 0.003, 0.011], b_zero_point=signed([1, 0, -7]), **y)
    yield draw(
        a=(_A.astype("int16") - 127).astype("int8"),
        a_scale=[0.0066],
        a_zero_point=signed([-14]),
        b=_SIGNED_B,
        b_scale=[0.00705],
        b_zero_point=signed([-13]),
        y_scale=[0.0107],
        y_zero_point=signed([-9]),
    )
    yield draw(**{**a, "a": np.stack([_A, _A[::-1]])}, b=_B, b_scale=0.00705, b_zero_point=byte(114), **y)
    yield draw(
        **{**a, "a_scale": [0.0066, 0.0033], "a_zero_point": byte([113, 3])},
        b=_B,
        b_scale=0.00705,
        b_zero_point=byte(114),
        **y,
    )
    # Every other sum is a tie, and the powers of two leave it one.
    small = np.arange(6, dtype="uint8").reshape(2, 3)
    yield draw(
        a=small,
        a_scale=0.5,
        a_zero_point=byte(0),
        b=np.ones((3, 2), "uint8"),
        b_scale=0.5,
        b_zero_point=byte(0),
        y_scale=0.5,
        y_zero_point=byte(1),
    )


@qlinear_matmul.rejects
def qlinear_matmul_rejects(reject):
    good = {
        "a": "uint8[2, 4]",
        "a_scale": "float32[]",
        "a_zero_point": "uint8[]",
        "b": "int8[4, 3]",
        "b_scale": "float32[]",
        "b_zero_point": "int8[]",
        "y_scale": "float32[]",
        "y_zero_point": "uint8[]",
    }
    yield reject(**{**good, "b": "int8[3, 4]"}, message="the last axis of a")
    yield reject(**{**good, "a_zero_point": "int8[]"}, message="the dtype of a")
    yield reject(**{**good, "b_zero_point": "int8[1]"}, message="b_zero_point must have the shape of b_scale")
    yield reject(**{**good, "b_scale": "float32[4]", "b_zero_point": "int8[4]"}, message="one per column")
    yield reject(**{**good, "y_scale": "float32[3]"}, message="y_scale, which is one number")
    yield reject(**{**good, "a": "int16[2, 4]"}, message="takes int8 or uint8")
    yield reject(**{**good, "y_scale": "float16[]"}, message="one dtype")


# -- convolutions ---------------------------------------------------------------------------------------------------


def _filled(spatial, strides, pads, dilations):
    """The attributes with one value per spatial axis, where they were left out."""
    return (
        (1,) * spatial if strides is None else strides,
        (0,) * (2 * spatial) if pads is None else pads,
        (1,) * spatial if dilations is None else dilations,
    )


def _convolution_shape(x, w, strides, pads, dilations, group):
    rank = x.rank if x.rank is not None else w.rank
    if rank is None:
        return None
    require_rank("x", x, 3)
    spatial = rank - 2
    strides, pads, dilations = _filled(spatial, strides, pads, dilations)
    per_axis(spatial, strides=strides, pads=pads, dilations=dilations)
    sizes, weights = axes_of("x", x, spatial), axes_of("w", w, spatial)
    if group < 1:
        raise AttributeValueError(f"group takes an integer >= 1; got {group}")
    if None not in (sizes[1], weights[1]) and sizes[1] != weights[1] * group:
        raise ShapeError(f"w: axis 1 must be the {sizes[1]} channels of x divided by group={group}; got {weights[1]}")
    if weights[0] is not None and weights[0] % group:
        raise ShapeError(f"w: {weights[0]} channels cannot be divided into group={group} equal groups")
    counts = []
    for i in range(spatial):
        reach = None if weights[i + 2] is None else (weights[i + 2] - 1) * dilations[i] + 1
        if reach is not None and reach < 1:
            raise ShapeError(f"w: a kernel has at least one element along each axis; got {w}")
        counts.append(window_count(f"axis {i + 2} of x", sizes[i + 2], reach, strides[i], pads[i], pads[i + spatial]))
    return (sizes[0], weights[0], *counts)


def _check_channels(name, tensor, w):
    require_rank(name, tensor, 0, 1)
    if tensor.rank == 1 and tensor.shape[0] not in (None, 1) and w.shape is not None:
        unify_size(tensor.shape[0], w.shape[0], f"{name}, of which there is one, or one per output channel")


def _per_kernel(rank):
    """Values of each output channel, beside the kernels."""
    return lambda values: values.reshape(-1, *(1,) * (rank - 1)) if values.size > 1 else values.reshape(())


def _convolve(x, w, strides, pads, dilations, group):
    """Of int64; element by element of the kernel, a product of channels at a time."""
    spatial = x.ndim - 2
    strides, pads, dilations = _filled(spatial, strides, pads, dilations)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])
    kernel = w.shape[2:]
    counts = [
        (size - (k - 1) * d - 1) // s + 1 for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
    ]
    w = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    y = np.zeros((x.shape[0], *w.shape[:2], *counts), np.int64)
    for tap in np.ndindex(*kernel):
        seen = [
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, counts, strides, strict=True)
        ]
        part = x[(slice(None), slice(None), *seen)].reshape(x.shape[0], group, w.shape[2], *counts)
        y += np.einsum("ngc...,gmc->ngm...", part, w[(..., *tap)])
    return y.reshape(x.shape[0], -1, *counts)


def _conv_integer_rule(x, w, x_zero_point=None, w_zero_point=None, *, strides, pads, dilations, group):
    _same_dtype("w_zero_point", w_zero_point, "w", w)
    if x_zero_point is not None:
        _check_one(x_zero_point=x_zero_point)
    if w_zero_point is not None:
        _check_channels("w_zero_point", w_zero_point, w)
    return TensorType(np.dtype("int32"), _convolution_shape(x, w, strides, pads, dilations, group))


@meta_op(
    rule=_conv_integer_rule,
    dtypes=BYTES,
    also={"w": BYTES, "w_zero_point": BYTES},
    domain={"x": _WHOLE, "w": _WHOLE, "x_zero_point": _FEW, "w_zero_point": _FEW},
    nondifferentiable=_INTEGERS,
)
def conv_integer(
    x,
    w,
    x_zero_point=None,
    w_zero_point=None,
    *,
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    group: int = 1,
):
    """The convolution of ``x - x_zero_point`` with ``w - w_zero_point``, of 8-bit integers, added up in int32.

    ``x`` is ``[N, C, ...]`` and ``w`` ``[M, C/group, ...]`` with one to three spatial axes or more; ``pads`` are all
    begins, then all ends, and stand for ``x_zero_point``. ``w_zero_point`` is one number, or one per output channel.
    """
    x, w = _shifted(x, x_zero_point, _per_column), _shifted(w, w_zero_point, _per_kernel(w.ndim))
    return _convolve(x, w, strides, pads, dilations, group).astype(np.int32)


@conv_integer.samples
def conv_integer_samples(draw):
    kernel = np.arange(-18, 18, dtype="int8").reshape(2, 2, 3, 3)
    yield draw(x=(2, 2, 5, 6), w=(3, 2, 3, 2))
    yield draw(x=(1, 2, 5, 6), w=(2, 2, 3, 3), x_zero_point=(), pads=(1, 0, 2, 1))
    yield draw(x=(1, 2, 5, 6), w=kernel, x_zero_point=(1,), w_zero_point=np.array(-3, "int8"))
    yield draw(x=(1, 2, 7, 6), w=kernel, strides=(2, 3), dilations=(2, 1))
    yield draw(x=(1, 2, 5, 6), w=kernel, w_zero_point=np.array([5, -3], "int8"), pads=(0, 0, 1, 1))
    yield draw(x=(1, 4, 5, 5), w=kernel, group=2, pads=(1, 1, 1, 1))
    yield draw(x=(2, 3, 7), w=(2, 3, 3), strides=(2,), pads=(1, 2))
    yield draw(x=(1, 1, 1, 1), w=(1, 1, 1, 1))


@conv_integer.rejects
def conv_integer_rejects(reject):
    x, w = "uint8[2, 4, 5, 6]", "uint8[6, 4, 3, 2]"
    yield reject(x="uint8[2, 4]", w=w, message="x must have rank")
    yield reject(x=x, w="uint8[6, 4, 3]", message="w must have rank 4")
    yield reject(x=x, w="uint8[6, 3, 3, 2]", message="channels of x")
    yield reject(x=x, w="uint8[5, 2, 3, 2]", group=2, message="group=2")
    yield reject(x=x, w=w, group=0, message="group takes")
    yield reject(x=x, w=w, strides=(1,), message="strides takes 2")
    yield reject(x=x, w=w, pads=(1, 1), message="pads takes 4")
    yield reject(x="uint8[2, 4, 2, 6]", w=w, message="the window spans 3")
    yield reject(x=x, w="uint8[6, 4, 0, 2]", message="at least one element")
    yield reject(x=x, w=w, w_zero_point="uint8[4]", message="one per output channel")
    yield reject(x=x, w=w, x_zero_point="uint8[4]", message="x_zero_point, which is one number")
    yield reject(x=x, w=w, w_zero_point="int8[]", message="the dtype of w")
    yield reject(x="float32[2, 4, 5, 6]", w=w, message="takes int8 or uint8")


def _qlinear_conv_rule(
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
    _same_dtype("x_zero_point", x_zero_point, "x", x)
    _same_dtype("w_zero_point", w_zero_point, "w", w)
    _check_one(x_scale=x_scale, x_zero_point=x_zero_point, y_scale=y_scale, y_zero_point=y_zero_point)
    _check_pair(w_scale, w_zero_point, ("w_scale", "w_zero_point"))
    _check_channels("w_scale", w_scale, w)
    if b is not None:
        require_rank("b", b, 1, 1)
        if None not in (b.shape, w.shape):
            unify_size(b.shape[0], w.shape[0], "b and the output channels")
    return TensorType(y_zero_point.dtype, _convolution_shape(x, w, strides, pads, dilations, group))


@meta_op(
    rule=_qlinear_conv_rule,
    dtypes=frozenset([np.dtype("float32")]),
    also={
        **dict.fromkeys(("x", "x_zero_point", "w", "w_zero_point", "y_zero_point"), BYTES),
        "b": frozenset([np.dtype("int32")]),
    },
    domain={"b": integers(-500, 500)},
    nondifferentiable=_INTEGERS,
)
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
    strides: Ints | None = None,
    pads: Ints | None = None,
    dilations: Ints | None = None,
    group: int = 1,
):
    """The convolution of quantised tensors, quantised again: the sums of :func:`conv_integer` and ``b``, times
    ``x_scale * w_scale / y_scale``, rounded half to even, plus ``y_zero_point``, held to the range of its dtype.

    ``w_scale`` is one number or one per output channel; ``b`` is int32, one per output channel, in units of
    ``x_scale * w_scale``. The attributes are those of :func:`conv_integer`.
    """
    left, right = _shifted(x, x_zero_point, _per_column), _shifted(w, w_zero_point, _per_kernel(w.ndim))
    total = _convolve(left, right, strides, pads, dilations, group)
    beside = _per_kernel(w.ndim - 1)
    if b is not None:
        total = total + beside(b.astype(np.int64))
    factor = _wide(x_scale).reshape(()) * beside(_wide(w_scale)) / _wide(y_scale).reshape(())
    return _requantised(total, factor, y_zero_point)


@qlinear_conv.samples
def qlinear_conv_samples(draw):
    byte, signed = (lambda v: np.array(v, "uint8")), (lambda v: np.array(v, "int8"))
    image = (np.arange(2 * 2 * 5 * 6, dtype="int64") * 37 % 256).astype("uint8").reshape(2, 2, 5, 6)
    kernel = (np.arange(36) * 29 % 200 - 100).astype("int8").reshape(2, 2, 3, 3)
    x = {"x": image, "x_scale": 0.00369204697, "x_zero_point": byte(132)}
    w = {"w": kernel, "w_scale": 0.00172794575, "w_zero_point": signed(0)}
    y = {"y_scale": 0.00762618781, "y_zero_point": byte(123)}
    yield draw(**x, **w, **y)
    yield draw(**x, **w, **y, b=(2,))
    yield draw(**x, **w, **y, pads=(1, 0, 2, 1), strides=(2, 1), b=(2,))
    yield draw(**x, **w, **y, dilations=(2, 2))
    yield draw(**x, **{**w, "w_scale": [0.0017, 0.0009], "w_zero_point": signed([0, 0])}, **y)
    yield draw(**x, **{**w, "w": kernel[:, :1]}, **y, group=2)
    yield draw(**x, w=(kernel.astype("int16") + 100).astype("uint8"), w_scale=0.0017, w_zero_point=byte(101), **y)
    yield draw(
        x=(image.astype("int16") - 128).astype("int8"),
        x_scale=[0.0037],
        x_zero_point=signed([4]),
        **w,
        y_scale=[0.0076],
        y_zero_point=signed([-5]),
    )


@qlinear_conv.rejects
def qlinear_conv_rejects(reject):
    good = {
        "x": "uint8[2, 4, 5, 6]",
        "x_scale": "float32[]",
        "x_zero_point": "uint8[]",
        "w": "int8[6, 4, 3, 2]",
        "w_scale": "float32[]",
        "w_zero_point": "int8[]",
        "y_scale": "float32[]",
        "y_zero_point": "uint8[]",
    }
    yield reject(**{**good, "w": "int8[6, 3, 3, 2]"}, message="channels of x")
    yield reject(**{**good, "x_scale": "float32[4]"}, message="x_scale, which is one number")
    yield reject(**{**good, "w_scale": "float32[4]", "w_zero_point": "int8[4]"}, message="one per output channel")
    yield reject(**{**good, "w_zero_point": "int8[6]"}, message="w_zero_point must have the shape of w_scale")
    yield reject(**{**good, "x_zero_point": "int8[]"}, message="the dtype of x")
    yield reject(**good, b="int32[4]", message="b and the output channels")
    yield reject(**good, b="float32[6]", message="takes int32")
    yield reject(**good, dilations=(1,), message="dilations takes 2")
