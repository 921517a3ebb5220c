"""Activations: elementwise, one tensor in, one out, floating dtypes only."""

import numpy as np

from metaop.ops.domain import reals
from metaop.ops.rules import elementwise
from metaop.ops.samples import unary_samples
from metaop.ops.spec import meta_op
from metaop.types import FLOATING


@meta_op(rule=elementwise, dtypes=FLOATING, domain={"x": reals(avoid=[0.0])})
def leaky_relu(x, *, alpha: float = 0.01):
    """``x`` where positive, ``alpha * x`` elsewhere."""
    return np.where(x > 0, x, np.multiply(x, alpha, dtype=x.dtype))


@leaky_relu.vjp
def leaky_relu_vjp(m, g, y, x, *, alpha):
    return (m.where(m.greater(x, 0.0), g, m.multiply(g, alpha)),)


unary_samples(leaky_relu, alpha=0.3)
