"""Gathers and scatters."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.elementwise import cast
from metaop.backends.onnxruntime.graph import node

INT64 = np.dtype(np.int64)

bind.rename({"gather_elements": node("GatherElements", axis="axis")})


@bind
def scatter_elements(o, x, indices, updates, *, axis, reduction):
    if x.dtype == np.float16 and reduction in ("add", "mul"):
        o.no_kernel("its ScatterElements neither adds nor multiplies in float16")
    return o.ScatterElements(x, indices, updates, axis=axis, reduction=reduction)


@bind
def gather_nd(o, x, indices, *, batch_dims):
    return o.GatherND(x, cast(o, indices, to=INT64), batch_dims=batch_dims)


@bind
def scatter_nd(o, x, indices, updates, *, reduction):
    if x.dtype == np.float16 and reduction != "none":
        o.no_kernel("its ScatterND only replaces in float16")
    return o.ScatterND(x, cast(o, indices, to=INT64), updates, reduction=reduction)


@bind
def tensor_scatter(o, x, update, write_indices=None, *, axis, mode):
    o.since(24)
    indices = None if write_indices is None else cast(o, write_indices, to=INT64)
    return o.TensorScatter(x, update, indices, axis=axis, mode=mode)


@bind
def one_hot(o, indices, values, *, depth, axis):
    if not indices.rank:
        o.no_kernel("its OneHot takes no scalar for indices")
    return o.OneHot(indices, o.constant(depth, INT64), values, axis=axis)
