"""What JAX leaves to the libraries built on it."""

from metaop.backends.jax.bindings import bind

for _op, _what in {
    "lp_pool": "pooling by norms",
    "global_lp_pool": "pooling by norms",
    "lp_normalization": "normalization by norms",
    "rms_norm": "normalization layers",
    "lrn": "local response normalization",
    "max_pool_with_indices": "pooling that tells the places of its maxima",
    "col2im": "a way back from columns to images",
}.items():
    bind.unsupported(_op, reason="JAX itself has no {}; libraries built on it compose their own".format(_what))
