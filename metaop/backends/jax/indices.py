"""Indices, and those that do not exist: JAX answers them with NaN or the nearest element, and never with an error."""

import jax.numpy as jnp
import numpy as np


def within(what, indices, low, high):
    """Raise where an index is not from ``low`` up to below ``high``."""
    found = np.asarray(indices)
    wrong = found[(found < low) | (found >= high)]
    if wrong.size:
        raise IndexError("{} has {}; accepted: {} to {}".format(what, wrong.flat[0], low, high - 1))


def along(axis, vector, rank):
    """The vector along one of ``rank`` axes."""
    shape = [1] * rank
    shape[axis] = -1
    return jnp.reshape(vector, shape)
