"""Shared files are filled anew, and never while anybody can still see what is in them."""

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metaop as mo
from metaop.backends.isolation import protocol
from metaop.backends.isolation.protocol import KEPT_BYTES, KEPT_FILES, SHARED, Channel
from tests.isolation.conftest import alive, isolated, wait_for


class Pair:
    """Two ends of a channel in one thread: frames must be small enough for the kernel to take them whole."""

    def __init__(self):
        self.a, self.b = (Channel(end) for end in socket.socketpair())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.a.close()
        self.b.close()

    def there(self, *tensors):
        self.a.send({}, tensors)
        return self.b.receive()[1]

    def back(self, *tensors):
        self.b.send({}, tensors)
        return self.a.receive()[1]


@pytest.fixture
def pair():
    with Pair() as found:
        yield found


def filled(value, size=SHARED):
    return np.full(size, value, "uint8")


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_file_that_nobody_shows_is_used_again(pair):
    pair.there(filled(1))
    pair.back()
    before = descriptors()
    for value in range(2, 50):
        (found,) = pair.there(filled(value))
        assert (found == value).all()
        del found
        pair.back()
    assert descriptors() == before
    assert len(pair.a._outbox.files) == 1


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(array).reshape(2, -1)[1]


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a,
        lambda a: a[5:10],
        lambda a: a.reshape(4, -1).T[::2],
        lambda a: a.view("float32")[1:],
        lambda a: memoryview(a)[7:],
        lambda a: np.asarray(memoryview(a)),
        lambda a: np.lib.stride_tricks.as_strided(a, (3, 3), (1, 1)),
        lambda a: [a[3:]] * 2,
        torch_tensor,
    ],
)
def test_whatever_shows_a_file_keeps_it(pair, view):
    (found,) = pair.there(filled(1))
    shown = view(found)
    del found
    before = np.asarray(shown).tobytes()
    pair.back()
    for value in (2, 3, 4):
        pair.there(filled(value))
        pair.back()
        assert np.asarray(shown).tobytes() == before
    assert len(pair.a._outbox.files) == 2
    del shown
    gc.collect()
    pair.back()
    assert len(pair.a._outbox.free) == 2


STEPS = st.lists(
    st.tuples(
        st.booleans(),  # which way
        st.lists(st.sampled_from([8, 4097, SHARED, SHARED + 4097, 3 * SHARED, 9 * SHARED]), max_size=12),
        st.lists(st.integers(0, 30), max_size=10),  # which of those held are let go
        st.booleans(),  # whether what came is written to, as its holder may
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_tensor_changes_while_it_is_held(steps):
    held, value = [], 0
    with Pair() as pair:
        for away, sizes, leave, scribble in steps:
            sent = []
            for size in sizes:
                value = (value + 1) % 251
                sent.append(filled(value, size))
            found = pair.there(*sent) if away else pair.back(*sent)
            for array, original in zip(found, sent, strict=True):
                assert np.array_equal(array, original)
                if scribble:
                    array += 1
                    original += 1
                held.append((array[1:-1], original[1:-1]))
            for position in leave:
                if position < len(held):
                    held.pop(position)
            array = found = None
            assert all(np.array_equal(a, b) for a, b in held)
            for end in (pair.a, pair.b):
                outbox = end._outbox
                assert len(outbox.files) <= KEPT_FILES
                assert outbox.free <= set(outbox.files)
    assert all(np.array_equal(a, b) for a, b in held), "arrays outlive the channel"


def test_many_held_tensors_cost_the_sender_few_descriptors(pair):
    before = descriptors()
    held = [pair.there(filled(i % 251))[0] for i in range(300)]
    pair.back()
    # Python's mmap holds one for each mapping, on the side that shows it.
    assert descriptors() <= before + len(held) + KEPT_FILES
    assert all((a == i % 251).all() for i, a in enumerate(held))
    del held
    pair.back()
    pair.there()
    assert len(pair.b._inbox.mapped) <= KEPT_FILES, "what is gone there is not mapped here"
    assert pair.b._inbox.loans == {}


def test_little_is_kept_that_nobody_shows(pair, monkeypatch):
    monkeypatch.setattr(protocol, "KEPT_BYTES", 5 * SHARED)
    held = [pair.there(filled(i, (i + 1) * SHARED))[0] for i in range(4)]
    del held
    pair.back()
    outbox = pair.a._outbox
    assert sum(outbox.files[n][1] for n in outbox.free) <= 5 * SHARED
    pair.there()
    assert set(pair.b._inbox.mapped) == set(outbox.files)
    assert KEPT_BYTES >= 2 * 64 << 20, "two of 64 MB take turns"


def test_a_small_tensor_does_not_take_a_large_file(pair):
    pair.there(filled(1, 64 * SHARED))
    pair.back()
    pair.there(filled(2))
    assert len(pair.a._outbox.files) == 2


@pytest.mark.parametrize("known", [False, True])
def test_no_room_is_an_error_and_the_channel_goes_on(pair, monkeypatch, known):
    if known:
        pair.there(filled(1), filled(2))
        pair.back()
    before, files = descriptors(), dict(pair.a._outbox.files)
    write, count = os.pwrite, []

    def full(*arguments):
        count.append(1)
        if len(count) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            pair.there(filled(3), filled(4))
    assert descriptors() == before
    assert dict(pair.a._outbox.files) == files
    assert pair.a._outbox.free == set(files)
    first, second = pair.there(filled(5), filled(6))
    assert (first == 5).all()
    assert (second == 6).all()


def test_a_header_that_is_not_json_takes_nothing(pair):
    (held,) = pair.back(filled(9))
    del held
    with pytest.raises(TypeError):
        pair.a.send({"do": object()}, [filled(1)])
    assert pair.a._outbox.files == {}
    assert pair.a._inbox.back == [1], "still to be said"
    pair.there()
    assert pair.b._outbox.free == {1}


@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="Python 3.6 does not say when it forks")
def test_a_forked_child_keeps_what_it_sees(pair):
    (found,) = pair.there(filled(1))
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0 if (found == 1).all() else 1)
    os.read(ready[0], 1)
    del found
    pair.back()
    for value in (2, 3):
        pair.there(filled(value))
        pair.back()
    os.write(go[1], b"x")
    _, status = os.waitpid(child, 0)
    for end in (*ready, *go):
        os.close(end)
    assert status == 0


