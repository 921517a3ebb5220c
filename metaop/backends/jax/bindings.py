"""The table of JAX bindings; one file per family fills it. Releases from 0.4.30 on are known to work.

Bindings are compiled (``jax.jit``), once per attributes and types: they decide by attributes and shapes only. What
depends on values has to be looked at before, by a function registered with :func:`before`; where the size of the result
does, the binding is registered with :func:`uncompiled`.
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

#: operators whose bindings are called as they are
UNCOMPILED = set()


def before(op):
    """Register a function to be called before the binding of an operator: ``@before("gather")``."""

    def register(function):
        BEFORE[op] = function
        return function

    return register


def uncompiled(function):
    """Register that a binding is not to be compiled, for the values of its inputs say how large its result is."""
    UNCOMPILED.add(function.__name__)
    return function
