"""JAX's reshaping, joining, slicing and padding."""

import builtins

import jax.numpy as jnp

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.indices import within


@bind
def reshape(x, *, shape):
    return jnp.reshape(x, shape)


@bind
def transpose(x, *, perm):
    return jnp.transpose(x, perm)


@bind
def flatten(x, *, axis):
    axis = axis + x.ndim if axis < 0 else axis
    return jnp.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


@bind
def squeeze(x, *, axes):
    return jnp.squeeze(x, axis=axes)


@bind
def unsqueeze(x, *, axes):
    return jnp.expand_dims(x, axes)


@bind
def expand(x, *, shape):
    return jnp.broadcast_to(x, jnp.broadcast_shapes(x.shape, shape))


@bind
def concat(*inputs, axis):
    return jnp.concatenate(inputs, axis=axis)


@bind
def stack(*inputs, axis):
    return jnp.stack(inputs, axis=axis)


@bind
def split(x, *, axis, split, num_outputs):
    if split is None:
        each = -(-x.shape[axis] // num_outputs)
        split = [each] * num_outputs
    ends = [sum(split[: i + 1]) for i in range(len(split) - 1)]
    return tuple(jnp.split(x, ends, axis=axis))


@bind
def slice(x, *, starts, ends, axes, steps):
    where = [builtins.slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = i if axes is None else axes[i]
        where[axis] = positions(start, end, 1 if steps is None else steps[i], x.shape[axis])
    return x[tuple(where)]


def positions(start, end, step, size):
    """The slice as Python means it: to ONNX a start before the first element is the first one, backwards too."""
    start, end = (place + size if place < 0 else place for place in (start, end))
    if step < 0:
        return builtins.slice(max(start, 0), None if end < 0 else end, step)
    return builtins.slice(max(start, 0), max(end, 0), step)


@before("gather")
def elements_exist(x, indices, *, axis):
    within("indices", indices, -x.shape[axis], x.shape[axis])


@bind
def gather(x, indices, *, axis):
    return jnp.take(x, indices, axis=axis, mode="fill")


@before("scatter_add")
def places_exist(indices, updates, *, axis, size):
    within("indices", indices, -size, size)


@bind
def scatter_add(indices, updates, *, axis, size):
    axis = axis % (updates.ndim - indices.ndim + 1)
    shape = updates.shape[:axis] + (size,) + updates.shape[axis + indices.ndim :]
    return jnp.zeros(shape, updates.dtype).at[(builtins.slice(None),) * axis + (indices,)].add(updates, mode="drop")


@bind
def pad(x, *, pads, mode, value):
    if x.ndim == 0:
        return x
    widths = list(zip(pads[: x.ndim], pads[x.ndim :]))
    if mode == "constant":
        return jnp.pad(x, widths, mode="constant", constant_values=value)
    return jnp.pad(x, widths, mode=mode)