def test_waiting_ends(pair, monkeypatch):
    for spin in (0.0, 100e-6):
        monkeypatch.setattr(protocol, "_SPIN", spin)
        start = time.monotonic()
        assert not pair.b.wait(0.05)
        assert 0.04 < time.monotonic() - start < 5.0
        pair.a.send({})
        assert pair.b.wait(5.0)
        pair.b.receive()
    pair.a.close()
    assert pair.b.wait(5.0), "a closed end is something to be noticed"


def test_results_stay_as_they_are_over_many_runs(nothing_left):
    backend = isolated()
    x = mo.Placeholder(shape=(None, 256), dtype="float32")
    y, session = mo.add(mo.negative(x), 1.0), mo.Session(backend)
    rng, held = np.random.default_rng(0), []
    for i in range(120):
        data = np.full((int(rng.integers(1, 900)), 256), i, "float32")
        held.append((i, session.run(y, {x: data})))
        while len(held) > int(rng.integers(0, 20)):
            held.pop(int(rng.integers(len(held))))
        assert all((a == 1 - n).all() for n, a in held)
    backend.close()
    assert all((a == 1 - n).all() for n, a in held)
    del held


PARENT = """
import numpy as np
import metaop as mo
from tests.isolation.conftest import isolated
backend = isolated()
x = mo.Placeholder(shape=(None,), dtype="float32")
session, y = mo.Session(backend), mo.negative(x)
print(backend.worker.pid, flush=True)
while True:
    held = session.run(y, {x: np.ones(1 << 22, "float32")})
"""


@pytest.mark.parametrize("who", ["parent", "worker"])
@pytest.mark.parametrize("after", [0.2, 0.45])
def test_a_kill_between_large_tensors_leaves_no_shared_memory(who, after):
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    before = set(os.listdir("/dev/shm"))
    worker = int(parent.stdout.readline())
    time.sleep(after)
    os.kill(parent.pid if who == "parent" else worker, signal.SIGKILL)
    assert wait_for(lambda: not alive(worker) and not alive(parent.pid))
    parent.wait()
    parent.stdout.close()
    assert {n for n in set(os.listdir("/dev/shm")) - before if n.startswith("tmp")} == set()
