"""Shapes as data, and tensors made from shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from metaop.graph.nodes import Node
from metaop.models.tensorflow.table import Call, Refused, numpy_dtype, tf_op


@tf_op("Const")
def const(call: Call) -> Any:
    return call.data(tf.make_ndarray(call.attr("value")))


def _as(call: Call, node_of: Any) -> Any:
    """Integers that metaop has as int64, as TensorFlow has them."""
    to = numpy_dtype(call.op.outputs[0].dtype)
    if to == np.int64:
        return node_of(call.make)
    return call.make("cast", node_of(lambda *a, **k: call.part("int64", *a, **k)), to=to)


@tf_op("Shape")
def shape(call: Call) -> Any:
    sizes = call.sizes(0)
    if sizes is not None and None not in sizes:
        call.value(0)
        return call.data(np.array(sizes, numpy_dtype(call.op.outputs[0].dtype)))
    return _as(call, lambda make: make("shape_of", call.input(0)))


@tf_op("Size")
def size(call: Call) -> Any:
    sizes = call.sizes(0)
    if sizes is not None and None not in sizes:
        call.value(0)
        count = math.prod(s for s in sizes if s is not None)
        return call.data(np.array(count, numpy_dtype(call.op.outputs[0].dtype)))
    return _as(call, lambda make: make("size_of", call.input(0)))


@tf_op("Rank")
def rank(call: Call) -> Any:
    call.value(0)
    return call.data(np.array(call.rank(0), np.int32))


@tf_op("Range")
def range_(call: Call) -> Any:
    start, limit, delta = (call.constant(i).reshape(()) for i in range(3))
    count = (float(limit) - float(start)) / float(delta) if delta else np.nan
    if not count <= 1 << 24:
        raise Refused(f"from {start} to {limit} by {delta} leads nowhere, or too far")
    return call.data(start + np.arange(max(math.ceil(count), 0)).astype(start.dtype) * delta)


def _filled(call: Call, index: int, value: Node) -> Any:
    """``value`` in the shape that an input gives."""
    found = call.out()
    if found is not None and None not in found:
        call.input(index)
        return call.make("expand", value, shape=found)
    return call.make("expand", value, shape=call.opened(index))


@tf_op("Fill")
def fill(call: Call) -> Any:
    return _filled(call, 0, call.input(1))


@tf_op("BroadcastTo")
def broadcast_to(call: Call) -> Any:
    return _filled(call, 1, call.input(0))


@tf_op("ZerosLike", "OnesLike")
def constant_like(call: Call) -> Any:
    number = call.number(int(call.op_type == "OnesLike"), 0, "number")
    sizes = call.out()
    if sizes is not None and None not in sizes:
        call.value(0)
        return call.make("expand", number, shape=sizes)
    return call.make("expand", number, shape=call.part("shape", "shape_of", call.input(0)))
