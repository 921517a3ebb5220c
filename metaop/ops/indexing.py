"""Indexing: elements read from, or written to, the places that another tensor names.

Negative indices count from the end; indices out of range are errors, which references and frameworks raise when they
run. Where two updates go to one place and nothing reduces them, which of them stays is left open, as in ONNX.
"""

from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain
from metaop.ops.movement import indices_domain, total
from metaop.ops.rules import normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import ANY, INDEX

Reduction = Literal["none", "add", "mul", "max", "min"]
REDUCE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


# -- one index per element ---------------------------------------------------------------------------------------------


def check_elements(x, indices, axis):
    """Refuse indices that do not lie within ``x`` along the axes other than ``axis``, which is then from the front."""
    if x.shape is None or indices.shape is None:
        return None
    axis = normalise_axis(axis, len(x.shape))
    if len(indices.shape) != len(x.shape):
        raise ShapeError(f"'indices' of type {indices} must have as many axes as 'x' of type {x}")
    for i, (wanted, size) in enumerate(zip(indices.shape, x.shape, strict=True)):
        if i != axis and None not in (wanted, size) and wanted > size:
            raise ShapeError(f"'indices' of type {indices} reach beyond 'x' of type {x} along axis {i}")
    if x.shape[axis] == 0 and total(indices.shape):
        raise ShapeError(f"'x' of type {x} has nothing along axis {axis} that 'indices' of type {indices} could name")
    return axis


def places(indices, axis):
    """The index of each element in NumPy's sense: its own place, but along ``axis`` what ``indices`` say."""
    where = list(np.indices(indices.shape, sparse=True))
    where[axis] = indices
    return tuple(where)


def gathered_elements(x, indices, *, axis):
    check_elements(x, indices, axis)
    if x.shape is not None:
        normalise_axis(axis, len(x.shape))
    if indices.shape is None:
        return x.with_shape(None if x.shape is None else (None,) * len(x.shape))
    return x.with_shape(indices.shape)


@meta_op(rule=gathered_elements, dtypes=ANY, also={"indices": INDEX}, domain={"indices": indices_domain})
def gather_elements(x, indices, *, axis: int = 0):
    """One element of ``x`` for each of ``indices``: that in the same place, but at the index along ``axis``.

    ``indices`` have as many axes as ``x`` and, apart from ``axis``, nowhere more elements.
    """
    return np.asarray(x[places(indices, axis)])


@gather_elements.vjp
def gather_elements_vjp(m, g, y, x, indices, *, axis):
    return m.scatter_elements(m.zeros_like(x), indices, g, axis=axis, reduction="add"), None


@gather_elements.samples
def gather_elements_samples(draw):
    yield draw(x=(3, 3), indices=[[1, 2, 0], [2, 0, 0]])
    yield draw(x=(2, 2), indices=[[0, 0], [1, 0]], axis=1)
    yield draw(x=(3, 4, 2), indices=(2, 5, 2), axis=1)
    yield draw(x=(3, 4), indices=[[-1, 3, -4], [0, 0, 1]], axis=-1)
    yield draw(x=(5,), indices=[4, -5, 4])
    yield draw(x=(3, 4), indices=(0, 4))
    yield draw(x=(0, 4), indices=(0, 4), axis=1)
    yield draw(x=[np.nan, np.inf, -0.0, 1.0], indices=[3, 0, 0, 2], special=True)


@gather_elements.rejects
def gather_elements_rejects(reject):
    yield reject(x="float32[4, 3]", indices="int64[2, 3]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[4, 3]", indices="int64[2]", message="must have as many axes")
    yield reject(
        x="float32[4, 3]", indices="int64[2, 4]", message="reach beyond 'x' of type float32[4, 3] along axis 1"
    )
    yield reject(x="float32[0, 3]", indices="int64[2, 3]", message="nothing along axis 0")
    yield reject(x="float32[]", indices="int64[]", message="axis 0 is out of range")
    yield reject(x="float32[4]", indices="float32[2]", message="'indices' takes int32 or int64")


def check_reduction(x, reduction):
    if reduction != "none" and x.dtype is not None and x.dtype.kind == "b":
        raise AttributeValueError(f"reduction {reduction!r} is for numbers; 'x' is {x}. Accepted here: 'none'")


