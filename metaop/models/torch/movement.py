"""Shapes, selection and constants. Views are tensors like any others here."""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op

# -- reshape and its kin -----------------------------------------------------------------------------------------------


@aten_op(
    *("view", "reshape", "_unsafe_view", "flatten.using_ints", "unflatten.int", "view_copy"),
    told=("size", "sizes", "shape", "start_dim", "end_dim", "dim"),
)
def reshape(call: Call, self: Node) -> Any:
    """Where PyTorch knows the result's shape, it does not matter how the operator says it."""
    return call.make("reshape", self, shape=inferable(call, call.shape))


def inferable(call: Call, sizes: Any) -> Any:
    """Sizes for ``reshape``, which infers one that is open by itself."""
    unknown = [i for i, s in enumerate(sizes) if not isinstance(s, int)]
    if len(unknown) == 1 and 0 not in [s for s in sizes if isinstance(s, int)]:
        return tuple(-1 if i in unknown else s for i, s in enumerate(sizes))
    return call.shape_attribute(sizes)


@aten_op("permute", "permute_copy")
def permute(call: Call, self: Node, dims: Any) -> Any:
    return call.make("transpose", self, perm=tuple(call.axis(d, len(dims)) for d in dims))


@aten_op("transpose.int", "transpose_copy.int", "swapaxes", "swapdims")
def transpose(call: Call, self: Node, dim0: int, dim1: int) -> Any:
    rank = call.rank(self)
    if rank == 0:
        return self
    perm = list(range(rank))
    first, second = call.axis(dim0, rank), call.axis(dim1, rank)
    perm[first], perm[second] = second, first
    return call.make("transpose", self, perm=tuple(perm))


@aten_op("t", "t_copy", "numpy_T")
def t(call: Call, self: Node) -> Any:
    return call.make("transpose", self, perm=tuple(range(call.rank(self)))[::-1])


@aten_op("unsqueeze", "unsqueeze_copy")
def unsqueeze(call: Call, self: Node, dim: int) -> Any:
    return call.make("unsqueeze", self, axes=(call.axis(dim, call.rank(self) + 1),))


@aten_op("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dims")
def squeeze(call: Call, self: Node, dim: Any = None) -> Any:
    """PyTorch passes over axes that are not of size 1."""
    rank, sizes = call.rank(self), call.sizes(self)
    asked = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(sorted({call.axis(d, rank) for d in asked})) if rank else ()
    gone = tuple(a for a in axes if isinstance(sizes[a], int) and sizes[a] == 1)
    return call.make("squeeze", self, axes=gone) if gone else self


@aten_op("expand", "expand_copy", told=("size", "implicit"))
def expand(call: Call, self: Node) -> Any:
    return broadcast(call, self, call.shape)


@aten_op("broadcast_tensors")
def broadcast_tensors(call: Call, tensors: tuple[Node, ...]) -> Any:
    return tuple(broadcast(call, x, made.shape) for x, made in zip(tensors, call.result, strict=True))


def broadcast(call: Call, x: Node, shape: Any, part: str | None = None, sizes: Any = None) -> Node:
    """``x`` in a larger shape; ``sizes`` are its own, where it is no argument of the operator."""
    sizes, wanted = call.sizes(x) if sizes is None else sizes, list(shape)
    first = len(wanted) - len(sizes)
    if not first and all(same_size(a, b) for a, b in zip(sizes, wanted, strict=True)):
        return x
    for i, size in enumerate(sizes):
        # Its own size stays, whatever it will be: 1 asks for just that.
        if not isinstance(size, int):
            wanted[first + i] = 1
    target = call.shape_attribute(wanted)
    return call.make("expand", x, shape=target) if part is None else call.part(part, "expand", x, shape=target)


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are known to be one, without making PyTorch assume it."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(a.node.expr == b.node.expr)


@aten_op("repeat")
def repeat(call: Call, self: Node, repeats: Any) -> Any:
    sizes = call.sizes(self)
    first = len(repeats) - len(sizes)
    own = (1,) * first + sizes
    # Each axis becomes a pair of axes: the copies, then the tensor's own.
    apart = call.part("apart", "reshape", self, shape=inferable(call, [s for n in own for s in (1, n)]))
    copies = [s for r, n in zip(repeats, own, strict=True) for s in (r, n if isinstance(n, int) else 1)]
    apart = call.part("copies", "expand", apart, shape=call.shape_attribute(copies))
    return call.make("reshape", apart, shape=inferable(call, call.shape))


