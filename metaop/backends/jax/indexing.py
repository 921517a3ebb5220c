"""JAX's gathers and scatters: ``x[...]`` and ``x.at[...]``."""

import jax
import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.indices import within

WAYS = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


# -- one index per element ---------------------------------------------------------------------------------------------


@before("gather_elements")
def elements_exist(x, indices, *, axis):
    within("indices", indices, -x.shape[axis], x.shape[axis])


@bind
def gather_elements(x, indices, *, axis):
    # Along the other axes JAX wants the same sizes.
    reached = [slice(size) for size in indices.shape]
    reached[axis] = slice(None)
    return jnp.take_along_axis(x[tuple(reached)], indices, axis=axis, mode="fill")


@before("scatter_elements")
def element_places_exist(x, indices, updates, *, axis, reduction):
    within("indices", indices, -x.shape[axis], x.shape[axis])


@bind
def scatter_elements(x, indices, updates, *, axis, reduction):
    places = list(jnp.indices(indices.shape, sparse=True))
    places[axis] = indices
    return getattr(x.at[tuple(places)], WAYS[reduction])(updates, mode="drop")


# -- several indices per element or slice ------------------------------------------------------------------------------


def split(indices):
    """The indices of each axis."""
    return tuple(indices[..., i] for i in range(indices.shape[-1]))


@before("gather_nd")
def slices_exist(x, indices, *, batch_dims):
    for axis, found in enumerate(split(indices), batch_dims):
        within("indices", found, -x.shape[axis], x.shape[axis])


@bind
def gather_nd(x, indices, *, batch_dims):
    def gather(x, indices):
        return x.at[split(indices)].get(mode="fill")

    for _ in range(batch_dims):
        gather = jax.vmap(gather)
    return gather(x, indices)


@before("scatter_nd")
def slice_places_exist(x, indices, updates, *, reduction):
    for axis, found in enumerate(split(indices)):
        within("indices", found, -x.shape[axis], x.shape[axis])


@bind
def scatter_nd(x, indices, updates, *, reduction):
    return getattr(x.at[split(indices)], WAYS[reduction])(updates, mode="drop")


# -- caches ------------------------------------------------------------------------------------------------------------


@before("tensor_scatter")
def room_exists(x, update, write_indices=None, *, axis, mode):
    if write_indices is not None:
        room = x.shape[axis] - update.shape[axis] + 1 if mode == "linear" else 2**63
        within("write_indices", write_indices, 0, room)


@bind
def tensor_scatter(x, update, write_indices=None, *, axis, mode):
    axis = axis % x.ndim - 1
    starts = jnp.zeros(x.shape[0], jnp.int64) if write_indices is None else write_indices

    def write(x, update, start):
        if mode == "linear":
            return lax.dynamic_update_slice_in_dim(x, update, start, axis)
        size = x.shape[axis]
        places = (start % size + jnp.arange(update.shape[axis], dtype=start.dtype)) % size
        return x.at[(slice(None),) * axis + (places,)].set(update, mode="drop")

    return jax.vmap(write)(x, update, starts)


# -- indices as data ---------------------------------------------------------------------------------------------------


@bind
def one_hot(indices, values, *, depth, axis):
    # To JAX negative indices mark no place.
    places = jnp.where(indices < 0, indices + depth, indices)
    return jnp.where(jax.nn.one_hot(places, depth, dtype=bool, axis=axis), values[1], values[0])
