"""JAX's repeating, cropping, shuffling and counting."""

import jax.numpy as jnp
from jax import lax

from metaop.backends.jax.bindings import before, bind
from metaop.backends.jax.indices import along, within

bind.rename({"tile": (jnp.tile, {"repeats": "reps"})})


@bind
def center_crop_pad(x, *, shape, axes):
    widths = [(0, 0, 0)] * x.ndim
    for i, size in enumerate(shape):
        axis = i if axes is None else axes[i]
        more = size - x.shape[axis]
        # Rounded towards zero; negative widths cut off.
        first = more // 2 if more > 0 else -(-more // 2)
        widths[axis] = (first, more - first, 0)
    return lax.pad(x, jnp.zeros((), x.dtype), widths)


@bind
def depth_to_space(x, *, blocksize, mode):
    n, c, h, w = x.shape
    deep = c // (blocksize * blocksize)
    if mode == "DCR":
        squares = jnp.moveaxis(jnp.reshape(x, (n, blocksize, blocksize, deep, h, w)), (1, 2), (3, 5))
    else:
        squares = jnp.moveaxis(jnp.reshape(x, (n, deep, blocksize, blocksize, h, w)), (2, 3), (3, 5))
    return jnp.reshape(squares, (n, deep, h * blocksize, w * blocksize))


@bind
def space_to_depth(x, *, blocksize, mode):
    n, c, h, w = x.shape[0], x.shape[1], x.shape[2] // blocksize, x.shape[3] // blocksize
    squares = jnp.reshape(x, (n, c, h, blocksize, w, blocksize))
    squares = jnp.moveaxis(squares, (3, 5), (1, 2) if mode == "DCR" else (2, 3))
    return jnp.reshape(squares, (n, c * blocksize * blocksize, h, w))


@before("reverse_sequence")
def lengths_exist(x, sequence_lens, *, batch_axis, time_axis):
    within("sequence_lens", sequence_lens, 0, x.shape[time_axis] + 1)


@bind
def reverse_sequence(x, sequence_lens, *, batch_axis, time_axis):
    lengths = along(batch_axis, sequence_lens, x.ndim)
    steps = along(time_axis, jnp.arange(x.shape[time_axis], dtype=lengths.dtype), x.ndim)
    # JAX reverses whole axes only; this is which element stands in each place.
    source = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    return jnp.take_along_axis(x, source, axis=time_axis, mode="fill")


@bind
def range(*, start, limit, delta, dtype):
    return jnp.arange(start, limit, delta, dtype=dtype)