# -- joining and splitting ---------------------------------------------------------------------------------------------


@aten_op("cat", "concat", "concatenate")
def cat(call: Call, tensors: tuple[Node, ...], dim: int) -> Any:
    # Vectors of size 0 are passed over, whatever the rank of the others: a habit of old.
    rank = max(call.rank(t) for t in tensors)
    parts = [call.cast(t, call.dtype) for t in tensors if call.rank(t) == rank]
    return call.make("concat", *parts, axis=dim) if len(parts) > 1 else parts[0]


@aten_op("stack")
def stack(call: Call, tensors: tuple[Node, ...], dim: int) -> Any:
    return call.make("stack", *[call.cast(t, call.dtype) for t in tensors], axis=dim)


@aten_op(
    *("split.Tensor", "split_with_sizes", "chunk", "split.sizes", "split_copy.Tensor", "split_with_sizes_copy"),
    told=("split_size", "split_sizes", "chunks"),
)
def split(call: Call, self: Node, dim: int) -> Any:
    """The sizes of the parts are those of the results."""
    axis = call.axis(dim, call.rank(self))
    sizes = [part.shape[axis] for part in call.result]
    if not all(isinstance(s, int) for s in sizes):
        raise Refused("an axis that depends on the batch cannot be split")
    return _several(call.make("split", self, axis=axis, split=tuple(sizes)))


@aten_op("unbind.int")
def unbind(call: Call, self: Node, dim: int) -> Any:
    parts = call.part("parts", "split", self, axis=dim, split=(1,) * len(call.result))
    return tuple(call.make("squeeze", part, axes=(dim,)) for part in _several(parts))


