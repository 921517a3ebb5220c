"""NumPy: each meta operator's reference, run in the dtype of its inputs.

Agreement of this backend with the reference is therefore no evidence; the tests hold the references against oracles
that share no code with them.
"""

import numpy as np

from metaop.backends.base import Backend
from metaop.backends.bind import Binding, Bindings
from metaop.ops import REGISTRY
from metaop.types import TensorType

bind = Bindings("numpy")
for _op in REGISTRY.values():
    bind.table[_op.name] = Binding(_op.name, _op.reference)


class NumpyBackend(Backend):
    """Tensors are arrays; gradients are derived."""

    name = "numpy"
    tensor_kind = "numpy"
    bindings = bind

    def prepare(self, op, attrs, types):
        function, keywords = super().prepare(op, attrs, types)
        if _PROMOTES_SCALARS:
            function = _narrowed(REGISTRY[op], function)
        if op in _OF_BITS or (types is not None and not any(t is not None and _coarse(t.dtype) for t in types)):
            return function, keywords
        return _widened(REGISTRY[op], function), keywords

    def version(self):
        return np.__version__

    def from_numpy(self, array):
        return array

    def to_numpy(self, tensor):
        return np.asarray(tensor)

    def type_of(self, tensor):
        return tensor.dtype, tensor.shape


#: before NumPy 2.0, a scalar of float32 and a Python number make a float64
_PROMOTES_SCALARS = int(np.__version__.partition(".")[0]) < 2

#: operators that look at the bits of a number, of which float32 has others
_OF_BITS = frozenset(["bit_cast"])


def _coarse(dtype):
    return dtype.name == "bfloat16"


def _widened(op, function):
    """The binding, where NumPy lacks kernels: bfloat16 is computed in float32, and the result rounded once."""

    def widened(*inputs, **attrs):
        if not any(x is not None and _coarse(x.dtype) for x in inputs):
            return function(*inputs, **attrs)
        types = op.infer([None if x is None else TensorType(x.dtype, x.shape) for x in inputs], attrs)
        wide = [x.astype(np.float32) if x is not None and _coarse(x.dtype) else x for x in inputs]
        results = function(*wide, **attrs)
        if not isinstance(results, (tuple, list)):
            return np.asarray(results).astype(types[0].dtype)
        return tuple(np.asarray(r).astype(t.dtype) for r, t in zip(results, types))

    return widened


def _narrowed(op, function):
    """The binding, with results of other dtypes than those of the inputs brought to what the operator's rule says."""

    def narrowed(*inputs, **attrs):
        results = function(*inputs, **attrs)
        several = isinstance(results, (tuple, list))
        arrays = [np.asarray(r) for r in results] if several else [np.asarray(results)]
        given = {x.dtype for x in inputs if x is not None}
        if not {r.dtype for r in arrays} <= given:
            types = op.infer([None if x is None else TensorType(x.dtype, x.shape) for x in inputs], attrs)
            arrays = [r.astype(t.dtype, copy=False) for r, t in zip(arrays, types)]
        return tuple(arrays) if several else arrays[0]

    return narrowed


BACKEND = NumpyBackend