def scattered_elements(x, indices, updates, *, axis, reduction):
    check_reduction(x, reduction)
    check_elements(x, indices, axis)
    if x.shape is not None:
        normalise_axis(axis, len(x.shape))
    if indices.shape is not None and updates.shape is not None:
        if len(indices.shape) != len(updates.shape):
            raise ShapeError(f"'updates' of type {updates} must have the shape of 'indices' of type {indices}")
        for i, (a, b) in enumerate(zip(updates.shape, indices.shape, strict=True)):
            unify_size(a, b, f"axis {i} of 'updates' and 'indices'")
    return x


def update_gradients(m, g, y, x, updates, reduction, scatter, gather):
    """The gradients of ``x`` and ``updates``, of which ``scatter`` writes to the places that ``gather`` reads.

    Several equal extreme values share their gradient in equal parts.
    """
    if reduction == "none":
        return scatter(g, m.zeros_like(updates), "none"), gather(g)
    if reduction == "add":
        return g, gather(g)
    if reduction == "mul":
        # The product of all other factors, without dividing by a factor that is 0.
        dtype = m.dtype(g)
        null, update_null = (m.cast(m.equal(t, 0.0), to=dtype) for t in (x, updates))
        factor, update_factor = m.add(x, null), m.add(updates, update_null)
        nulls = scatter(null, update_null, "add")
        product = m.multiply(g, scatter(factor, update_factor, "mul"))
        zeros, update_zeros = m.zeros_like(x), m.zeros_like(updates)
        return (
            m.where(m.equal(nulls, null), m.div(product, factor), zeros),
            m.where(m.equal(gather(nulls), update_null), m.div(gather(product), update_factor), update_zeros),
        )
    wins, update_wins = (m.cast(m.equal(a, b), to=m.dtype(g)) for a, b in ((x, y), (updates, gather(y))))
    # At least one of them won, except at NaN.
    share = m.div(g, m.maximum(scatter(wins, update_wins, "add"), 1.0))
    return m.multiply(wins, share), m.multiply(update_wins, gather(share))


@meta_op(rule=scattered_elements, dtypes=ANY, also={"indices": INDEX}, domain={"indices": indices_domain})
@np.errstate(all="ignore")
def scatter_elements(x, indices, updates, *, axis: int = 0, reduction: Reduction = "none"):
    """``x`` with each of ``updates`` written to its own place, but at the index along ``axis``.

    ``reduction`` says how an update joins what is there, and others of the same place: ``"none"`` replaces it, and
    then indices must not name a place twice.
    """
    result = x.copy()
    where = places(indices, axis)
    if reduction == "none":
        result[where] = updates
    else:
        REDUCE[reduction].at(result, where, updates)
    return result


@scatter_elements.vjp
def scatter_elements_vjp(m, g, y, x, indices, updates, *, axis, reduction):
    def scatter(base, values, how):
        return m.scatter_elements(base, indices, values, axis=axis, reduction=how)

    def gather(values):
        return m.gather_elements(values, indices, axis=axis)

    of_x, of_updates = update_gradients(m, g, y, x, updates, reduction, scatter, gather)
    return of_x, None, of_updates


@scatter_elements.samples
def scatter_elements_samples(draw):
    yield draw(x=(3, 3), indices=[[1, 0, 2], [0, 2, 1]], updates=(2, 3))
    yield draw(x=(1, 5), indices=[[1, -2]], updates=(1, 2), axis=1)
    yield draw(x=(1, 5), indices=[[1, 1, -1]], updates=(1, 3), axis=1, reduction="add")
    yield draw(x=(2, 3, 2), indices=[[[0, 2], [0, -1]]], updates=(1, 2, 2), axis=-2, reduction="add")
    yield draw(x=(3, 2), indices=[[1, 0], [1, -3]], updates=(2, 2), reduction="mul")
    yield draw(x=(3, 2), indices=[[1, 0], [1, -3]], updates=(2, 2), reduction="max")
    yield draw(x=(3, 2), indices=[[1, 0], [1, -3]], updates=(2, 2), reduction="min")
    yield draw(x=(3, 2), indices=(0, 2), updates=(0, 2))
    yield draw(x=(0, 2), indices=(0, 2), updates=(0, 2), axis=1, reduction="add")
    yield draw(x=[1.0, np.nan, 3.0], indices=[1, 2], updates=[5.0, np.inf], special=True)


