"""MXNet's sampling: linear, of images, with the corners aligned and zeros around."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind, legacy
from metaop.errors import UnsupportedOpError

sampled = legacy(mx.nd.BilinearSampler)
generated = legacy(mx.nd.GridGenerator)


@bind
def grid_sample(x, grid, *, mode, padding_mode, align_corners):
    if len(x.shape) != 4 or (mode, padding_mode, align_corners) != ("linear", "zeros", True):
        raise UnsupportedOpError("mxnet: BilinearSampler samples images linearly, corners aligned and zeros around")
    return sampled(x, mx.np.transpose(grid, (0, 3, 1, 2)))


@bind
def affine_grid(theta, *, size, align_corners):
    if len(size) != 4 or not align_corners:
        raise UnsupportedOpError("mxnet: GridGenerator makes grids for images, corners aligned")
    grid = generated(theta.reshape((size[0], 6)), transform_type="affine", target_shape=size[2:])
    return mx.np.transpose(grid, (0, 2, 3, 1))
