"""The table of JAX bindings; one file per family fills it. Releases from 0.4.30 on are known to work.

Bindings are compiled (``jax.jit``), once per attributes and types: they decide by attributes and shapes only. What
depends on values has to be looked at before, by a function registered with :func:`before`.
"""

import re

import jax

from metaop.backends.bind import Bindings

bind = Bindings("jax")

VERSION = tuple(int(n) for n in re.findall(r"\d+", jax.__version__)[:3])
if VERSION < (0, 4, 30):
    raise ImportError("metaop binds JAX from release 0.4.30 on; this is " + jax.__version__)

#: by operator: what looks at the values that go into its binding, with the same arguments, and raises if they are wrong
BEFORE = {}


def before(op):
    """Register a function to be called before the binding of an operator: ``@before("gather")``."""

    def register(function):
        BEFORE[op] = function
        return function

    return register
