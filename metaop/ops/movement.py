"""Movement: operators that arrange, repeat or select elements and compute nothing (but ``scatter_add``, which adds).

References may return views of their inputs: nothing in metaop writes into a tensor it did not make.
"""

import builtins
import math
from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain
from metaop.ops.rules import broadcast_shapes, normalise_axes, normalise_axis, unify_size
from metaop.ops.spec import meta_op
from metaop.types import ANY, INDEX, NUMERIC, Ints, is_floating

# Any integer may be an index, as far as the operator knows; those drawn for samples fit every axis of size 2 or more.
indices_domain = Domain(spread=(-2, 1), text="indices")


def total(sizes):
    """How many elements; ``None`` where that depends on an unknown size."""
    if sizes is None or (None in sizes and 0 not in sizes):
        return None
    return 0 if 0 in sizes else math.prod(sizes)


# -- reshape and its kin -----------------------------------------------------------------------------------------------


def reshaped(x, *, shape):
    if any(s < -1 for s in shape) or shape.count(-1) > 1:
        raise AttributeValueError(f"shape {shape}: sizes are 0 or more, and at most one is -1 (to be inferred)")
    given = math.prod(s for s in shape if s != -1)
    if -1 in shape and given == 0:
        raise AttributeValueError(f"shape {shape}: -1 cannot be inferred beside a size of 0")
    count = total(x.shape)
    if count is None:
        known = 0 if x.shape is None else math.prod(s for s in x.shape if s is not None)
        if known and -1 not in shape and given % known:
            raise ShapeError(f"'x' of type {x} cannot take the shape {shape}: {given} is not a multiple of {known}")
        return x.with_shape(tuple(None if s == -1 else s for s in shape))
    if count % given if -1 in shape else count != given:
        raise ShapeError(f"'x' of type {x} has {count} elements and cannot take the shape {shape}")
    return x.with_shape(tuple(count // given if s == -1 else s for s in shape))


@meta_op(rule=reshaped, dtypes=ANY)
def reshape(x, *, shape: Ints):
    """The same elements, in the same (row-major) order, in another ``shape``; one size may be -1, to be inferred."""
    return np.reshape(x, shape)


@reshape.vjp
def reshape_vjp(m, g, y, x, *, shape):
    return (m.reshape(g, shape=m.shape(x)),)


@reshape.samples
def reshape_samples(draw):
    yield draw(x=(2, 3), shape=(3, 2))
    yield draw(x=(2, 3, 4), shape=(4, -1))
    yield draw(x=(), shape=(1, 1))
    yield draw(x=(1, 1), shape=())
    yield draw(x=(0, 3), shape=(2, 0))
    yield draw(x=(0, 3), shape=(-1, 5))
    yield draw(x=[np.nan, np.inf, -np.inf, -0.0], shape=(2, 2), special=True)


@reshape.rejects
def reshape_rejects(reject):
    yield reject(x="float32[2, 3]", shape=(4, 2), message="6 elements")
    yield reject(x="float32[2, 3]", shape=(4, -1), message="6 elements")
    yield reject(x="float32[?, 3]", shape=(4, 2), message="not a multiple of 3")
    yield reject(x="float32[2, 3]", shape=(-1, -1), message="at most one is -1")
    yield reject(x="float32[2, 3]", shape=(-2, 3), message="shape (-2, 3)")
    yield reject(x="float32[0, 3]", shape=(0, -1), message="cannot be inferred")


def flattened(x, *, axis):
    if x.shape is None:
        return x.with_shape((None, None))
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise AttributeValueError(f"axis {axis} is out of range for rank {rank}; accepted: {-rank} to {rank}")
    axis = axis + rank if axis < 0 else axis
    return x.with_shape((total(x.shape[:axis]), total(x.shape[axis:])))


@meta_op(rule=flattened, dtypes=ANY)
def flatten(x, *, axis: int = 1):
    """A matrix: the axes before ``axis`` become its rows, the others its columns."""
    axis = axis + x.ndim if axis < 0 else axis
    return np.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@flatten.vjp
def flatten_vjp(m, g, y, x, *, axis):
    return (m.reshape(g, shape=m.shape(x)),)


@flatten.samples
def flatten_samples(draw):
    yield draw(x=(2, 3, 4))
    yield draw(x=(2, 3, 4), axis=0)
    yield draw(x=(2, 3, 4), axis=3)
    yield draw(x=(2, 3, 4), axis=-1)
    yield draw(x=(3,))
    yield draw(x=(), axis=0)
    yield draw(x=(0, 3, 2))
    yield draw(x=(2, 0), axis=1)


@flatten.rejects
def flatten_rejects(reject):
    yield reject(x="float32[2, 3]", axis=3, message="axis 3 is out of range")
    yield reject(x="float32[2, ?]", axis=-3, message="axis -3 is out of range")
    yield reject(x="float32[]", message="axis 1 is out of range")


def squeezed(x, *, axes):
    if x.shape is None or (axes is None and None in x.shape):
        return x.with_shape(None)
    if axes is None:
        return x.with_shape(tuple(s for s in x.shape if s != 1))
    gone = normalise_axes(axes, len(x.shape))
    for axis in gone:
        if x.shape[axis] not in (1, None):
            raise ShapeError(f"axes {axes}: axis {axis} of 'x' of type {x} has not size 1 and cannot be removed")
    return x.with_shape(tuple(s for i, s in enumerate(x.shape) if i not in gone))


@meta_op(rule=squeezed, dtypes=ANY)
def squeeze(x, *, axes: Ints | None = None):
    """Without the ``axes``, which must have size 1; ``None`` removes every axis of size 1, ``()`` none."""
    return np.squeeze(x, axis=axes)


@squeeze.vjp
def squeeze_vjp(m, g, y, x, *, axes):
    return (m.reshape(g, shape=m.shape(x)),)


@squeeze.samples
def squeeze_samples(draw):
    yield draw(x=(1, 3, 1))
    yield draw(x=(1, 3, 1), axes=(2,))
    yield draw(x=(1, 3, 1), axes=(-1, 0))
    yield draw(x=(1, 3, 1), axes=())
    yield draw(x=(1, 1))
    yield draw(x=())
    yield draw(x=(0, 1), axes=(1,))


@squeeze.rejects
def squeeze_rejects(reject):
    yield reject(x="float32[1, 3]", axes=(1,), message="has not size 1")
    yield reject(x="float32[1, 3]", axes=(2,), message="axes 2 is out of range")
    yield reject(x="float32[1, 3]", axes=(0, -2), message="names an axis twice")


def unsqueezed(x, *, axes):
    if x.shape is None:
        if len(set(axes)) < len(axes):
            raise AttributeValueError(f"axes {axes} names an axis twice")
        return x
    rank = len(x.shape) + len(axes)
    new = normalise_axes(axes, rank)
    rest = iter(x.shape)
    return x.with_shape(tuple(1 if i in new else next(rest) for i in range(rank)))


@meta_op(rule=unsqueezed, dtypes=ANY)
def unsqueeze(x, *, axes: Ints):
    """With new axes of size 1; ``axes`` are their places in the result."""
    return np.expand_dims(x, axes)


@unsqueeze.vjp
def unsqueeze_vjp(m, g, y, x, *, axes):
    return (m.reshape(g, shape=m.shape(x)),)


@unsqueeze.samples
def unsqueeze_samples(draw):
    yield draw(x=(2, 3), axes=(1,))
    yield draw(x=(2, 3), axes=(-1, 0))
    yield draw(x=(2, 3), axes=(3, 0, 2))
    yield draw(x=(), axes=(0,))
    yield draw(x=(0, 3), axes=(0,))
    yield draw(x=(2, 3), axes=())


@unsqueeze.rejects
def unsqueeze_rejects(reject):
    yield reject(x="float32[2, 3]", axes=(3,), message="axes 3 is out of range")
    yield reject(x="float32[2, 3]", axes=(0, -4), message="names an axis twice")
    yield reject(x="float32[...]", axes=(0, 0), message="names an axis twice")
    yield reject(x="float32[2, 3]", message="'axes' is required")


def transposed(x, *, perm):
    if perm is None:
        return x.with_shape(None if x.shape is None else x.shape[::-1])
    if sorted(perm) != list(range(len(perm) if x.shape is None else len(x.shape))):
        wanted = "of 0, 1, ..." if x.shape is None else f"of the {len(x.shape)} axes of 'x' of type {x}"
        raise AttributeValueError(f"perm {perm} must be a permutation {wanted}")
    return x.with_shape((None,) * len(perm) if x.shape is None else tuple(x.shape[i] for i in perm))


@meta_op(rule=transposed, dtypes=ANY)
def transpose(x, *, perm: Ints | None = None):
    """The axes in another order: axis i of the result is axis ``perm[i]`` of ``x``; ``None`` reverses them."""
    return np.transpose(x, perm)


@transpose.vjp
def transpose_vjp(m, g, y, x, *, perm):
    return (m.transpose(g, perm=None if perm is None else tuple(int(i) for i in np.argsort(perm))),)


@transpose.samples
def transpose_samples(draw):
    yield draw(x=(2, 3))
    yield draw(x=(2, 3, 4))
    yield draw(x=(2, 3, 4), perm=(1, 2, 0))
    yield draw(x=(2, 3, 1, 4), perm=(0, 3, 1, 2))
    yield draw(x=())
    yield draw(x=(3,), perm=(0,))
    yield draw(x=(0, 3))


@transpose.rejects
def transpose_rejects(reject):
    yield reject(x="float32[2, 3]", perm=(0,), message="perm (0,) must be a permutation")
    yield reject(x="float32[2, 3]", perm=(0, 0), message="perm (0, 0) must be a permutation")
    yield reject(x="float32[...]", perm=(1, 2), message="perm (1, 2) must be a permutation")


def expanded(x, *, shape):
    if any(s < 0 for s in shape):
        raise AttributeValueError(f"shape {shape}: sizes are 0 or more")
    return x.with_shape(broadcast_shapes([x.shape, shape]))


@meta_op(rule=expanded, dtypes=ANY)
def expand(x, *, shape: Ints):
    """Broadcast with ``shape``, in both directions: ``x`` keeps its size where ``shape`` says 1 or is too short."""
    # A copy, for a view would be read-only.
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, shape)).copy()