@scatter_elements.samples
def scatter_elements_products_of_zero(draw):
    yield draw(
        x=[1.5, 0.0, 2.0, 0.0], indices=[0, 1, 2, 2], updates=[0.0, 3.0, 2.0, 0.5], reduction="mul", special=True
    )


@scatter_elements.rejects
def scatter_elements_rejects(reject):
    given = {"x": "float32[4, 3]", "indices": "int64[2, 3]"}
    yield reject(**given, updates="float32[2, 2]", message="axis 1 of 'updates' and 'indices': sizes 2 and 3 differ")
    yield reject(**given, updates="float32[2]", message="must have the shape of 'indices'")
    yield reject(**given, updates="float32[2, 3]", axis=-3, message="axis -3 is out of range")
    yield reject(**given, updates="float64[2, 3]", message="one dtype")
    yield reject(**given, updates="float32[2, 3]", reduction="mean", message="'reduction' takes")
    yield reject(x="bool[3]", indices="int64[2]", updates="bool[2]", reduction="add", message="is for numbers")
    yield reject(x="float32[4]", indices="int64[2, 3]", updates="float32[2, 3]", message="must have as many axes")


# -- several indices per element or slice ------------------------------------------------------------------------------


def depth_of(x, indices, batch_dims=0):
    """How many axes the last axis of ``indices`` names; ``None`` where unknown."""
    require_rank("'indices'", indices, batch_dims + 1)
    require_rank("'x'", x, batch_dims + 1)
    depth = None if indices.shape is None else indices.shape[-1]
    if depth is not None and x.shape is not None and not 1 <= depth <= len(x.shape) - batch_dims:
        raise ShapeError(
            f"the last axis of 'indices' of type {indices} must name 1 to {len(x.shape) - batch_dims} axes of 'x' of "
            f"type {x}{' that are not of the batch' if batch_dims else ''}"
        )
    if (
        depth is not None
        and x.shape is not None
        and 0 in x.shape[batch_dims : batch_dims + depth]
        and total(indices.shape)
    ):
        raise ShapeError(f"'x' of type {x} has nothing that 'indices' of type {indices} could name")
    return depth


def gathered_nd(x, indices, *, batch_dims):
    if batch_dims < 0:
        raise AttributeValueError(f"batch_dims {batch_dims} must be 0 or more")
    depth = depth_of(x, indices, batch_dims)
    if x.shape is None or depth is None:
        return x.with_shape(None)
    batch = tuple(
        unify_size(a, b, f"axis {i} of 'x' and 'indices', which are of the batch")
        for i, (a, b) in enumerate(zip(x.shape[:batch_dims], indices.shape[:batch_dims], strict=True))
    )
    return x.with_shape(batch + indices.shape[batch_dims:-1] + x.shape[batch_dims + depth :])


def with_batch(shape, batch_dims):
    """The indices of the batch axes, for ``indices`` of that shape: what ``batch_dims`` leaves unsaid."""
    return np.stack(np.indices(shape[:-1])[:batch_dims], axis=-1)


@meta_op(rule=gathered_nd, dtypes=ANY, also={"indices": INDEX}, domain={"indices": indices_domain})
def gather_nd(x, indices, *, batch_dims: int = 0):
    """The elements or slices of ``x`` at ``indices``, whose last axis holds one index for each of the leading axes.

    The first ``batch_dims`` axes are those of ``x`` and ``indices`` alike, and are not indexed.
    """
    if batch_dims:
        batch = with_batch(indices.shape, batch_dims).astype(indices.dtype)
        indices = np.concatenate([batch, indices], axis=-1)
    return np.asarray(x[tuple(np.moveaxis(indices, -1, 0))])


@gather_nd.vjp
def gather_nd_vjp(m, g, y, x, indices, *, batch_dims):
    if batch_dims:
        batch = m.constant(with_batch(m.shape(indices), batch_dims), m.dtype(indices))
        indices = m.concat(batch, indices, axis=-1)
    return m.scatter_nd(m.zeros_like(x), indices, g, reduction="add"), None


@gather_nd.samples
def gather_nd_samples(draw):
    yield draw(x=(2, 2), indices=[[0, 0], [1, 1], [-1, 0], [0, 0]])
    yield draw(x=(3, 4, 2), indices=[[2], [-3]])
    yield draw(x=(2, 3, 2), indices=[[[0, 1]], [[1, -3]]])
    yield draw(x=(2, 2, 3), indices=[[1], [0]], batch_dims=1)
    yield draw(x=(2, 3, 2), indices=[[[1], [-1], [0]], [[0], [0], [1]]], batch_dims=2)
    yield draw(x=(4, 2), indices=[3])
    yield draw(x=(4, 2), indices=(0, 1))
    yield draw(x=(2, 0), indices=[[1], [0], [1]])
    yield draw(x=[np.nan, np.inf, -0.0], indices=[[1], [0]], special=True)


