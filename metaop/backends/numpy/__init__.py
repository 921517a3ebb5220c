"""NumPy: each meta operator's reference, run in the dtype of its inputs.

Agreement of this backend with the reference is therefore no evidence; the tests hold the references against oracles
that share no code with them.
"""

import numpy as np

from metaop.backends.base import Backend
from metaop.backends.bind import Binding, Bindings
from metaop.ops import REGISTRY

bind = Bindings("numpy")
for _op in REGISTRY.values():
    bind.table[_op.name] = Binding(_op.name, _op.reference)


class NumpyBackend(Backend):
    """Tensors are arrays; gradients are derived."""

    name = "numpy"
    tensor_kind = "numpy"
    bindings = bind

    def version(self):
        return np.__version__

    def from_numpy(self, array):
        return array

    def to_numpy(self, tensor):
        return np.asarray(tensor)

    def type_of(self, tensor):
        return tensor.dtype, tensor.shape


BACKEND = NumpyBackend
