"""The table of TensorFlow Lite bindings: TensorFlow's, less what its own kernels ("builtins") do not compute.

What depends on shapes or dtypes is not listed here: there converter or kernel refuse, and their reason is passed on.
"""

import metaop.backends.tensorflow  # noqa: F401  fills the table of bindings that are converted
from metaop.backends.bind import Binding, Bindings
from metaop.backends.tensorflow.bindings import bind as tensorflow
from metaop.errors import UnsupportedOpError

bind = Bindings("tflite")

UNSUPPORTED = {
    "erf": "it has no builtin kernel for TensorFlow's Erf",
    "max_pool3d": "it has no builtin kernel for TensorFlow's MaxPool3D",
    "average_pool3d": "it has no builtin kernel for TensorFlow's AvgPool3D",
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


for _op, _binding in tensorflow.table.items():
    if _op not in bind.table:
        bind.table[_op] = Binding(_op, _binding.function, _binding.names, _binding.reason)
