"""Numbers that ONNX takes as tensors, and metaop as attributes: known while the model is read, or open."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.table import Call, Refused

__all__ = ["scalar", "whole"]


def scalar(call: Call, index: int, part: str, default: Any = None) -> Any:
    """The one number of an input, or a node of rank 0 where it depends on data; ``default`` where it is left out."""
    node = call.optional(index)
    if node is None:
        return default
    value = call.converter.value(node)
    if value is not None:
        if value.size != 1:
            raise Refused(f"{part} must be one number; got {value.shape}")
        return value.reshape(()).item()
    return node if node.shape == () else call.part(part, "reshape", node, shape=())


def whole(call: Call, index: int, part: str) -> Any:
    """The same for an integer that ONNX also takes as another number."""
    found = scalar(call, index, part)
    if found is None:
        raise Refused(f"{part} is missing")
    return int(found) if isinstance(found, int | float) else call.part(f"{part}_whole", "cast", found, to="int64")
