"""MXNet's shapes."""

import mxnet as mx
import numpy as np

from metaop.backends.mxnet.bindings import bind


@bind
def shape_of(x, *, start, end):
    return mx.np.array(np.array(x.shape[start:end], dtype="int64"), dtype="int64", ctx=x.context)


@bind
def size_of(x):
    return mx.np.array(np.array(x.size, dtype="int64"), dtype="int64", ctx=x.context)