def _several(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


# -- selecting ---------------------------------------------------------------------------------------------------------


@aten_op("slice.Tensor", "slice_copy.Tensor")
def slice_(call: Call, self: Node, dim: int, start: Any, end: Any, step: Any) -> Any:
    start = 0 if start is None else start
    whole = end is None or (isinstance(end, int) and end >= 2**31)
    axis = call.axis(dim, call.rank(self))
    if (
        isinstance(start, int)
        and start == 0
        and step == 1
        and (whole or same_size(call.shape[axis], call.sizes(self)[axis]))
    ):
        return self
    attrs: dict[str, Any] = {"axes": (axis,), "steps": (step,)}
    attrs["starts"] = call.shape_attribute([start])
    attrs["ends"] = (2**31,) if whole else call.shape_attribute([end])
    return call.make("slice", self, **attrs)


@aten_op("narrow")
def narrow(call: Call, self: Node, dim: int, start: int, length: int) -> Any:
    return call.make("slice", self, starts=(start,), ends=(start + length,), axes=(dim,))


@aten_op("select.int", "select_copy.int")
def select(call: Call, self: Node, dim: int, index: int) -> Any:
    axis = call.axis(dim, call.rank(self))
    end = index + 1 if index != -1 else 2**31
    one = call.part("one", "slice", self, starts=(index,), ends=(end,), axes=(axis,))
    return call.make("squeeze", one, axes=(axis,))


@aten_op("flip")
def flip(call: Call, self: Node, dims: Any) -> Any:
    count = len(dims)
    return call.make(
        "slice", self, starts=(-1,) * count, ends=(-(2**31),) * count, axes=tuple(dims), steps=(-1,) * count
    )


@aten_op("roll")
def roll(call: Call, self: Node, shifts: Any, dims: Any) -> Any:
    if len(shifts) != len(dims):
        raise Refused("it must be told along which axes")
    x = self
    for i, (shift, dim) in enumerate(zip(shifts, dims, strict=True)):
        size = call.sizes(self)[dim]
        if not isinstance(size, int):
            raise Refused("an axis that depends on the batch cannot be rolled")
        at = -shift % max(size, 1)
        if at:
            head, tail = call.part(f"parts_{i}", "split", x, axis=dim, split=(at, size - at))
            x = call.part(f"rolled_{i}", "concat", tail, head, axis=dim)
    return x


@aten_op("triu")
def triu(call: Call, self: Node, diagonal: int) -> Any:
    return call.make("trilu", self, upper=True, k=diagonal)


@aten_op("tril")
def tril(call: Call, self: Node, diagonal: int) -> Any:
    return call.make("trilu", self, upper=False, k=diagonal)


# -- padding ----------------------------------------------------------------------------------------------


def _padding(call: Call, x: Node, pad: Any, mode: str, value: float = 0.0) -> Any:
    """PyTorch has pairs from the last axis backwards; a negative one cuts."""
    rank = call.rank(x)
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if any(p < 0 for p in pad):
        axes = tuple(range(rank))
        starts = tuple(max(-b, 0) for b in begins)
        stops = tuple(e if e < 0 else 2**31 for e in ends)
        x = call.part("cut", "slice", x, starts=starts, ends=stops, axes=axes)
        begins, ends = [max(b, 0) for b in begins], [max(e, 0) for e in ends]
    return call.make("pad", x, pads=(*begins, *ends), mode=mode, value=float(value))


@aten_op("constant_pad_nd")
def constant_pad(call: Call, self: Node, pad: Any, value: Any) -> Any:
    return _padding(call, self, pad, "constant", value)


@aten_op("pad")
def pad_(call: Call, self: Node, pad: Any, mode: str, value: Any) -> Any:
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    if mode not in modes:
        raise Refused(f"mode={mode!r} is not supported, only {', '.join(modes)}")
    return _padding(call, self, pad, modes[mode], value or 0.0)


@aten_op("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(call: Call, self: Node, padding: Any) -> Any:
    return _padding(call, self, padding, "reflect")


@aten_op("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(call: Call, self: Node, padding: Any) -> Any:
    return _padding(call, self, padding, "edge")


@aten_op("pixel_shuffle")
def pixel_shuffle(call: Call, self: Node, upscale_factor: int) -> Any:
    batch, channels, height, width = call.sizes(self)
    f = upscale_factor
    y = call.part("apart", "reshape", self, shape=inferable(call, [batch, channels // (f * f), f, f, height, width]))
    y = call.part("turned", "transpose", y, perm=(0, 1, 4, 2, 5, 3))
    return call.make("reshape", y, shape=inferable(call, call.shape))


# -- constants; those that depend on nothing at all are computed by PyTorch while the program is read ------------------


def _filled(call: Call, value: Any) -> Any:
    if isinstance(value, bool | int | float) and all(isinstance(s, int) for s in call.shape):
        return call.value(np.full(call.shape, value, call.dtype))
    number = call.cast(value, call.dtype, "value")
    return call.make("expand", number, shape=call.shape_attribute(call.shape))


@aten_op("zeros", "zeros_like", "new_zeros", told=("size", "self"))
@aten_op("empty.memory_format", "empty_like", "new_empty", told=("size", "self"))
def zeros(call: Call) -> Any:
    """Also where the values are yet to come."""
    return _filled(call, 0)


@aten_op("ones", "ones_like", "new_ones", told=("size", "self"))
def ones(call: Call) -> Any:
    return _filled(call, 1)


@aten_op("full", "full_like", "new_full", told=("size", "self"))
def full(call: Call, fill_value: Any) -> Any:
    return _filled(call, fill_value)


@aten_op("scalar_tensor")
def scalar_tensor(call: Call, s: Any) -> Any:
    return call.cast(s, call.dtype, "value")


@aten_op("arange", "arange.start", "arange.start_step", told=("end",))
def arange(call: Call, start: Any = 0, step: Any = 1) -> Any:
    """Ones summed up: with a length that is not known no table can be written down."""
    if not isinstance(start, int | float) or not isinstance(step, int | float):
        raise Refused("only where the first number and the step are known")
    one = call.value(np.ones((), call.dtype), "one")
    row = call.part("ones", "expand", one, shape=call.shape_attribute(call.shape))
    if (start, step) == (0, 1):
        return call.make("cumsum", row, axis=0, exclusive=True)
    row = call.part("count", "cumsum", row, axis=0, exclusive=True)
    row = call.part("steps", "multiply", row, call.value(np.asarray(step, call.dtype), "step"))
    return call.make("add", row, call.value(np.asarray(start, call.dtype), "start"))