@gather_nd.rejects
def gather_nd_rejects(reject):
    yield reject(x="float32[4, 3]", indices="int64[2, 3]", message="must name 1 to 2 axes")
    yield reject(x="float32[4, 3]", indices="int64[2, 0]", message="must name 1 to 2 axes")
    yield reject(x="float32[4, 3]", indices="int64[4, 2]", batch_dims=1, message="must name 1 to 1 axes")
    yield reject(x="float32[4, 3]", indices="int64[5, 1]", batch_dims=1, message="sizes 4 and 5 differ")
    yield reject(x="float32[4, 3]", indices="int64[2, 1]", batch_dims=2, message="'indices' must have rank at least 3")
    yield reject(x="float32[4, 3]", indices="int64[2, 1]", batch_dims=-1, message="batch_dims -1")
    yield reject(x="float32[4, 3]", indices="int64[]", message="'indices' must have rank at least 1")
    yield reject(x="float32[0, 3]", indices="int64[2, 1]", message="has nothing that 'indices'")


def scattered_nd(x, indices, updates, *, reduction):
    check_reduction(x, reduction)
    depth = depth_of(x, indices)
    if x.shape is not None and depth is not None and updates.shape is not None:
        wanted = indices.shape[:-1] + x.shape[depth:]
        if len(wanted) != len(updates.shape):
            raise ShapeError(
                f"'updates' of type {updates} must have rank {len(wanted)}: an element or slice of 'x' of type {x} for "
                f"each index of 'indices' of type {indices}"
            )
        for i, (a, b) in enumerate(zip(updates.shape, wanted, strict=True)):
            unify_size(a, b, f"axis {i} of 'updates', and what 'indices' name of 'x'")
    return x


@meta_op(rule=scattered_nd, dtypes=ANY, also={"indices": INDEX}, domain={"indices": indices_domain})
@np.errstate(all="ignore")
def scatter_nd(x, indices, updates, *, reduction: Reduction = "none"):
    """``x`` with ``updates`` written to the elements or slices at ``indices``, as ``gather_nd`` would read them.

    ``reduction`` says how an update joins what is there, and others of the same place: ``"none"`` replaces it, and
    then indices must not name a place twice.
    """
    result = x.copy()
    where = tuple(np.moveaxis(indices, -1, 0))
    if reduction == "none":
        result[where] = updates
    else:
        REDUCE[reduction].at(result, where, updates)
    return result


@scatter_nd.vjp
def scatter_nd_vjp(m, g, y, x, indices, updates, *, reduction):
    def scatter(base, values, how):
        return m.scatter_nd(base, indices, values, reduction=how)

    def gather(values):
        return m.gather_nd(values, indices)

    of_x, of_updates = update_gradients(m, g, y, x, updates, reduction, scatter, gather)
    return of_x, None, of_updates


@scatter_nd.samples
def scatter_nd_samples(draw):
    yield draw(x=(8,), indices=[[4], [3], [1], [-1]], updates=(4,))
    yield draw(x=(4, 2, 3), indices=[[0], [2]], updates=(2, 2, 3))
    yield draw(x=(3, 2), indices=[[[0, 1], [2, -2]]], updates=(1, 2))
    yield draw(x=(3, 2), indices=[[0], [2], [0]], updates=(3, 2), reduction="add")
    yield draw(x=(3, 2), indices=[[0, 1], [-1, 0], [0, 1]], updates=(3,), reduction="mul")
    yield draw(x=(3, 2), indices=[[0], [2], [0]], updates=(3, 2), reduction="max")
    yield draw(x=(3, 2), indices=[[0, 1], [-1, 0], [0, 1]], updates=(3,), reduction="min")
    yield draw(x=(3, 2), indices=[1], updates=(2,))
    yield draw(x=(3, 2), indices=(0, 1), updates=(0, 2))
    yield draw(x=(3, 0), indices=[[1]], updates=(1, 0), reduction="add")
    yield draw(x=[1.0, np.nan, 3.0], indices=[[1], [2]], updates=[5.0, np.inf], special=True)