@expand.vjp
def expand_vjp(m, g, y, x, *, shape):
    return (m.sum_to(g, x),)


@expand.samples
def expand_samples(draw):
    yield draw(x=(3, 1), shape=(2, 3, 4))
    yield draw(x=(3, 4), shape=(1,))
    yield draw(x=(2, 1, 4), shape=(3, 1))
    yield draw(x=(), shape=(2, 3))
    yield draw(x=(2, 3), shape=())
    yield draw(x=(), shape=())
    yield draw(x=(1, 3), shape=(0, 3))
    yield draw(x=(0, 1), shape=(1, 2))


@expand.rejects
def expand_rejects(reject):
    yield reject(x="float32[2, 3]", shape=(4,), message="do not broadcast")
    yield reject(x="float32[2, 3]", shape=(-1, 3), message="shape (-1, 3)")


# -- joining and splitting ---------------------------------------------------------------------------------------------


def common_shape(what, types, but=None):
    """The shape that all types share, apart from the axis ``but``; ``None`` where no rank is known."""
    known = [t for t in types if t.shape is not None]
    if not known:
        return None
    shape = list(known[0].shape)
    for t in known[1:]:
        if len(t.shape) != len(shape):
            raise ShapeError(f"{what}: the inputs must have one rank; got {known[0]} and {t}")
        for axis, size in enumerate(t.shape):
            if axis != but:
                shape[axis] = unify_size(shape[axis], size, f"{what}, axis {axis} of the inputs")
    return shape


