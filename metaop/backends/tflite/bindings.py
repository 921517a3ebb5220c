"""The table of TensorFlow Lite bindings: TensorFlow's, less what its own kernels ("builtins") do not compute.

What depends on shapes or dtypes is not listed here: there converter or kernel refuse, and their reason is passed on.
"""

import tensorflow as tf

from metaop.backends.bind import Binding, Bindings
from metaop.backends.tensorflow.bindings import RELEASE
from metaop.backends.tensorflow.bindings import bind as tensorflow
from metaop.errors import UnsupportedOpError

bind = Bindings("tflite")

UNSUPPORTED = {
    "erf": "it has no builtin kernel for TensorFlow's Erf",
    "trunc_div": "it has no builtin kernel for TensorFlow's TruncateDiv",
    "max_pool3d": "it has no builtin kernel for TensorFlow's MaxPool3D",
    "quantize_linear": "it has no builtin kernel for TensorFlow's Minimum in float64",
    "matmul_integer": "it has no builtin kernel for TensorFlow's MatMul of int32",
    "conv_integer": "it has no builtin kernel for TensorFlow's Conv2D of int32",
    "dft": "its one Fourier transform is of real numbers, of lengths that are powers of two",
    "stft": "its one Fourier transform is of real numbers, of lengths that are powers of two",
    "average_pool3d": "it has no builtin kernel for TensorFlow's AvgPool3D",
    "bitwise_and": "it has no builtin kernel for TensorFlow's BitwiseAnd",
    "bitwise_or": "it has no builtin kernel for TensorFlow's BitwiseOr",
    "bitwise_xor": "its kernel of TensorFlow's BitwiseXor takes no int64",
    "bitwise_not": "it has no builtin kernel for TensorFlow's Invert",
    "bit_shift": "it has no builtin kernel for TensorFlow's LeftShift, and none of 64 bits for its RightShift",
    "is_inf": "its converter makes the largest finite number of the constant Inf",
    "cumprod": "it has no builtin kernel for TensorFlow's Cumprod",
    "reduce_l2": "it has no builtin kernel for TensorFlow's EuclideanNorm",
    **{
        op: "it has no builtin kernel for TensorFlow's " + op.capitalize()
        for op in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
    },
    "det": "it has no builtin kernel for TensorFlow's MatrixDeterminant",
    "unique": "it has no builtin kernel for TensorFlow's UniqueWithCountsV2",
    "non_max_suppression": "its converter leaves the list of chosen boxes padded to the greatest length",
    "max_pool_with_indices": "it has no builtin kernel for TensorFlow's MaxPoolWithArgmax",
}

for _op, _reason in UNSUPPORTED.items():
    bind.unsupported(_op, reason=_reason)


@bind
def einsum(*inputs, equation):
    if len(inputs) == 1 and sums_and_reorders(equation):
        # From uninitialised memory: mostly it stops at the shapes, but of square ones it makes a wrong model.
        raise UnsupportedOpError(
            "its converter takes a wrong transposition for {!r}; sum first and transpose after".format(equation)
        )
    return tensorflow.table["einsum"].function(*inputs, equation=equation)


def sums_and_reorders(equation):
    """Whether axes are summed before others that then change places."""
    operand, arrow, output = equation.replace(" ", "").replace("...", ".").partition("->")
    kept = [index for index in operand if index in output]
    return bool(arrow) and kept != list(output) and not operand.startswith("".join(kept))


@bind
def equal(x, y):
    if x.dtype == tf.uint8:
        # To the kernel these are quantised numbers; without a scale it ends the process.
        raise UnsupportedOpError("its kernel compares no plain uint8; cast them first")
    return tensorflow.table["equal"].function(x, y)


@bind
def shape_of(x, *, start, end):
    if len(x.shape[start:end]) == 0:
        raise UnsupportedOpError("its interpreter hands out no empty tensors, and here no sizes are asked for")
    return tensorflow.table["shape_of"].function(x, start=start, end=end)


@bind
def range(*, start, limit, delta, dtype):
    if (limit - start) * delta <= 0:
        raise UnsupportedOpError("its interpreter hands out no empty tensors, and here there are no numbers")
    return tensorflow.table["range"].function(start=start, limit=limit, delta=delta, dtype=dtype)


if RELEASE < (2, 2):

    @bind
    def inv(x):
        # What later converters make of TensorFlow's Reciprocal, which this one does not know.
        return tf.ones_like(x) / x


def logical(name):
    def bound(x, y):
        if x.shape != y.shape and max(len(x.shape), len(y.shape)) > 4:
            # The kernel ends the process.
            raise UnsupportedOpError("its kernel broadcasts booleans of at most 4 axes; expand them first")
        return tensorflow.table[name].function(x, y)

    bound.__name__ = name
    bind(bound)


for _op in ("logical_and", "logical_or", "logical_xor"):
    logical(_op)

for _op, _binding in tensorflow.table.items():
    if _op not in bind.table:
        bind.table[_op] = Binding(_op, _binding.function, _binding.names, _binding.reason)
