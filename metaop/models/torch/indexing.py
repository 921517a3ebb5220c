"""Elements by their positions: read, written, sorted and found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from metaop.graph.nodes import Node
from metaop.models.torch.movement import broadcast, same_size
from metaop.models.torch.table import Call, Refused, aten_op, numpy_dtype

INT64 = np.dtype("int64")

# -- x[...], read ------------------------------------------------------------------------------------------------------


@aten_op("index.Tensor", "_unsafe_index.Tensor")
def index_tensor(call: Call, self: Node, indices: tuple[Any, ...]) -> Any:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if any(call.dtype_of(index) == np.bool_ for _, index in given):
        return _chosen(call, self, given)
    if len(given) == 1:
        ((axis, index),) = given
        return call.make("gather", self, call.cast(index, INT64, "index"), axis=axis)
    axes = [axis for axis, _ in given]
    places, rank = _places(call, [index for _, index in given])
    turned, order = _to_front(call, self, axes)
    # Where the indexed axes are neighbours, what is found stands in their place, else in front.
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    if not first:
        return call.make("gather_nd", turned, places)
    found = call.part("found", "gather_nd", turned, places)
    total = rank + len(order) - len(axes)
    perm = (*range(rank, rank + first), *range(rank), *range(rank + first, total))
    return call.make("transpose", found, perm=perm)


def _chosen(call: Call, x: Node, given: Sequence[tuple[int, Node]]) -> Any:
    """The elements where a mask of the first axes is true."""
    if len(given) != 1 or given[0][0]:
        raise Refused("a mask is supported as the only index, of the first axes")
    mask = given[0][1]
    masked = call.rank(mask)
    if masked > 1:
        rest = call.sizes(x)[masked:]
        if not all(isinstance(s, int) for s in rest):
            raise Refused("the axes behind those of the mask must be of known size")
        x = call.part("rows", "reshape", x, shape=(-1, *rest))
        mask = call.part("mask", "reshape", mask, shape=(-1,))
    return call.make("compress", x, mask, axis=0)


@aten_op("masked_select")
def masked_select(call: Call, self: Node, mask: Node) -> Any:
    shape = torch.broadcast_shapes(call.sizes(self), call.sizes(mask))
    flat = [
        call.part(f"{name}_flat", "reshape", broadcast(call, x, shape, name), shape=(-1,))
        for name, x in (("x", self), ("mask", mask))
    ]
    return call.make("compress", *flat, axis=0)


def _places(call: Call, indices: Sequence[Node]) -> tuple[Node, int]:
    """Positions beside each other along a last axis, and the rank without it."""
    shape = torch.broadcast_shapes(*(call.sizes(index) for index in indices))
    columns = []
    for i, index in enumerate(indices):
        whole = broadcast(call, call.cast(index, INT64, f"index_{i}"), shape, f"places_{i}", call.sizes(index))
        columns.append(whole)
    return call.part("places", "stack", *columns, axis=-1), len(shape)


def _to_front(call: Call, x: Node, axes: Sequence[int]) -> tuple[Node, tuple[int, ...]]:
    order = (*axes, *(a for a in range(call.rank(x)) if a not in axes))
    return (x if order == tuple(range(len(order))) else call.part("turned", "transpose", x, perm=order)), order


@aten_op("gather")
def gather(call: Call, self: Node, dim: int, index: Node) -> Any:
    own, asked = call.sizes(self), call.sizes(index)
    if not own:
        return self
    axis = call.axis(dim, len(own))
    # PyTorch reads a corner where the index is smaller along other axes.
    cut = [i for i, (a, b) in enumerate(zip(own, asked, strict=True)) if i != axis and not same_size(a, b)]
    if cut:
        ends = call.shape_attribute([asked[i] for i in cut])
        self = call.part("corner", "slice", self, starts=(0,) * len(cut), ends=ends, axes=tuple(cut))
    return call.make("gather_elements", self, index, axis=axis)


@aten_op("index_select")
def index_select(call: Call, self: Node, dim: int, index: Node) -> Any:
    return call.make("gather", self, index, axis=dim)


@aten_op("unfold")
def unfold(call: Call, self: Node, dimension: int, size: int, step: int) -> Any:
    """Windows along an axis, each along a new last one."""
    rank = call.rank(self)
    axis = call.axis(dimension, rank)
    count = call.shape[axis]
    if not isinstance(count, int) or not rank:
        raise Refused("an axis that depends on the batch cannot be unfolded")
    table = np.arange(count)[:, None] * step + np.arange(size)
    windows = call.part("windows", "gather", self, call.value(table, "positions"), axis=axis)
    perm = (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1)
    return call.make("transpose", windows, perm=perm)


@aten_op("diagonal", "diagonal_copy")
def diagonal(call: Call, self: Node, offset: int, dim1: int, dim2: int) -> Any:
    rank = call.rank(self)
    axes = [call.axis(dim1, rank), call.axis(dim2, rank)]
    count = call.shape[-1]
    if not isinstance(count, int):
        raise Refused("a diagonal whose length depends on the batch is not supported")
    steps = np.arange(count)
    places = call.value(np.stack([steps + max(-offset, 0), steps + max(offset, 0)], axis=-1), "places")
    turned, _ = _to_front(call, self, axes)
    if rank == 2:
        return call.make("gather_nd", turned, places)
    found = call.part("found", "gather_nd", turned, places)
    return call.make("transpose", found, perm=(*range(1, rank - 1), 0))


# -- x[...] = y --------------------------------------------------------------------------------------------------------


@aten_op("copy", told=("self",))
def copy(call: Call, src: Node) -> Any:
    return broadcast(call, call.cast(src, call.dtype), call.shape, "copy", call.sizes(src))


@aten_op("index_put", "_unsafe_index_put")
def index_put(call: Call, self: Node, indices: tuple[Any, ...], values: Node, accumulate: bool) -> Any:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if any(call.dtype_of(index) == np.bool_ for _, index in given):
        return _overwritten(call, self, given, values, accumulate)
    axes = [axis for axis, _ in given]
    places, rank = _places(call, [index for _, index in given])
    turned, order = _to_front(call, self, axes)
    rest = [call.sizes(self)[a] for a in order[len(axes) :]]
    found = list(torch.broadcast_shapes(*(call.sizes(index) for _, index in given)))
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    # New values have the shape of what reading would give, with the positions in front here.
    whole = broadcast(call, values, [*rest[:first], *found, *rest[first:]], "values")
    if first:
        perm = (*range(first, first + rank), *range(first), *range(first + rank, rank + len(rest)))
        whole = call.part("values_turned", "transpose", whole, perm=perm)
    reduction = "add" if accumulate else "none"
    if turned is self:
        return call.make("scatter_nd", self, places, whole, reduction=reduction)
    written = call.part("written", "scatter_nd", turned, places, whole, reduction=reduction)
    return call.make("transpose", written, perm=tuple(int(i) for i in np.argsort(order)))


def _overwritten(call: Call, x: Node, given: Sequence[tuple[int, Node]], values: Node, accumulate: bool) -> Any:
    """One value wherever a mask of the first axes is true."""
    if len(given) != 1 or given[0][0] or accumulate or any(s != 1 for s in call.sizes(values)):
        raise Refused("with a mask, one value for all of its elements is supported")
    mask = given[0][1]
    extra = call.rank(x) - call.rank(mask)
    if extra:
        mask = call.part("mask", "unsqueeze", mask, axes=tuple(range(-extra, 0)))
    value = call.part("value", "reshape", values, shape=()) if call.sizes(values) else values
    return call.make("where", mask, value, x)


@aten_op("slice_scatter")
def slice_scatter(call: Call, self: Node, src: Node, dim: int, start: Any, end: Any, step: int) -> Any:
    rank = call.rank(self)
    axis = call.axis(dim, rank)
    size, count = call.sizes(self)[axis], call.sizes(src)[axis]
    src = call.cast(src, call.dtype, "source")
    if same_size(size, count):
        return src
    if not isinstance(size, int) or not isinstance(count, int):
        raise Refused("a part of an axis that depends on the batch is not supported")
    first = 0 if start is None else start + size if start < 0 else start
    return _replaced(call, self, src, axis, np.arange(count) * step + min(first, size), size)


@aten_op("select_scatter")
def select_scatter(call: Call, self: Node, src: Node, dim: int, index: int) -> Any:
    axis = call.axis(dim, call.rank(self))
    size = call.sizes(self)[axis]
    src = call.part("source", "unsqueeze", call.cast(src, call.dtype, "cast"), axes=(axis,))
    if isinstance(size, int):
        return _replaced(call, self, src, axis, np.array([index % size]), size)
    if index not in (0, -1):
        raise Refused("of an axis that depends on the batch, the first or last slice is supported")
    span = {"starts": (1,), "ends": (2**31,)} if index == 0 else {"starts": (0,), "ends": (-1,)}
    rest = call.part("rest", "slice", self, axes=(axis,), **span)
    return call.make("concat", *((src, rest) if index == 0 else (rest, src)), axis=axis)


def _replaced(call: Call, x: Node, src: Node, axis: int, places: np.ndarray, size: int) -> Any:
    """Slices in the place of others: those of both tensors, behind each other, in another order."""
    table = np.arange(size)
    table[places] = size + np.arange(len(places))
    both = call.part("both", "concat", x, src, axis=axis)
    return call.make("gather", both, call.value(table, "order"), axis=axis)


def _scatter(call: Call, x: Node, dim: int, index: Node, src: Any, reduction: str) -> Any:
    if not isinstance(src, Node):
        src = broadcast(call, call.cast(src, call.dtype, "value"), call.sizes(index), "values", ())
    elif not call.rank(x):
        raise Refused("a scalar is not supported")
    else:
        own, asked = call.sizes(src), call.sizes(index)
        cut = [i for i, (a, b) in enumerate(zip(own, asked, strict=True)) if not same_size(a, b)]
        if cut:
            ends = call.shape_attribute([asked[i] for i in cut])
            src = call.part("corner", "slice", src, starts=(0,) * len(cut), ends=ends, axes=tuple(cut))
    return call.make("scatter_elements", x, index, src, axis=dim, reduction=reduction)


@aten_op("scatter.src")
def scatter(call: Call, self: Node, dim: int, index: Node, src: Node) -> Any:
    return _scatter(call, self, dim, index, src, "none")


@aten_op("scatter.value")
def scatter_value(call: Call, self: Node, dim: int, index: Node, value: Any) -> Any:
    return _scatter(call, self, dim, index, value, "none")


@aten_op("scatter_add")
def scatter_add(call: Call, self: Node, dim: int, index: Node, src: Node) -> Any:
    return _scatter(call, self, dim, index, src, "add")


@aten_op("scatter_reduce.two")
def scatter_reduce(call: Call, self: Node, dim: int, index: Node, src: Node, reduce: str, include_self: bool) -> Any:
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in kinds or not include_self:
        raise Refused(f"reduce={reduce!r} with include_self={include_self} is not supported")
    return _scatter(call, self, dim, index, src, kinds[reduce])


# -- sorted and found --------------------------------------------------------------------------------------------------


@aten_op("topk", told=("k",))
def topk(call: Call, self: Node, dim: int, largest: bool, sorted: bool) -> Any:
    # In which order the elements are otherwise is up to whoever computes it: let it be this one.
    return _top(call, self, dim, largest)


@aten_op("sort", "sort.stable", told=("stable",))
def sort(call: Call, self: Node, dim: int, descending: bool) -> Any:
    """Of equal elements the first comes first, which PyTorch promises only where it is asked to be stable."""
    return _top(call, self, dim, descending)


def _top(call: Call, x: Node, dim: int, largest: bool) -> Any:
    if not call.rank(x):
        raise Refused("a scalar is not supported")
    axis = call.axis(dim, call.rank(x))
    count = call.result[0].shape[axis]
    if not isinstance(count, int):
        raise Refused("an axis that depends on the batch cannot be sorted")
    return call.make("topk", x, k=count, axis=axis, largest=largest)


@aten_op("nonzero")
def nonzero(call: Call, self: Node) -> Any:
    return call.make("transpose", call.part("by_axis", "nonzero", self), perm=(1, 0))


@aten_op("one_hot", told=("num_classes",))
def one_hot(call: Call, self: Node) -> Any:
    depth = call.shape[-1]
    if not isinstance(depth, int):
        raise Refused("num_classes must be given")
    return call.make("one_hot", self, call.value(np.array([0, 1], np.int64), "off_and_on"), depth=depth, axis=-1)


@aten_op("bucketize.Tensor", told=("out_int32",))
def bucketize(call: Call, self: Node, boundaries: Node, right: bool) -> Any:
    """How many of the boundaries are below."""
    beside = call.part("beside", "unsqueeze", self, axes=(-1,))
    dtype = numpy_dtype(call.common(self, boundaries))
    operands = call.cast(beside, dtype, "values"), call.cast(boundaries, dtype, "boundaries")
    below = call.part("below", "greater_equal" if right else "greater", *operands)
    return call.make("reduce_sum", call.cast(below, call.dtype, "counted"), axes=(-1,))
