"""Shapes as data: what attributes of other operators are computed from where sizes are known only when data are fed."""

import numpy as np

from metaop.ops.spec import meta_op
from metaop.types import ANY, TensorType

INT64 = np.dtype("int64")


def shape_type(x, *, start, end):
    return TensorType(INT64, (None,) if x.shape is None else (len(x.shape[start:end]),))


@meta_op(rule=shape_type, dtypes=ANY, nondifferentiable="its values are integers", types_only=True)
def shape_of(x, *, start: int = 0, end: int | None = None):
    """The sizes of ``x`` from axis ``start`` up to, and not including, ``end``, as int64; both may count from the end
    and are cut to the axes that there are.
    """
    return np.array(x.shape[start:end], dtype=np.int64)


@shape_of.samples
def shape_of_samples(draw):
    yield draw(x=(2, 3, 4))
    yield draw(x=())
    yield draw(x=(0, 3))
    yield draw(x=(2, 3, 4), start=1)
    yield draw(x=(2, 3, 4), start=-2, end=-1)
    yield draw(x=(2, 3, 4), start=-9, end=9)
    yield draw(x=(2, 3, 4), start=2, end=1)


@shape_of.rejects
def shape_of_rejects(reject):
    yield reject(x="float32[2]", start=0.5, message="takes an integer")


def size_type(x):
    return TensorType(INT64, ())


@meta_op(rule=size_type, dtypes=ANY, nondifferentiable="its values are integers", types_only=True)
def size_of(x):
    """How many elements ``x`` has, as an int64 scalar."""
    return np.array(x.size, dtype=np.int64)


@size_of.samples
def size_of_samples(draw):
    yield draw(x=(2, 3))
    yield draw(x=())
    yield draw(x=(0, 3))


@size_of.rejects
def size_of_rejects(reject):
    yield reject(x="float32[2]", axis=0, message="no attribute")
