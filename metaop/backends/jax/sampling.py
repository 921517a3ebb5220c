"""JAX's sampling, ``map_coordinates``: of one channel of one image, at places given in elements."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates

from metaop.backends.jax.bindings import bind
from metaop.backends.jax.contraction import FULL
from metaop.errors import UnsupportedOpError

# As SciPy names them: mirrored at the centres of the outermost elements, reflected at their edges.
BEYOND = {
    ("zeros", False): "constant",
    ("zeros", True): "constant",
    ("border", False): "nearest",
    ("border", True): "nearest",
    ("reflection", False): "reflect",
    ("reflection", True): "mirror",
}


@bind
def grid_sample(x, grid, *, mode, padding_mode, align_corners):
    if mode == "cubic":
        raise UnsupportedOpError("jax: map_coordinates interpolates linearly at most")
    beyond, sizes = BEYOND[padding_mode, align_corners], x.shape[2:]
    if beyond == "mirror" and 1 in sizes:
        raise UnsupportedOpError("jax: map_coordinates does not mirror an axis of size 1")
    places = [
        place * ((size - 1 if align_corners else size) / 2) + (size - 1) / 2
        for size, place in zip(sizes, jnp.moveaxis(grid, -1, 0)[::-1])
    ]
    if mode == "nearest":
        # It would take the element farther from the first where two are as near.
        places = [jnp.round(place) for place in places]

    def sample(channel, where):
        return map_coordinates(channel, where, order=0 if mode == "nearest" else 1, mode=beyond, cval=0.0)

    return jax.vmap(jax.vmap(sample, in_axes=(0, None)))(x, places)


@bind
def affine_grid(theta, *, size, align_corners):
    ends = [1.0 if align_corners else 1 - 1 / n for n in size[2:]]
    steps = [jnp.linspace(-end, end, n) if n > 1 else np.zeros(1) for end, n in zip(ends, size[2:])]
    places = jnp.stack(jnp.meshgrid(*steps, indexing="ij")[::-1], axis=-1).astype(theta.dtype)
    moved = jnp.einsum("nij,...j->n...i", theta[:, :, :-1], places, precision=FULL)
    return moved + jnp.reshape(theta[:, :, -1], (size[0],) + (1,) * (len(size) - 2) + (-1,))
