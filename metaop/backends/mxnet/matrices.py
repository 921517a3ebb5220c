"""MXNet's matrices."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind, legacy
from metaop.backends.mxnet.movement import movable


@bind
@movable
def trilu(x, *, k, upper):
    rows, columns = x.shape[-2:]
    k = max(-rows, min(k, columns))
    if not upper:
        return mx.np.tril(x, k)
    # There is no upper triangle: it is what a lower one leaves.
    lower = mx.np.tril(mx.np.ones((rows, columns), dtype="int32"), k - 1).astype("bool")
    return bind.table["where"].function(lower, mx.np.zeros((), dtype=x.dtype), x)


@bind
def eye_like(x, *, k, dtype):
    rows, columns = x.shape
    k = max(-rows, min(k, columns))
    dtype = x.dtype if dtype is None else dtype
    return mx.np.eye(rows, columns, k=k, dtype="float32").astype(dtype)


# Release 1.6 has it among the older operators only, which give a vector for one matrix.
determinant = getattr(mx.np.linalg, "det", None) or legacy(mx.nd.linalg.det)


@bind
def det(x):
    return mx.np.reshape(determinant(x), x.shape[:-2])
