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
    sizes = call.input(0).shape
    start, end = call.attr("start", 0), call.attr("end", len(sizes or ()))
    if sizes is None or None in sizes[start:end]:
        raise Refused(f"the shape of {call.input(0).name!r} ({call.input(0).type}) must be known")
    return call.value(np.array(sizes[start:end], np.int64))


@onnx_op("Size")
def size(call: Call) -> Any:
    return call.value(np.array(math.prod(call.shape(call.input(0))), np.int64))


# -- reshape and its kin -----------------------------------------------------------------------------------------------


@onnx_op("Reshape")
def reshape(call: Call) -> Any:
    x, target = call.input(0), list(call.static(1))
    if any(s < -1 for s in target):
        raise Refused(f"shape {target} has sizes below -1")
    if not call.flag("allowzero") and 0 in target:
        if x.shape is None:
            raise Refused(f"0 copies a size, but the rank of {x.name!r} is unknown")
        target = _copied(x, target)
    return call.make("reshape", x, shape=tuple(target))


def _copied(x: Node, target: list[int]) -> list[int]:
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
            raise Refused(f"two sizes of shape {target} of {x.type} would have to be inferred")
        result[target.index(-1)] = math.prod(s for s in rest if s is not None) // fixed
    if len(unknown) > 1 or 0 in result:
        raise Refused(f"two sizes of shape {target} of {x.type} would have to be inferred")
    result[unknown[0]] = -1
    return result


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
        made = call.make("split", x, axis=axis, split=sizes)
    else:
        if call.opset >= 18:
            count = call.attr("num_outputs", 0)
        elif (x.shape or ()) and ((x.shape or ())[call.axis(axis, call.rank(x))] or 0) % count:
            raise Refused(f"{x.type} cannot be cut into {count} equal parts")
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
    x, rank = call.input(0), call.rank(call.input(0))
    new = call.opset >= 11
    pads = call.static(1 if new else None, None if new else "pads")
    value: Any = 0.0
    if not new:
        value = call.attr("value", 0.0)
    elif call.has(2):
        value = call.constant(2).reshape(-1)[0].item()
    else:
        call.optional(2)
    if abs(value) > 1 << 53 and isinstance(value, int):
        raise Refused("the value is too large an integer")
    if call.opset >= 18 and call.has(3):
        axes = [call.axis(a, rank) for a in call.static(3)]
        if len(pads) != 2 * len(axes) or len(set(axes)) < len(axes):
            raise Refused(f"pads {pads} do not fit the axes {axes}")
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis], full[axis + rank] = pads[i], pads[i + len(axes)]
        pads = tuple(full)
    mode = call.attr("mode", "constant")
    return call.make("pad", x, pads=pads, mode=mode, **({"value": float(value)} if mode == "constant" else {}))
