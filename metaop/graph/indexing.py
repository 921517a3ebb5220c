"""``node[...]``: NumPy's basic indexing, spelled in meta operators."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from metaop.errors import ShapeError, UsageError
from metaop.graph.build import apply
from metaop.graph.nodes import Node

__all__ = ["index"]

_END = np.iinfo(np.int64).max
_START = -_END


def index(node: Node, key: Any) -> Node:
    """Integers, slices, ``...`` and ``None`` as in NumPy; an integer node or array gathers along the first axis."""
    if isinstance(key, list) and not key:
        key = np.zeros(0, np.int64)
    if isinstance(key, Node | np.ndarray | list):
        return apply("gather", (node, key), {"axis": 0})
    keys = key if isinstance(key, tuple) else (key,)
    keys = _expand_ellipsis(node, keys)
    starts, ends, axes, steps, dropped, added = [], [], [], [], [], []
    cut: dict[int, int] = {}
    axis, place = 0, 0
    for item in keys:
        if item is None:
            added.append(place)
            place += 1
            continue
        if node.shape is not None and axis >= len(node.shape):
            raise ShapeError(f"node {node.name!r} ({node.type}) has too few axes for the index {key!r}")
        size = None if node.shape is None else node.shape[axis]
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            if size is not None and not -size <= item < size:
                raise ShapeError(f"node {node.name!r} ({node.type}): index {item} is out of range for axis {axis}")
            starts.append(int(item))
            ends.append(int(item) + 1 if item != -1 else _END)
            axes.append(axis)
            steps.append(1)
            dropped.append(axis)
        elif isinstance(item, slice):
            if item != slice(None):
                start, stop, step = (_bound(node, bound) for bound in (item.start, item.stop, item.step))
                step = 1 if step is None else step
                if step == 0:
                    raise UsageError(f"node {node.name!r}: a slice step cannot be 0")
                if step < 0 and start is not None and start < 0:
                    start, stop = _backwards(axis, size, start, stop, cut)
                starts.append(start if start is not None else (0 if step > 0 else _END))
                ends.append(stop if stop is not None else (_END if step > 0 else _START))
                axes.append(axis)
                steps.append(step)
            place += 1
        else:
            raise UsageError(f"node {node.name!r}: index {item!r} is not an integer, slice, ellipsis or None")
        axis += 1
    if cut:
        first = {"starts": [0] * len(cut), "ends": list(cut.values()), "axes": list(cut), "steps": [1] * len(cut)}
        node = apply("slice", (node,), first)
    if axes:
        node = apply("slice", (node,), {"starts": starts, "ends": ends, "axes": axes, "steps": steps})
    if dropped:
        node = apply("squeeze", (node,), {"axes": dropped})
    if added:
        node = apply("unsqueeze", (node,), {"axes": added})
    return node


def _bound(node: Node, bound: Any) -> int | None:
    try:
        return None if bound is None else operator.index(bound)
    except TypeError:
        raise UsageError(f"node {node.name!r}: the bounds and steps of slices are integers; got {bound!r}") from None


def _backwards(
    axis: int, size: int | None, start: int, stop: int | None, cut: dict[int, int]
) -> tuple[int, int | None]:
    """Start and stop of a slice with a negative step, from a start that is counted from the end.

    Where that lies before the first element NumPy takes nothing, but ONNX starts at the first. If the size is unknown,
    what follows the start is therefore ``cut`` off beforehand.
    """
    if start == -1:
        return _END, stop
    if size is not None:
        return (start, stop) if start >= -size else (0, 0)
    if stop is not None and start <= stop < 0:
        return 0, 0
    cut[axis] = start + 1
    return _END, stop - cut[axis] if stop is not None and stop < 0 else stop


def _expand_ellipsis(node: Node, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    places = [i for i, k in enumerate(keys) if k is Ellipsis]
    if not places:
        return keys
    if len(places) > 1:
        raise UsageError(f"node {node.name!r}: an index has at most one ellipsis")
    if node.shape is None:
        raise ShapeError(f"node {node.name!r}: '...' needs a known rank; declare the placeholder's shape")
    used = sum(k is not None and k is not Ellipsis for k in keys)
    fill = (slice(None),) * (len(node.shape) - used)
    return keys[: places[0]] + fill + keys[places[0] + 1 :]