@scatter_nd.rejects
def scatter_nd_rejects(reject):
    given = {"x": "float32[4, 3]", "indices": "int64[2, 1]"}
    yield reject(**given, updates="float32[2, 2]", message="axis 1 of 'updates'")
    yield reject(**given, updates="float32[2]", message="must have rank 2")
    yield reject(x="float32[4]", indices="int64[2, 2]", updates="float32[2]", message="must name 1 to 1 axes")
    yield reject(x="bool[3]", indices="int64[2, 1]", updates="bool[2]", reduction="max", message="is for numbers")
    yield reject(x="float32[]", indices="int64[1]", updates="float32[]", message="'x' must have rank at least 1")


# -- caches ------------------------------------------------------------------------------------------------------------


def cached(x, update, write_indices=None, *, axis, mode):
    require_rank("'x'", x, 2)
    if write_indices is not None:
        require_rank("'write_indices'", write_indices, 1, 1)
    if x.shape is None or update.shape is None:
        return x
    along = normalise_axis(axis, len(x.shape))
    if along == 0:
        raise AttributeValueError(f"axis {axis} is that of the batch; the sequence must be along another one")
    if len(update.shape) != len(x.shape):
        raise ShapeError(f"'update' of type {update} must have as many axes as 'x' of type {x}")
    for i, (a, b) in enumerate(zip(x.shape, update.shape, strict=True)):
        if i != along:
            unify_size(a, b, f"axis {i} of 'x' and 'update'")
        elif None not in (a, b) and b > a:
            raise ShapeError(f"'update' of type {update} is longer than 'x' of type {x} along axis {i}")
    if write_indices is not None and write_indices.shape is not None:
        unify_size(x.shape[0], write_indices.shape[0], "the batch of 'x' and 'write_indices'")
    return x


@meta_op(
    rule=cached,
    dtypes=ANY,
    also={"write_indices": INDEX},
    domain={"write_indices": Domain(low=0, spread=(0, 1), text="indices from 0 on")},
)
def tensor_scatter(x, update, write_indices=None, *, axis: int = -2, mode: Literal["linear", "circular"] = "linear"):
    """``x``, a cache, with the sequence ``update`` along ``axis`` written from ``write_indices`` on.

    The first axis is that of the batch, for each of which there is one index (0 if left out). In the mode
    ``"circular"`` places are counted modulo the length of the cache; in the mode ``"linear"`` the update must fit.
    """
    axis = axis % x.ndim
    start = np.zeros(x.shape[0], np.int64) if write_indices is None else write_indices
    size, length = x.shape[axis], update.shape[axis]
    if (start < 0).any() or (mode == "linear" and (start + length > size).any()):
        raise IndexError(
            f"tensor_scatter: {length} from write_indices {start.tolist()} on do not fit a cache of {size}"
        )
    where = list(np.indices(update.shape, sparse=True))
    where[axis] = (start.reshape([-1] + [1] * (x.ndim - 1)) + where[axis]) % max(size, 1)
    result = x.copy()
    result[tuple(where)] = update
    return result


@tensor_scatter.vjp
def tensor_scatter_vjp(m, g, y, x, update, write_indices=None, *, axis, mode):
    shape, sizes = m.shape(update), m.shape(x)
    along = axis % len(shape)
    of_x = m.tensor_scatter(g, m.zeros_like(update), write_indices, axis=axis, mode=mode)
    steps = np.arange(shape[along]).reshape([-1 if i == along else 1 for i in range(len(shape))])
    if write_indices is None:
        found = m.constant(np.broadcast_to(steps, shape), np.int64)
        return of_x, m.gather_elements(g, found, axis=axis)
    dtype = m.dtype(write_indices)
    start = m.reshape(write_indices, shape=(sizes[0],) + (1,) * (len(shape) - 1))
    found = m.add(start, m.constant(steps, dtype))
    if mode == "circular":
        size = m.constant(max(sizes[along], 1), dtype)
        found = m.subtract(found, m.multiply(m.trunc_div(found, size), size))
    return of_x, m.gather_elements(g, m.expand(found, shape=shape), axis=axis), None