def concatenated(*inputs, axis):
    known = [t for t in inputs if t.shape is not None]
    if not known:
        return inputs[0]
    axis = normalise_axis(axis, len(known[0].shape))
    shape = common_shape("concat", inputs, but=axis)
    sizes = [None if t.shape is None else t.shape[axis] for t in inputs]
    shape[axis] = None if None in sizes else sum(sizes)
    return inputs[0].with_shape(tuple(shape))


@meta_op(rule=concatenated, dtypes=ANY)
def concat(*inputs, axis: int = 0):
    """The inputs one after the other along ``axis``; all other sizes agree."""
    return np.concatenate(inputs, axis=axis)


@concat.vjp
def concat_vjp(m, g, y, *inputs, axis):
    return m.split(g, axis=axis, split=tuple(m.shape(x)[axis] for x in inputs))


@concat.samples
def concat_samples(draw):
    yield draw((2, 3), (4, 3))
    yield draw((2, 3), (2, 1), (2, 2), axis=1)
    yield draw((2, 3, 1), (2, 3, 2), axis=-1)
    yield draw((3,))
    yield draw((0, 3), (2, 3))
    yield draw((0, 3), (0, 2), axis=1)


@concat.rejects
def concat_rejects(reject):
    yield reject("float32[2, 3]", "float32[2, 4]", message="axis 1 of the inputs: sizes 3 and 4 differ")
    yield reject("float32[2, 3]", "float32[2]", message="one rank")
    yield reject("float32[2, 3]", "float32[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject("float32[]", "float32[]", message="axis 0 is out of range")
    yield reject("float32[2]", "float64[2]", message="one dtype")


def stacked(*inputs, axis):
    shape = common_shape("stack", inputs)
    if shape is None:
        return inputs[0]
    shape.insert(normalise_axis(axis, len(shape) + 1), len(inputs))
    return inputs[0].with_shape(tuple(shape))


@meta_op(rule=stacked, dtypes=ANY)
def stack(*inputs, axis: int = 0):
    """The inputs, all of one shape, one after the other along a new axis whose place in the result is ``axis``."""
    return np.stack(inputs, axis=axis)


@stack.vjp
def stack_vjp(m, g, y, *inputs, axis):
    parts = m.split(g, axis=axis, split=(1,) * len(inputs))
    return tuple(m.squeeze(part, axes=(axis,)) for part in parts)


@stack.samples
def stack_samples(draw):
    yield draw((2, 3), (2, 3))
    yield draw((2, 3), (2, 3), (2, 3), axis=1)
    yield draw((2, 3), (2, 3), axis=-1)
    yield draw((), ())
    yield draw((3,), axis=1)
    yield draw((0, 3), (0, 3), axis=2)


@stack.rejects
def stack_rejects(reject):
    yield reject("float32[2, 3]", "float32[2, 4]", message="axis 1 of the inputs: sizes 3 and 4 differ")
    yield reject("float32[2, 3]", "float32[3]", message="one rank")
    yield reject("float32[2, 3]", "float32[2, 3]", axis=3, message="axis 3 is out of range")


def split_sizes(size, split, num_outputs):
    """The sizes of the parts; ``None`` for each that depends on an unknown ``size``."""
    if (split is None) == (num_outputs is None):
        raise AttributeValueError("split: exactly one of the attributes 'split' and 'num_outputs' must be given")
    if split is None:
        if num_outputs < 1:
            raise AttributeValueError(f"num_outputs {num_outputs} must be at least 1")
        if size is None:
            return (None,) * num_outputs
        each = -(-size // num_outputs)
        last = size - each * (num_outputs - 1)
        if last < 0:
            raise ShapeError(
                f"num_outputs {num_outputs}: size {size} in parts of {each} is used up before the last part; "
                "give the sizes as 'split'"
            )
        return (each,) * (num_outputs - 1) + (last,)
    if not split or any(s < 0 for s in split):
        raise AttributeValueError(f"split {split}: at least one size is needed, and sizes are 0 or more")
    if size is not None and sum(split) != size:
        raise ShapeError(f"split {split} adds up to {sum(split)}, but the axis has size {size}")
    return split


def parted(x, *, axis, split, num_outputs):
    if x.shape is None:
        return (x,) * len(split_sizes(None, split, num_outputs))
    axis = normalise_axis(axis, len(x.shape))
    sizes = split_sizes(x.shape[axis], split, num_outputs)
    return tuple(x.with_shape(x.shape[:axis] + (size,) + x.shape[axis + 1 :]) for size in sizes)


@meta_op(rule=parted, dtypes=ANY, outputs=None)
def split(x, *, axis: int = 0, split: Ints | None = None, num_outputs: int | None = None):
    """Parts of ``x`` along ``axis``: of the sizes ``split``, or ``num_outputs`` equal ones; the last may be smaller."""
    ends = np.cumsum(split_sizes(x.shape[axis], split, num_outputs))
    return tuple(np.split(x, ends[:-1], axis=axis))


@split.vjp
def split_vjp(m, g, y, x, *, axis, split, num_outputs):
    # A single part comes as it is, not in a tuple.
    return (m.concat(*g, axis=axis) if isinstance(g, tuple) else g,)


@split.samples
def split_samples(draw):
    yield draw(x=(6, 2), split=(1, 2, 3))
    yield draw(x=(2, 7), axis=1, num_outputs=3)
    yield draw(x=(2, 4), axis=-1, num_outputs=2)
    yield draw(x=(3, 2), num_outputs=1)
    yield draw(x=(3,), split=(2, 0, 1))
    yield draw(x=(0, 3), axis=1, split=(1, 2))
    yield draw(x=(4, 2), num_outputs=3)


@split.rejects
def split_rejects(reject):
    yield reject(x="float32[4, 2]", message="exactly one of")
    yield reject(x="float32[4, 2]", split=(2, 2), num_outputs=2, message="exactly one of")
    yield reject(x="float32[4, 2]", split=(2, 3), message="adds up to 5")
    yield reject(x="float32[4, 2]", split=(5, -1), message="sizes are 0 or more")
    yield reject(x="float32[...]", num_outputs=0, message="num_outputs 0")
    yield reject(x="float32[5]", num_outputs=4, message="used up before the last part")
    yield reject(x="float32[4, 2]", axis=2, num_outputs=2, message="axis 2 is out of range")


# -- selecting ---------------------------------------------------------------------------------------------------------


def slice_axes(starts, ends, axes, steps):
    """The attributes of ``slice`` with their defaults filled in, one ``(axis, start, end, step)`` per axis."""
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    for name, value in {"ends": ends, "axes": axes, "steps": steps}.items():
        if len(value) != len(starts):
            raise AttributeValueError(f"slice: {name} {value} and starts {starts} must have one length")
    if 0 in steps:
        raise AttributeValueError(f"steps {steps}: a step cannot be 0")
    return list(zip(axes, starts, ends, steps, strict=True))


def clamp(start, end, step, size):
    """The first index and the number of indices on an axis of ``size``, clamped as in the ONNX operator Slice."""
    start, end = (i + size if i < 0 else i for i in (start, end))
    if step > 0:
        start, end = (min(max(i, 0), size) for i in (start, end))
    else:
        start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return start, len(range(start, end, step)) if size else 0


def sliced(x, *, starts, ends, axes, steps):
    rows = slice_axes(starts, ends, axes, steps)
    if x.shape is None:
        return x
    shape = list(x.shape)
    found = normalise_axes([axis for axis, *_ in rows], len(shape))
    for axis, (_, start, end, step) in zip(found, rows, strict=True):
        shape[axis] = None if shape[axis] is None else clamp(start, end, step, shape[axis])[1]
    return x.with_shape(tuple(shape))


@meta_op(rule=sliced, dtypes=ANY)
def slice(x, *, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None):
    """The elements from ``starts`` up to and without ``ends``, by ``steps``, along ``axes`` (``None``: the first).

    Negative positions count from the end, those out of range are clamped, and negative steps go backwards; an end below
    ``-size`` then includes element 0.
    """
    where = [builtins.slice(None)] * x.ndim
    for axis, start, end, step in slice_axes(starts, ends, axes, steps):
        first, count = clamp(start, end, step, x.shape[axis])
        stop = first + count * step
        where[axis] = builtins.slice(first, stop if stop >= 0 else None, step) if count else builtins.slice(0, 0)
    # Ellipsis, because indexing a scalar with () would give a NumPy scalar.
    return x[(*where, ...)]


@slice.vjp
def slice_vjp(m, g, y, x, *, starts, ends, axes, steps):
    shape = m.shape(x)
    if 0 in m.shape(g):
        return (m.zeros_like(x),)
    for axis, start, end, step in slice_axes(starts, ends, axes, steps):
        axis = normalise_axis(axis, len(shape))
        size = shape[axis]
        first, count = clamp(start, end, step, size)
        if step < 0:
            # The same elements, counted upwards.
            g = m.slice(g, starts=(count - 1,), ends=(-count - 1,), axes=(axis,), steps=(-1,))
            first, step = first + (count - 1) * step, -step
        if step > 1:
            # Each element is followed by step - 1 zeros; those after the last one go again.
            now = m.shape(g)
            pads = [0] * (2 * len(now) + 2)
            pads[len(now) + 1 + axis + 1] = step - 1
            g = m.pad(m.unsqueeze(g, axes=(axis + 1,)), pads=tuple(pads))
            g = m.reshape(g, shape=now[:axis] + (count * step,) + now[axis + 1 :])
            count = (count - 1) * step + 1
            g = m.slice(g, starts=(0,), ends=(count,), axes=(axis,))
        pads = [0] * (2 * len(shape))
        pads[axis], pads[len(shape) + axis] = first, size - first - count
        if any(pads):
            g = m.pad(g, pads=tuple(pads))
    return (g,)


@slice.samples
def slice_samples(draw):
    far = 2**31
    yield draw(x=(4, 5), starts=(1,), ends=(3,))
    yield draw(x=(4, 5), starts=(0, -3), ends=(-1, far), axes=(0, 1))
    yield draw(x=(3, 7), starts=(1,), ends=(7,), axes=(-1,), steps=(2,))
    yield draw(x=(3, 8), starts=(1,), ends=(7,), axes=(1,), steps=(3,))
    yield draw(x=(3, 7), starts=(-1,), ends=(-far,), axes=(1,), steps=(-1,))
    yield draw(x=(6, 7), starts=(far, 5), ends=(0, -far), axes=(1, 0), steps=(-2, -3))
    yield draw(x=(4, 5), starts=(3,), ends=(1,))
    yield draw(x=(4,), starts=(-far,), ends=(-far,), steps=(-1,))
    yield draw(x=(), starts=(), ends=())
    yield draw(x=(0, 3), starts=(0, 1), ends=(2, 3))
    yield draw(x=(0,), starts=(-1,), ends=(-far,), steps=(-1,))
    yield draw(x=(1, 3), starts=(0,), ends=(1,))
    yield draw(x=[np.nan, np.inf, -0.0, 1.0], starts=(3,), ends=(0,), steps=(-1,), special=True)


@slice.rejects
def slice_rejects(reject):
    yield reject(
        x="float32[4, 5]", starts=(0, 0), ends=(1,), message="ends (1,) and starts (0, 0) must have one length"
    )
    yield reject(x="float32[4, 5]", starts=(0,), ends=(1,), axes=(0, 1), message="axes (0, 1) and starts")
    yield reject(x="float32[...]", starts=(0,), ends=(1,), steps=(0,), message="a step cannot be 0")
    yield reject(x="float32[4, 5]", starts=(0,), ends=(1,), axes=(2,), message="axes 2 is out of range")
    yield reject(x="float32[4, 5]", starts=(0, 0), ends=(1, 1), axes=(0, -2), message="names an axis twice")
    yield reject(x="float32[]", starts=(0,), ends=(1,), message="axes 0 is out of range")


def gathered(x, indices, *, axis):
    if x.shape is None:
        return x
    axis = normalise_axis(axis, len(x.shape))
    if indices.shape is None:
        return x.with_shape(None)
    if x.shape[axis] == 0 and total(indices.shape):
        raise ShapeError(f"'x' of type {x} has nothing along axis {axis} that 'indices' of type {indices} could select")
    return x.with_shape(x.shape[:axis] + indices.shape + x.shape[axis + 1 :])


@meta_op(rule=gathered, dtypes=ANY, also={"indices": INDEX}, domain={"indices": indices_domain})
def gather(x, indices, *, axis: int = 0):
    """The slices of ``x`` at ``indices`` along ``axis``, which is replaced by the axes of ``indices``.

    Negative indices count from the end.
    """
    return np.asarray(np.take(x, indices, axis=axis))


@gather.vjp
def gather_vjp(m, g, y, x, indices, *, axis):
    return m.scatter_add(indices, g, axis=axis, size=m.shape(x)[axis]), None


@gather.samples
def gather_samples(draw):
    yield draw(x=(4, 3), indices=[0, 3, 3, -1, -4])
    yield draw(x=(3, 4, 2), indices=(2, 5), axis=1)
    yield draw(x=(3, 4), indices=(), axis=-1)
    yield draw(x=(5,), indices=3)
    yield draw(x=(1, 2), indices=[[0, 0], [-1, 0]])
    yield draw(x=(4, 3), indices=(0,))
    yield draw(x=(0, 3), indices=(4,), axis=1)
    yield draw(x=[np.nan, np.inf, -0.0, 1.0], indices=[3, 0, 0, 2], special=True)


@gather.rejects
def gather_rejects(reject):
    yield reject(x="float32[4, 3]", indices="int64[2]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[4, 3]", indices="float32[2]", message="'indices' takes int32 or int64")
    yield reject(x="float32[]", indices="int64[2]", message="axis 0 is out of range")
    yield reject(x="float32[0, 3]", indices="int64[2]", message="nothing along axis 0")


def scattered(indices, updates, *, axis, size):
    if size < 0:
        raise AttributeValueError(f"size {size} must be 0 or more")
    if size == 0 and total(indices.shape):
        raise AttributeValueError(f"size 0 has no place for 'indices' of type {indices}")
    if updates.shape is None or indices.shape is None:
        return updates.with_shape(None)
    rank = len(updates.shape) - len(indices.shape) + 1
    if rank < 1:
        raise ShapeError(f"'updates' of type {updates} must have the axes of 'indices' of type {indices} among its own")
    axis = normalise_axis(axis, rank)
    after = axis + len(indices.shape)
    for i, (a, b) in enumerate(zip(updates.shape[axis:after], indices.shape, strict=True)):
        unify_size(a, b, f"axis {axis + i} of 'updates' and axis {i} of 'indices'")
    return updates.with_shape(updates.shape[:axis] + (size,) + updates.shape[after:])


@meta_op(rule=scattered, dtypes=NUMERIC, also={"indices": INDEX}, domain={"indices": indices_domain})
@np.errstate(all="ignore")
def scatter_add(indices, updates, *, axis: int = 0, size: int):
    """Zeros, of ``size`` along ``axis``, to which ``updates`` are added at ``indices``: what undoes ``gather``.

    The shape of ``updates`` is that of ``gather(result, indices, axis=axis)``; equal indices add up, negative
    ones count from the end.
    """
    rank = updates.ndim - indices.ndim + 1
    axis = axis % rank
    result = np.zeros(updates.shape[:axis] + (size,) + updates.shape[axis + indices.ndim :], updates.dtype)
    np.add.at(result, (builtins.slice(None),) * axis + (indices,), updates)
    return result


@scatter_add.vjp
def scatter_add_vjp(m, g, y, indices, updates, *, axis, size):
    return None, m.gather(g, indices, axis=axis)


@scatter_add.samples
def scatter_add_samples(draw):
    yield draw(indices=[0, 3, 3, -1, -4], updates=(5, 3), size=4)
    yield draw(indices=(2, 5), updates=(3, 2, 5, 2), axis=1, size=4)
    yield draw(indices=(), updates=(3,), axis=-1, size=2)
    yield draw(indices=3, updates=(), size=5)
    yield draw(indices=[0, -1, 0], updates=(3, 2), size=1)
    yield draw(indices=(0,), updates=(0, 3), size=4)
    yield draw(indices=(4,), updates=(0, 4), axis=1, size=3)


@scatter_add.rejects
def scatter_add_rejects(reject):
    yield reject(indices="int64[2]", updates="float32[2, 3]", axis=2, size=4, message="axis 2 is out of range")
    yield reject(
        indices="int64[2]", updates="float32[3, 3]", size=4, message="axis 0 of 'indices': sizes 3 and 2 differ"
    )
    yield reject(indices="int64[2, 2]", updates="float32[2]", size=4, message="'updates' of type float32[2] must have")
    yield reject(indices="int64[2]", updates="float32[2]", size=-1, message="size -1")
    yield reject(indices="int64[2]", updates="float32[2]", size=0, message="size 0 has no place")
    yield reject(indices="int64[2]", updates="float32[2]", message="'size' is required")


# -- padding -----------------------------------------------------------------------------------------------------------


def padded(x, *, pads, mode, value):
    if len(pads) % 2 or any(p < 0 for p in pads):
        raise AttributeValueError(f"pads {pads}: sizes of 0 or more, first before each axis, then after each axis")
    if mode == "constant" and x.dtype is not None and not is_floating(x.dtype):
        low, high = (0, 1) if x.dtype.kind == "b" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        if not (low <= value <= high and value == int(value)):
            raise AttributeValueError(f"value {value} cannot be held by 'x' of type {x}")
    if x.shape is None:
        return x.with_shape((None,) * (len(pads) // 2))
    rank = len(x.shape)
    if len(pads) != 2 * rank:
        raise AttributeValueError(f"pads {pads} must hold {2 * rank} sizes, two for each axis of 'x' of type {x}")
    shape = []
    for axis, (size, before, after) in enumerate(zip(x.shape, pads[:rank], pads[rank:], strict=True)):
        if size is not None and mode == "edge" and size == 0 and (before or after):
            raise ShapeError(f"mode 'edge': 'x' of type {x} has nothing along axis {axis} to repeat")
        if size is not None and mode == "reflect" and max(before, after) > max(size - 1, 0):
            raise ShapeError(f"mode 'reflect': pads {pads} exceed what 'x' of type {x} can reflect along axis {axis}")
        shape.append(None if size is None else size + before + after)
    return x.with_shape(tuple(shape))


@meta_op(rule=padded, dtypes=ANY)
def pad(x, *, pads: Ints, mode: Literal["constant", "reflect", "edge"] = "constant", value: float = 0.0):
    """More elements before and after each axis; ``pads`` has the numbers before all axes, then those after all axes.

    The new elements are ``value``, or mirror the tensor without repeating its edge, or repeat its edge.
    """
    if x.ndim == 0:
        return x
    widths = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    if mode == "constant":
        return np.pad(x, widths, constant_values=x.dtype.type(value))
    return np.pad(x, widths, mode=mode)


@pad.vjp
def pad_vjp(m, g, y, x, *, pads, mode, value):
    shape = m.shape(x)
    rank = len(shape)
    if mode == "constant":
        if not any(pads):
            return (g,)
        return (m.slice(g, starts=pads[:rank], ends=tuple(b + n for b, n in zip(pads[:rank], shape, strict=True))),)
    for axis, (size, *width) in enumerate(zip(shape, pads[:rank], pads[rank:], strict=True)):
        if any(width):
            # Where each element of the padded axis came from.
            source = m.constant(np.pad(np.arange(size), width, mode=mode), np.int64)
            g = m.scatter_add(source, g, axis=axis, size=size)
    return (g,)


@pad.samples
def pad_samples(draw):
    yield draw(x=(2, 3), pads=(1, 0, 0, 2))
    yield draw(x=(2, 3), pads=(0, 1, 1, 1), value=1.0)
    yield draw(x=(1, 2, 4, 5), pads=(0, 0, 1, 2, 0, 0, 3, 4), mode="reflect")
    yield draw(x=(3, 4), pads=(2, 0, 1, 3), mode="reflect")
    yield draw(x=(1, 2, 3, 1), pads=(0, 0, 1, 2, 0, 0, 0, 3), mode="edge")
    yield draw(x=(2, 3), pads=(3, 0, 1, 4), mode="edge")
    yield draw(x=(), pads=())
    yield draw(x=(0, 3), pads=(1, 0, 1, 0))
    yield draw(x=(0, 3), pads=(0, 1, 0, 1), mode="edge")
    yield draw(x=(2, 1), pads=(0, 0, 0, 0))
    yield draw(x=[[np.nan, np.inf], [-0.0, 1.0]], pads=(0, 1, 0, 1), mode="reflect", special=True)


@pad.rejects
def pad_rejects(reject):
    yield reject(x="float32[2, 3]", pads=(1, 1), message="must hold 4 sizes")
    yield reject(x="float32[2, 3]", pads=(1, 0, -1, 0), message="sizes of 0 or more")
    yield reject(x="float32[...]", pads=(1,), message="first before each axis")
    yield reject(x="float32[2, 3]", pads=(2, 0, 0, 0), mode="reflect", message="along axis 0")
    yield reject(x="float32[0, 3]", pads=(1, 0, 0, 0), mode="edge", message="nothing along axis 0")
    yield reject(x="int32[2]", pads=(1, 1), value=0.5, message="value 0.5 cannot be held")
    yield reject(x="uint8[2]", pads=(1, 1), value=-1.0, message="value -1.0 cannot be held")
    yield reject(x="float32[2]", pads=(1, 1), mode="wrap", message="'mode' takes")
