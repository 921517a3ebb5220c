"""Shapes, selection and constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, direct, onnx_op

direct("Flatten", "flatten", axis=1)
direct("Gather", "gather", axis=0)


# -- constants ---------------------------------------------------------------------------------------------------------


@onnx_op("Constant")
def constant(call: Call) -> Any:
    kinds = {"value": None, "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64}
    kinds["value_ints"] = np.int64
    found = [name for name in kinds if call.given(name)]
    if len(found) != 1:
        raise Refused("exactly one of its attributes must be given, and no strings or sparse tensors")
    value = call.attr(found[0])
    if found[0] == "value" and not isinstance(value, np.ndarray):
        raise Refused("value must be a tensor")
    return call.value(np.asarray(value, kinds[found[0]]))


@onnx_op("ConstantOfShape")
def constant_of_shape(call: Call) -> Any:
    value = call.attr("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise Refused("value must have one element")
    return call.make("expand", call.value(value.reshape(()), "value"), shape=call.static(0))


@onnx_op("Shape")
def shape(call: Call) -> Any:
    x, start = call.input(0), call.attr("start", 0)
    end = call.attr("end", 0) if call.given("end") else None
    sizes = None if x.shape is None else x.shape[start:end]
    if sizes is not None and None not in sizes:
        return call.value(np.array(sizes, np.int64))
    return call.make("shape_of", x, start=start, end=end)


@onnx_op("Size")
def size(call: Call) -> Any:
    x = call.input(0)
    if x.shape is not None and None not in x.shape:
        return call.value(np.array(math.prod(call.shape(x)), np.int64))
    return call.make("size_of", x)


# -- reshape and its kin -----------------------------------------------------------------------------------------------


@onnx_op("Reshape")
def reshape(call: Call) -> Any:
    x, target = call.input(0), call.static(1)
    copies = not call.flag("allowzero")
    if not isinstance(target, tuple):
        return call.make("reshape", x, shape=_copied_later(call, x, target) if copies else target)
    if any(s < -1 for s in target):
        raise Refused(f"shape {target} has sizes below -1")
    if not copies or 0 not in target:
        return call.make("reshape", x, shape=target)
    known = None if x.shape is None else _copied(x, list(target))
    if known is not None:
        return call.make("reshape", x, shape=tuple(known))
    return call.make("reshape", x, shape=_copied_later(call, x, call.value(np.array(target, np.int64), "shape")))


def _copied(x: Node, target: list[int]) -> list[int] | None:
    """The shape with each 0 replaced by the size it copies; one copied size may stay to be inferred."""
    sizes = x.shape or ()
    copied = [i for i, s in enumerate(target) if s == 0]
    if copied[-1] >= len(sizes):
        raise Refused(f"shape {target} copies a size that {x.type} does not have")
    unknown = [i for i in copied if sizes[i] is None]
    result: list[Any] = [sizes[i] if i in copied else s for i, s in enumerate(target)]
    if not unknown:
        if -1 in result and 0 in result:
            raise Refused(f"-1 cannot be inferred beside a size of 0 (shape {target} of {x.type})")
        return result
    rest = [s for i, s in enumerate(sizes) if i not in copied]
    if -1 in target:
        fixed = math.prod(s for s in target if s > 0)
        if None in rest or fixed == 0 or math.prod(s for s in rest if s is not None) % fixed:
            return None
        result[target.index(-1)] = math.prod(s for s in rest if s is not None) // fixed
    if len(unknown) > 1 or 0 in result:
        return None
    result[unknown[0]] = -1
    return result


def _copied_later(call: Call, x: Node, target: Node) -> Node:
    """The same where the shape, or a size that is copied, is known when data are."""
    count = call.length(target, "sizes")
    if x.dtype is not None and x.shape is not None and len(x.shape) < count:
        # A 0 beyond the last axis has nothing to copy: it stays, and does not fit, for nothing is left to fill it.
        own = call.part("sizes", "shape_of", x)
        own = call.part("padded_sizes", "pad", own, pads=(0, count - len(x.shape)))
    else:
        own = call.part("sizes", "shape_of", x, end=count)
    if target.dtype != own.dtype:
        target = call.part("shape_64", "cast", target, to=own.dtype)
    copied = call.part("copied", "equal", target, call.number(0, target, "zero"))
    return call.part("target", "where", copied, own, target)


@onnx_op("Squeeze")
def squeeze(call: Call) -> Any:
    axes = call.static(1 if call.opset >= 13 else None, None if call.opset >= 13 else "axes", None)
    return call.make("squeeze", call.input(0), axes=axes)


@onnx_op("Unsqueeze")
def unsqueeze(call: Call) -> Any:
    axes = call.static(1 if call.opset >= 13 else None, None if call.opset >= 13 else "axes")
    return call.make("unsqueeze", call.input(0), axes=axes)


@onnx_op("Transpose")
def transpose(call: Call) -> Any:
    return call.make("transpose", call.input(0), perm=call.attr("perm", ()) if call.given("perm") else None)


@onnx_op("Expand", since=8)
def expand(call: Call) -> Any:
    return call.make("expand", call.input(0), shape=call.static(1))


@onnx_op("Concat")
def concat(call: Call) -> Any:
    return call.make("concat", *call.all(), axis=call.attr("axis", 0) if call.given("axis") else call.attr("axis"))


@onnx_op("Split")
def split(call: Call) -> Any:
    x, axis = call.input(0), call.attr("axis", 0)
    new = call.opset >= 13
    sizes = call.static(1 if new else None, None if new else "split", None)
    count = call.outputs
    if sizes is not None:
        if call.given("num_outputs"):
            raise Refused("both the sizes and num_outputs are given")
        if isinstance(sizes, Node) and sizes.shape != (count,):
            sizes = call.part("sizes", "reshape", sizes, shape=(count,))
        made = call.make("split", x, axis=axis, split=sizes)
    else:
        if call.opset >= 18:
            count = call.attr("num_outputs", 0)
        elif (x.shape or ()) and ((x.shape or ())[call.axis(axis, call.rank(x))] or 0) % count:
            raise Refused(f"{x.type} cannot be cut into {count} equal parts")
        if count != call.outputs:
            raise Refused(f"{call.outputs} outputs are named, but there are {count} parts")
        made = call.make("split", x, axis=axis, num_outputs=count)
    if len(made) != call.outputs:
        raise Refused(f"{call.outputs} outputs are named, but there are {len(made)} parts")
    return made


@onnx_op("Slice")
def slice_(call: Call) -> Any:
    x, old = call.input(0), call.opset < 10
    names = ("starts", "ends", "axes", "steps")
    given = {
        name: call.static(None if old else i, name if old else None, None if name in ("axes", "steps") else ())
        for i, name in enumerate(names, start=1)
    }
    return call.make("slice", x, **given)


@onnx_op("Pad")
def pad(call: Call) -> Any:
    x = call.input(0)
    new = call.opset >= 11
    pads = call.static(1 if new else None, None if new else "pads")
    value: Any = call.scalar(2, 0.0) if new else call.attr("value", 0.0)
    if isinstance(value, Node):
        if value.dtype is None or (value.dtype.kind in "iu" and value.dtype.itemsize == 8):
            raise Refused("a value of 64-bit integers must be a constant")
    elif isinstance(value, int) and abs(value) > 1 << 53:
        raise Refused("the value is too large an integer")
    else:
        value = float(value)
    if call.opset >= 18 and call.has(3):
        pads = _spread_pads(call, pads, call.static(3), call.rank(x))
    mode = call.attr("mode", "constant")
    return call.make("pad", x, pads=pads, mode=mode, **({"value": value} if mode == "constant" else {}))


def _spread_pads(call: Call, pads: Any, axes: Any, rank: int) -> Any:
    """Pads of all axes, from those of some."""
    count = call.length(axes, "axes")
    if call.length(pads, "pads") != 2 * count:
        raise Refused(f"there are {call.length(pads, 'pads')} pads for {count} axes")
    if isinstance(axes, tuple):
        axes = tuple(call.axis(a, rank) for a in axes)
        if len(set(axes)) < count:
            raise Refused(f"axes {axes} name one twice")
        places = [axes.index(i % rank) + (i >= rank) * count if i % rank in axes else -1 for i in range(2 * rank)]
        if isinstance(pads, tuple):
            return tuple(0 if place < 0 else pads[place] for place in places)
        more = call.part("pads_and_0", "pad", pads, pads=(0, 1))
        return call.part("all_pads", "gather", more, call.value(np.array(places, np.int64), "places"), axis=0)
    # A column for each axis that is padded, with a 1 in the row of that axis.
    pads = call.value(np.array(pads, np.int64), "pads") if isinstance(pads, tuple) else pads
    sizes = call.number(rank, axes, "rank")
    below = call.part("below", "less", axes, call.number(0, axes, "zero"))
    front = call.part("front", "where", below, call.part("moved", "add", axes, sizes), axes)
    rows = call.value(np.arange(rank).astype(axes.dtype).reshape(-1, 1), "rows")
    hit = call.part("chosen", "cast", call.part("hit", "equal", rows, front), to=pads.dtype)
    halves = call.part("halves", "reshape", pads, shape=(2, 1, count))
    spread = call.part("spread", "multiply", halves, hit)
    summed = call.part("summed", "reduce_sum", spread, axes=(2,))
    return call.part("all_pads", "reshape", summed, shape=(2 * rank,))
