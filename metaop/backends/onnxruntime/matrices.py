"""Matrices."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename({"det": node("Det")})


@bind
def trilu(o, x, *, k, upper):
    return o.Trilu(x, o.constant(k, np.dtype(np.int64)), upper=upper)


@bind
def eye_like(o, x, *, k, dtype):
    return o.EyeLike(x, k=k, dtype=x.dtype if dtype is None else dtype)
