"""Operators that arrange, join, cut and select."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from metaop.graph.build import apply
from metaop.graph.known import Known
from metaop.graph.nodes import Node
from metaop.models.tensorflow.convolution import image
from metaop.models.tensorflow.table import Call, First, Refused, Value, numpy_dtype, tf_op, to_first, to_last
from metaop.types import Shape

# -- reshape and its kin -----------------------------------------------------------------------------------------------


@tf_op("Reshape")
def reshape(call: Call) -> Any:
    x = call.input(0)
    own, result = call.sizes(0), call.out()
    if own is not None and own == result and own.count(None) <= 1:
        call.input(1)
        return call.make("identity", x)
    return call.make("reshape", x, shape=_target(call, own, result))


def _target(call: Call, own: Shape | None, result: Shape | None) -> Any:
    """The shape asked for, with -1 for a size that follows from the others."""
    if call.known(1) is not None:
        return call.ints(1)
    if result is not None and None not in result:
        return result
    if result is not None and own is not None and own.count(None) == result.count(None) == 1:
        sizes = [math.prod(s for s in shape if s is not None) for shape in (own, result)]
        if sizes[0] == sizes[1] > 0:
            # The one unknown size is the same before and after.
            return tuple(-1 if s is None else s for s in result)
    return call.input(1)


@tf_op("ExpandDims")
def expand_dims(call: Call) -> Any:
    (axis,), rank = call.ints(1), call.rank(0)
    axis = call.axis(axis, rank + 1)
    if call.is_first(0) and 0 < axis < rank:
        return First(call.make("unsqueeze", call.first(0), axes=(axis + 1,)))
    return call.make("unsqueeze", call.input(0), axes=(axis,))


@tf_op("Squeeze")
def squeeze(call: Call) -> Any:
    axes, rank, sizes = tuple(call.attr("squeeze_dims")), call.rank(0), call.sizes(0) or ()
    if not axes and None in sizes:
        raise Refused(f"which axes of {list(sizes)} have size 1 must be known")
    axes = tuple(call.axis(a, rank) for a in axes) or tuple(i for i, s in enumerate(sizes) if s == 1)
    if not axes:
        return call.value(0)
    if call.is_first(0) and all(0 < a < rank - 1 for a in axes) and rank - len(axes) > 2:
        return First(call.make("squeeze", call.first(0), axes=tuple(a + 1 for a in axes)))
    return call.make("squeeze", call.input(0), axes=axes)


@tf_op("Transpose")
def transpose(call: Call) -> Any:
    perm = call.ints(1)
    rank = len(perm)
    # A change of layout is what layouts are for: nothing is computed.
    if rank > 2 and perm == to_first(rank) and call.is_first(0):
        return Value(call.name, call.first(0))
    if rank > 2 and perm == to_last(rank) and not call.is_first(0):
        return First(call.input(0))
    return call.make("transpose", call.input(0), perm=perm)


@tf_op("Tile")
def tile(call: Call) -> Any:
    x, repeats = call.input(0), call.ints(1)
    if len(repeats) != call.rank(0) or not all(1 <= count <= 64 for count in repeats):
        raise Refused(f"1 to 64 repetitions of each axis are supported; got {repeats} of {x.type}")
    for axis, count in enumerate(repeats):
        if count > 1:
            x = call.part("joined", "concat", *[x] * count, axis=axis)
    return call.make("identity", x)


@tf_op("Pad", "PadV2", "MirrorPad")
def pad(call: Call) -> Any:
    widths = call.constant(1).astype(np.int64)
    mode, value = "constant", 0.0
    if call.op_type == "PadV2":
        value = float(call.constant(2))
    if call.op_type == "MirrorPad":
        mode = call.attr("mode").lower()
        if mode != "reflect":
            raise Refused(f"mode={mode!r} is not supported, only 'reflect'")
    rank = call.rank(0)
    if call.is_first(0):
        pads = widths[list(to_first(rank))].T.reshape(-1)
        x, wrap = call.first(0), First
    else:
        pads = widths.T.reshape(-1)
        x, wrap = call.input(0), lambda node: node  # type: ignore[assignment, return-value]
    return wrap(call.make("pad", x, pads=tuple(int(p) for p in pads), mode=mode, value=value))


def _known_sizes(call: Call) -> tuple[list[int], list[int]]:
    """The sizes of the input, -1 for an unknown batch, and those of the blocks."""
    sizes, blocks = call.sizes(0), list(call.ints(1))
    if sizes is None or len(sizes) <= len(blocks) or None in sizes[1:] or 0 in sizes:
        raise Refused(f"all sizes but that of the batch must be known; got {sizes}")
    return [-1 if s is None else s for s in sizes], blocks


@tf_op("SpaceToBatchND")
def space_to_batch(call: Call) -> Any:
    sizes, blocks = _known_sizes(call)
    widths, count = call.constant(2), len(blocks)
    x = call.input(0)
    if widths.any():
        around = np.zeros((2, len(sizes)), np.int64)
        around[:, 1 : count + 1] = widths.T
        x = call.part("padded", "pad", x, pads=tuple(int(p) for p in around.reshape(-1)))
    spatial = [size + int(sum(w)) for size, w in zip(sizes[1:], widths, strict=False)]
    counts, rest = [n // b for n, b in zip(spatial, blocks, strict=True)], sizes[count + 1 :]
    if any(n % b for n, b in zip(spatial, blocks, strict=True)):
        raise Refused(f"sizes {spatial} cannot be dealt out in blocks of {blocks}")
    cut = [sizes[0], *(n for pair in zip(counts, blocks, strict=True) for n in pair), *rest]
    perm = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(cut))]
    dealt = call.part("dealt", "transpose", call.part("cut", "reshape", x, shape=tuple(cut)), perm=tuple(perm))
    batch = -1 if sizes[0] < 0 else sizes[0] * math.prod(blocks)
    return call.make("reshape", dealt, shape=(batch, *counts, *rest))


@tf_op("BatchToSpaceND")
def batch_to_space(call: Call) -> Any:
    sizes, blocks = _known_sizes(call)
    crops, count = call.constant(2), len(blocks)
    batch = -1 if sizes[0] < 0 else sizes[0] // math.prod(blocks)
    counts, rest = sizes[1 : count + 1], sizes[count + 1 :]
    cut = call.part("cut", "reshape", call.input(0), shape=(*blocks, batch, *counts, *rest))
    pairs = [n for i in range(count) for n in (count + 1 + i, i)]
    joined = call.part("joined", "transpose", cut, perm=(count, *pairs, *range(2 * count + 1, len(sizes) + count)))
    spatial = [n * b for n, b in zip(counts, blocks, strict=True)]
    if not crops.any():
        return call.make("reshape", joined, shape=(batch, *spatial, *rest))
    y = call.part("whole", "reshape", joined, shape=(batch, *spatial, *rest))
    ends = tuple(n - int(after) for n, (_, after) in zip(spatial, crops, strict=True))
    return call.make("slice", y, starts=tuple(int(b) for b, _ in crops), ends=ends, axes=tuple(range(1, count + 1)))


# -- joining and cutting -----------------------------------------------------------------------------------------------


@tf_op("ConcatV2")
def concat(call: Call) -> Any:
    (axis,) = call.ints(call.count - 1)
    tensors = range(call.count - 1)
    rank = call.rank(0)
    axis = call.axis(axis, rank)
    if any(call.is_first(i) for i in tensors):
        return First(call.make("concat", *[call.first(i) for i in tensors], axis=_moved(axis, rank)))
    return call.make("concat", *[call.input(i) for i in tensors], axis=axis)


def _moved(axis: int, rank: int) -> int:
    """Where an axis stands once channels come first."""
    return to_first(rank).index(axis)


@tf_op("Pack")
def pack(call: Call) -> Any:
    return call.make("stack", *call.all(), axis=call.attr("axis"))


@tf_op("Unpack")
def unpack(call: Call) -> Any:
    axis, count = call.attr("axis"), call.attr("num")
    parts = call.part("parts", "split", call.input(0), axis=axis, split=(1,) * count)
    names = [call.name] + [call.converter.unique(f"{call.name}:{i}") for i in range(1, count)]
    return tuple(_squeezed(part, axis, name) for part, name in zip(parts, names, strict=True))


def _squeezed(node: Node, axis: int, name: str) -> Node:
    return apply("squeeze", (node,), {"axes": (axis,)}, name=name)


@tf_op("Split", "SplitV")
def split(call: Call) -> Any:
    plain = call.op_type == "Split"
    tensor = 1 if plain else 0
    (axis,) = call.ints(0 if plain else 2)
    rank, count = call.rank(tensor), call.attr("num_split")
    axis = call.axis(axis, rank)
    size = (call.sizes(tensor) or ())[axis]
    attrs: dict[str, Any]
    if plain:
        if size is not None and size % count:
            raise Refused(f"{size} elements cannot be cut into {count} equal parts")
        attrs = {"num_outputs": count}
    else:
        sizes = call.ints(1)
        if -1 in sizes:
            if size is None:
                raise Refused("one part has what is left of an unknown size")
            sizes = tuple(size - sum(s for s in sizes if s >= 0) if s < 0 else s for s in sizes)
        attrs = {"split": sizes}
    if call.is_first(tensor):
        made = call.make("split", call.first(tensor), axis=_moved(axis, rank), **attrs)
        return tuple(First(part) for part in made)
    return call.make("split", call.input(tensor), axis=axis, **attrs)


# -- slices ------------------------------------------------------------------------------------------------------------


@tf_op("Slice")
def slice_(call: Call) -> Any:
    starts, sizes = call.ints(1), call.ints(2)
    axes = tuple(range(len(starts)))
    far = np.iinfo(np.int32).max
    ends = tuple(far if size < 0 else start + size for start, size in zip(starts, sizes, strict=True))
    return call.make("slice", call.input(0), starts=starts, ends=ends, axes=axes)


@tf_op("StridedSlice")
def strided_slice(call: Call) -> Any:
    masks = {n: call.attr(f"{n}_mask") for n in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    begin, end, steps = call.opened(1), call.opened(2), call.ints(3)
    rank = call.rank(0)
    if not isinstance(begin, tuple) or not isinstance(end, tuple):
        raise Refused("where it begins and ends must be constants")
    count = len(steps)

    def bit(mask: str, i: int) -> bool:
        return bool(masks[mask] >> i & 1)

    named = sum(1 for i in range(count) if not bit("new_axis", i) and not bit("ellipsis", i))
    starts, ends, axes, strides = [], [], [], []
    shrunk: list[int] = []
    #: for the result before shrinking: False where an axis is new
    layout: list[bool] = []
    axis = 0
    for i in range(count):
        if bit("ellipsis", i):
            layout += [True] * (rank - named)
            axis += rank - named
            continue
        if bit("new_axis", i):
            layout.append(False)
            continue
        step, far = steps[i], np.iinfo(np.int32).max
        layout.append(True)
        if bit("shrink_axis", i):
            if step != 1:
                raise Refused("one element is taken, with a step other than 1")
            shrunk.append(axis)
            starts.append(begin[i])
            ends.append(begin[i] + 1 if begin[i] != -1 else far)
        else:
            starts.append((0 if step > 0 else far) if bit("begin", i) else begin[i])
            ends.append((far if step > 0 else -far) if bit("end", i) else end[i])
        axes.append(axis)
        strides.append(step)
        axis += 1
    if axis > rank:
        raise Refused(f"{axis} axes are cut of {rank}")
    layout += [True] * (rank - axis)
    return _cut(call, (starts, ends, axes, strides), shrunk, layout)


def _cut(call: Call, where: tuple[list[int], ...], shrunk: list[int], layout: list[bool]) -> Any:
    """The slice, without the axes of which one element was taken, and with the new ones."""
    x = call.input(0)
    far = np.iinfo(np.int32).max
    kept = [row for row in zip(*where, strict=True) if (row[0], row[1], row[3]) != (0, far, 1)]
    if kept:
        starts, ends, axes, steps = (tuple(c) for c in zip(*kept, strict=True))
        final = not shrunk and all(layout)
        attrs = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
        x = call.make("slice", x, **attrs) if final else call.part("slice", "slice", x, **attrs)
        if final:
            return x
    # Positions of new axes, once the shrunk ones are gone.
    news, position, own = [], 0, 0
    for old in layout:
        if not old:
            news.append(position)
            position += 1
        else:
            position += own not in shrunk
            own += 1
    if shrunk:
        x = call.part("one", "squeeze", x, axes=tuple(shrunk)) if news else call.make("squeeze", x, axes=tuple(shrunk))
    if news:
        return call.make("unsqueeze", x, axes=tuple(news))
    return x if shrunk else call.make("identity", x)


# -- selection ---------------------------------------------------------------------------------------------------------


@tf_op("GatherV2")
def gather(call: Call) -> Any:
    call.only("batch_dims", 0)
    (axis,) = call.ints(2)
    axis = call.axis(axis, call.rank(0))
    return call.make("gather", call.input(0), call.input(1), axis=axis)


@tf_op("OneHot")
def one_hot(call: Call) -> Any:
    indices, on, off = call.input(0), call.input(2), call.input(3)
    (depth,), rank = call.ints(1), call.rank(0)
    axis = call.axis(call.attr("axis"), rank + 1)
    if not 0 <= depth <= 1 << 24:
        raise Refused(f"a depth of {depth} is not supported")
    dtype = numpy_dtype(call.op.inputs[0].dtype)
    places = call.data(np.arange(depth, dtype=dtype).reshape([-1] + [1] * (rank - axis)), "places")
    hit = call.part("hit", "equal", call.part("column", "unsqueeze", indices, axes=(axis,)), places)
    return call.make("where", hit, on, off)


@tf_op("GatherNd")
def gather_nd(call: Call) -> Any:
    _lenient(call)
    return call.make("gather_nd", call.input(0), _places(call, 1))


def _lenient(call: Call) -> None:
    """Positions out of range are an error for TensorFlow too, unless it is told otherwise."""
    if any(a.name == "bad_indices_policy" for a in call.op.op_def.attr) and call.attr("bad_indices_policy"):
        raise Refused("a policy for positions out of range is not supported")


def _places(call: Call, index: int) -> Node:
    places = call.input(index)
    return places if call.dtype(index) == np.int64 else call.part("places", "cast", places, to="int64")


@tf_op("TensorScatterUpdate", "TensorScatterAdd")
def tensor_scatter(call: Call) -> Any:
    _lenient(call)
    reduction = "add" if call.op_type.endswith("Add") else "none"
    return call.make("scatter_nd", call.input(0), _places(call, 1), call.input(2), reduction=reduction)


@tf_op("TopKV2")
def top_k(call: Call) -> Any:
    call.attr("sorted")  # where any order is right, this one is
    (k,) = Known().sizes(call.input(1)) or (None,)
    if k is None:
        raise Refused("how many elements there are to be must be known")
    values, places = call.make("topk", call.input(0), k=k)
    to = numpy_dtype(call.op.outputs[1].dtype)
    return values, places if to == np.int64 else call.part("indices", "cast", places, to=to)


@tf_op("Where")
def where(call: Call) -> Any:
    return call.make("transpose", call.part("by_axis", "nonzero", call.input(0)), perm=(1, 0))


@tf_op("ReverseV2")
def reverse(call: Call) -> Any:
    rank = call.rank(0)
    axes = tuple(call.axis(a, rank) for a in call.ints(1))
    if not axes:
        return call.value(0)
    far = (-np.iinfo(np.int32).max,) * len(axes)
    return call.make("slice", call.input(0), starts=(-1,) * len(axes), ends=far, axes=axes, steps=(-1,) * len(axes))


@tf_op("MatrixBandPart")
def band(call: Call) -> Any:
    """What lies at most so far below and above the diagonal; a negative number keeps it all."""
    (below,), (above,) = call.ints(1), call.ints(2)
    x = call.input(0)
    if below >= 0:
        x = (
            call.part("upper", "trilu", x, upper=True, k=-below)
            if above >= 0
            else call.make("trilu", x, upper=True, k=-below)
        )
    if above >= 0:
        return call.make("trilu", x, upper=False, k=above)
    return x if below >= 0 else call.value(0)


@tf_op("DepthToSpace", "SpaceToDepth")
def depth_to_space(call: Call) -> Any:
    x, wrap = image(call, 0)
    op = "depth_to_space" if call.op_type == "DepthToSpace" else "space_to_depth"
    return wrap(call.make(op, x, blocksize=call.attr("block_size")))
