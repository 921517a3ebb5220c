"""JAX. Importing this package imports the framework; only ``metaop.backends.catalog`` does so, on first use."""

import logging
import os


def _start():
    """Have JAX set its devices up without taking memory beforehand, and without notes on devices that are not there.

    Whoever sets XLA_PYTHON_CLIENT_PREALLOCATE decides for himself, and so does he who used JAX before.
    """
    import jax

    name, log = "XLA_PYTHON_CLIENT_PREALLOCATE", logging.getLogger("jax._src.xla_bridge")
    given, level = os.environ.get(name), log.level
    os.environ.setdefault(name, "false")
    log.setLevel(logging.ERROR)
    try:
        jax.devices("cpu")
    finally:
        log.setLevel(level)
        if given is None:
            del os.environ[name]


_start()

from metaop.backends.jax import (  # noqa: E402, F401  each file fills the table of bindings
    activation,
    arithmetic,
    arrangement,
    attention,
    bitwise,
    contraction,
    convolution,
    criteria,
    elementwise,
    indexing,
    logic,
    loss,
    matrices,
    movement,
    normalization,
    norms,
    pooling,
    quantization,
    rectifiers,
    recurrent,
    reduction,
    resizing,
    sampling,
    scaling,
    selection,
    shapes,
    signal,
    trigonometry,
)
from metaop.backends.jax.adapter import JaxBackend  # noqa: E402

BACKEND = JaxBackend
