"""TensorFlow samples images only through transformations of its preprocessing, which are other operators."""

from metaop.backends.tensorflow.bindings import bind

bind.unsupported("grid_sample", reason="it has no sampling at arbitrary places")
bind.unsupported("affine_grid", reason="it has no grids of places to sample at")
