"""A backend for workers that misbehaves on purpose: each operator listed here does something of its own."""

import os
import signal
import sys
import time

import numpy as np

from metaop.backends.bind import Binding, Bindings
from metaop.backends.numpy import NumpyBackend
from metaop.errors import UnsupportedOpError


def die(x):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(x):
    time.sleep(3600)


def swallow_memory(x):
    # Zeros take address space, which is what counts, and no memory.
    return x + len([np.zeros(1 << 27) for _ in range(64)])


def talk_nonsense(x):
    os.write(int(sys.argv[4]), b"this is not a frame" * 10)
    return x


def leave(x):
    os._exit(7)


def complain(x):
    raise ValueError("the kernel has had enough")


def refuse(x):
    raise UnsupportedOpError("no kernel on Sundays")


def have_no_kernel(x):
    raise NotImplementedError("no kernel on Mondays")


class Stuck(np.ndarray):
    """An array that cannot leave the worker."""


def get_stuck(x):
    return x.view(Stuck)


class FaultyBackend(NumpyBackend):
    name = "faulty"
    bindings = Bindings("faulty")

    def to_numpy(self, tensor):
        if isinstance(tensor, Stuck):
            raise MemoryError("no room for a copy")
        return super().to_numpy(tensor)


FaultyBackend.bindings.table.update(NumpyBackend.bindings.table)
for _name, _function in {
    "sin": die,
    "cos": hang,
    "erf": swallow_memory,
    "floor": talk_nonsense,
    "ceil": leave,
    "sign": complain,
    "round": refuse,
    "cosh": die,
    "asinh": have_no_kernel,
    "tan": get_stuck,
}.items():
    FaultyBackend.bindings.table[_name] = Binding(_name, _function)

BACKEND = FaultyBackend