@tensor_scatter.samples
def tensor_scatter_samples(draw):
    yield draw(x=(2, 1, 4, 3), update=(2, 1, 1, 3), write_indices=[1, 2])
    yield draw(x=(2, 1, 4, 3), update=(2, 1, 2, 3), write_indices=[1, 3], mode="circular")
    yield draw(x=(3, 4, 2), update=(3, 2, 2), write_indices=[1, 0, 2])
    yield draw(x=(2, 4, 3), update=(2, 2, 3))
    yield draw(x=(2, 4), update=(2, 4), write_indices=[6, 2], axis=-1, mode="circular")
    yield draw(x=(2, 4, 3), update=(2, 0, 3), write_indices=[0, 2])


@tensor_scatter.rejects
def tensor_scatter_rejects(reject):
    given = {"x": "float32[2, 4, 3]", "write_indices": "int64[2]"}
    yield reject(**given, update="float32[2, 5, 3]", message="is longer than 'x'")
    yield reject(**given, update="float32[2, 1, 2]", message="axis 2 of 'x' and 'update': sizes 3 and 2 differ")
    yield reject(**given, update="float32[2, 3]", message="as many axes")
    yield reject(**given, update="float32[2, 1, 3]", axis=0, message="axis 0 is that of the batch")
    yield reject(**given, update="float32[2, 1, 3]", axis=3, message="axis 3 is out of range")
    yield reject(x="float32[2, 4, 3]", update="float32[2, 1, 3]", write_indices="int64[3]", message="sizes 2 and 3")


# -- indices as data ---------------------------------------------------------------------------------------------------


def hot(indices, values, *, depth, axis):
    if depth < 1:
        raise AttributeValueError(f"depth {depth} must be at least 1")
    require_rank("'values'", values, 1, 1)
    if values.shape not in (None, (None,), (2,)):
        raise ShapeError(f"'values' are two, off and on; got {values}")
    if indices.shape is None:
        return values.with_shape(None)
    axis = normalise_axis(axis, len(indices.shape) + 1)
    return values.with_shape(indices.shape[:axis] + (depth,) + indices.shape[axis:])


@meta_op(rule=hot, dtypes=ANY, also={"indices": INDEX}, domain={"indices": indices_domain})
def one_hot(indices, values, *, depth: int, axis: int = -1):
    """For each of ``indices`` a vector of ``depth`` along a new axis, whose place in the result is ``axis``.

    It is ``values[0]`` everywhere but at the index, where it is ``values[1]``. An index out of range marks no place.
    """
    axis = axis % (indices.ndim + 1)
    at = np.where(indices < 0, indices + depth, indices)
    steps = np.arange(depth).reshape([-1] + [1] * (indices.ndim - axis))
    return np.where(np.expand_dims(at, axis) == steps, values[1], values[0])


@one_hot.vjp
def one_hot_vjp(m, g, y, indices, values, *, depth, axis):
    on = m.one_hot(indices, m.constant([0, 1], m.dtype(g)), depth=depth, axis=axis)
    off = m.one_hot(indices, m.constant([1, 0], m.dtype(g)), depth=depth, axis=axis)
    return None, m.stack(*[m.reduce_sum(m.multiply(g, part)) for part in (off, on)])


@one_hot.samples
def one_hot_samples(draw):
    yield draw(indices=[0, 7, 8], values=[2.0, 5.0], depth=10)
    yield draw(indices=[[1, 9], [2, 4]], values=(2,), depth=10, axis=1)
    yield draw(indices=[[1, 0], [2, 3]], values=(2,), depth=4, axis=0)
    yield draw(indices=[0, -1, -3], values=(2,), depth=3, axis=-2)
    yield draw(indices=[0, 3, -4, 9], values=(2,), depth=3)
    yield draw(indices=2, values=(2,), depth=3)
    yield draw(indices=(0, 3), values=(2,), depth=3)
    yield draw(indices=[0, 1], values=[np.nan, np.inf], depth=2, special=True)


@one_hot.rejects
def one_hot_rejects(reject):
    yield reject(indices="int64[3]", values="float32[2]", message="'depth' is required")
    yield reject(indices="int64[3]", values="float32[2]", depth=0, message="depth 0")
    yield reject(indices="int64[3]", values="float32[3]", depth=4, message="are two")
    yield reject(indices="int64[3]", values="float32[]", depth=4, message="'values' must have rank 1")
    yield reject(indices="int64[3]", values="float32[2]", depth=4, axis=2, message="axis 2 is out of range")
    yield reject(indices="float32[3]", values="float32[2]", depth=4, message="'indices' takes int32 or int64")
