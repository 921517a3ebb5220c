"""Isolated backends for tests, and the proof that nothing is left of them."""

import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from metaop.backends.isolation.backend import IsolatedBackend
from metaop.backends.isolation.process import Launch


def isolated(package="metaop.backends.numpy", name="test-worker"):
    """A worker of this very interpreter with one of our packages, or with ``faulty_backend``."""
    # One thread, for how many there are decides how some sums are split, and so their last bits.
    variables = {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    return IsolatedBackend(name, Launch(name, sys.executable, package, None, variables))


def alive(pid):
    """Whether a process runs; one that ended and was not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children():
    """The processes that this one has started and that still run."""
    mine = str(os.getpid())
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == mine and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def wait_for(condition, seconds=10.0):
    """Wait until a condition holds; whether it does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def nothing_left(tmp_path, monkeypatch):
    """No process, shared memory or temporary file of this test survives it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shared = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    before = set(children())
    descriptors = len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert wait_for(lambda: not set(children()) - before), f"left running: {set(children()) - before}"
    if os.path.isdir("/dev/shm"):
        mine = {n for n in set(os.listdir("/dev/shm")) - shared if "metaop" in n or n.startswith("tmp")}
        assert not mine
    # ONNX Runtime leaves a file of that name in the temporary folder wherever it is imported.
    assert [p.name for p in tmp_path.iterdir() if p.name != ".ses"] == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.fixture
def faulty(nothing_left):
    backend = isolated("faulty_backend", "faulty")
    yield backend
    backend.close()
