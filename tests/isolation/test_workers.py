"""Workers compute what the framework computes here, and their faults become words."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import metaop as mo
from metaop.backends.isolation.process import WorkerDied, WorkerTimeout, limits
from tests import models
from tests.isolation.conftest import alive, isolated, wait_for

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


def chain(*ops):
    """``ops`` applied one after the other to a placeholder, each node named after its operator."""
    x = mo.Placeholder(shape=(3, 4), dtype="float32", name="x")
    node = x
    for op in ops:
        node = mo.apply(op, [node], name=op)
    return x, node


@pytest.mark.parametrize("name", ["numpy", "torch", "onnxruntime", "jax"])
def test_same_bits_as_in_process(name):
    backend = isolated(f"metaop.backends.{name}")
    if name == "torch":
        import torch

        torch.set_num_threads(1)
    for build in (models.mlp, models.cnn, models.attention):
        model = build()
        wrt = [n for n in mo.graph.order.execution_order([model.loss]) if isinstance(n, mo.Variable)]
        here, there = mo.Session(name), mo.Session(backend)
        assert np.array_equal(here.run(model.loss, model.feeds), there.run(model.loss, model.feeds))
        for a, b in zip(
            here.gradients(model.loss, wrt, model.feeds), there.gradients(model.loss, wrt, model.feeds), strict=True
        ):
            assert np.array_equal(a, b)
    backend.close()


def test_a_chain_costs_one_round_trip(nothing_left, monkeypatch):
    backend = isolated()
    x, y = chain(*["tanh"] * 1, "exp", "negative", "abs", "sqrt")
    session = mo.Session(backend)
    session.run(y, {x: X})
    count = []
    request = backend.worker.request
    monkeypatch.setattr(backend.worker, "request", lambda *a, **k: count.append(1) or request(*a, **k))
    session.run(y, {x: X})
    assert len(count) == 1
    backend.close()


@pytest.mark.parametrize(
    ("op", "error", "words"),
    [
        ("sin", WorkerDied, "SIGSEGV"),
        ("cos", WorkerTimeout, "no answer within"),
        ("floor", WorkerDied, "nonsense"),
        ("ceil", WorkerDied, "exit code 7"),
        ("sign", mo.FrameworkError, "the kernel has had enough"),
        ("round", mo.errors.UnsupportedOpError, "no kernel on Sundays"),
        ("asinh", mo.errors.UnsupportedOpError, "no kernel on Mondays"),
    ],
)
def test_faults_are_exceptions_that_name_the_node(faulty, op, error, words):
    x, y = chain("tanh", op, "exp")
    session = mo.Session(faulty)
    with limits(timeout=2.0), pytest.raises(error, match=words) as caught:
        session.run(y, {x: X})
    if op != "floor":  # a worker that talks nonsense may have gone on to the next node by the time it is heard
        assert f"'{op}'" in str(caught.value)
    x, good = chain("tanh", "exp")
    assert np.array_equal(session.run(good, {x: X}), np.exp(np.tanh(X))), "the worker is replaced and goes on"


def test_memory_limit(nothing_left):
    with limits(memory=6 << 30):
        faulty = isolated("faulty_backend")
    x, y = chain("erf")
    with pytest.raises(mo.FrameworkError, match=r"'erf'.*MemoryError.*the worker may take 6.44 GB"):
        mo.Session(faulty).run(y, {x: X})
    x, good = chain("exp")
    assert mo.Session(faulty).run(good, {x: X}).shape == (3, 4)
    faulty.close()


def test_an_unknown_package_says_why():
    with pytest.raises(mo.BackendError, match=r"cannot load its framework.*no_such_package"):
        isolated("no_such_package")


WORDS = {
    "sin": "killed by SIGSEGV",
    "cos": "no answer within 2 s",
    "ceil": "exit code 7",
    "floor": "answered nonsense",
    "sign": "ValueError: the kernel has had enough",
    "erf": "the worker may take 6.44 GB",
    "tan": "MemoryError: no room for a copy",
    "round": "no kernel on Sundays",
    "asinh": "no kernel on Mondays",
}


@pytest.mark.parametrize(
    ("op", "status"),
    [
        ("sin", "crash"),
        ("cos", "timeout"),
        ("ceil", "crash"),
        ("floor", "crash"),
        ("sign", "error"),
        ("erf", "error"),
        ("tan", "error"),
        ("round", "unsupported"),
        ("asinh", "unsupported"),
    ],
)
def test_debug_sessions_go_on(faulty, op, status):
    # Too large to come along with the answers.
    x = mo.Placeholder(shape=(300, 4), dtype="float32", name="x")
    data = np.tile(X, (100, 1))
    w = mo.Variable(data, name="w")
    h = mo.multiply(mo.tanh(mo.add(x, w, name="sum"), name="tanh"), w, name="product")
    bad = mo.apply(op, [h], name="bad")
    loss = mo.reduce_sum(mo.add(mo.exp(h, name="exp"), bad, name="both"), name="loss")
    faulty.close()  # one with another limit
    with mo.DebugSession() as session, limits(timeout=2.0, memory=6 << 30):
        report = session.run(loss, {x: data}, frameworks=["numpy", faulty])
    record = report.record("bad")
    assert record.status == status
    assert status == "unsupported" or (report.suspects[0] is record and record.output_delta == np.inf)
    assert WORDS[op] in record.message
    for other in report.records:
        if other is not record:
            assert (other.status, other.output_delta, other.gradient_delta) == ("ok", 0.0, 0.0), other


@pytest.mark.parametrize(("error", "status"), [(WorkerDied, "crash"), (WorkerTimeout, "timeout")])
def test_a_worker_lost_in_a_gradient_is_no_error_of_the_operator(error, status):
    def lost(g, y, x):
        raise error("the worker is gone")

    backend = mo.derive("numpy", name="numpy-lost", gradient={"tanh": lost})
    w = mo.Variable(X, name="w")
    loss = mo.reduce_sum(mo.tanh(w, name="tanh"), name="loss")
    report = mo.DebugSession(progress=False).run(loss, frameworks=["numpy", backend])
    assert [r.status for r in report.records] == ["ok", status]
    assert "tanh" in report.record("tanh").message


def test_a_worker_that_dies_in_a_derived_gradient(faulty):
    """The rule of sinh asks for cosh, which ends the process: seen from here, that is a pullback."""
    w = mo.Variable(X, name="w")
    loss = mo.reduce_sum(mo.sinh(mo.tanh(w, name="tanh"), name="sinh"), name="loss")
    report = mo.DebugSession(progress=False).run(loss, frameworks=["numpy", faulty])
    assert {r.node: r.status for r in report.records} == {"tanh": "ok", "sinh": "crash", "loss": "ok"}
    message = report.record("sinh").message
    assert message.startswith("the gradient of node 'sinh' (sinh) failed on faulty: ")
    assert "SIGSEGV" in message


PARENT = """
import sys, threading, time
import numpy as np
import metaop as mo
from tests.isolation.conftest import isolated
backend = isolated("faulty_backend")
print(backend.worker.pid, flush=True)
x = mo.Placeholder(shape=(2,), dtype="float32")
mo.Session(backend).run(mo.cos(x), {x: np.zeros(2, "float32")})
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_parent(kill):
    """Also where the worker hangs in an operator and the parent has no chance to say good-bye."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=root,
        text=True,
    )
    worker = int(parent.stdout.readline())
    assert alive(worker)
    assert not wait_for(lambda: not alive(worker), 0.5), "the worker hangs, as it should here"
    parent.send_signal(kill)
    assert wait_for(lambda: not alive(worker)), "the worker outlived its parent"
    parent.wait()
    parent.stdout.close()


def test_interrupt_ends_the_request_and_the_worker_is_replaced(faulty):
    x, y = chain("cos")
    pid = faulty.worker.pid
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        mo.Session(faulty).run(y, {x: X})
    assert wait_for(lambda: not alive(pid))
    x, good = chain("exp")
    assert np.array_equal(mo.Session(faulty).run(good, {x: X}), np.exp(X))


def test_threads_share_a_worker(nothing_left):
    backend = isolated()
    x, y = chain("tanh", "exp")
    wrong = []

    def work(seed):
        data = np.random.default_rng(seed).standard_normal((3, 4)).astype("float32")
        session = mo.Session(backend)
        for _ in range(20):
            if not np.array_equal(session.run(y, {x: data}), np.exp(np.tanh(data))):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    backend.close()


def test_tensors_are_freed_in_the_worker(nothing_left):
    backend = isolated()
    x, y = chain("tanh", "exp")
    for _ in range(50):
        mo.Session(backend).run(y, {x: X})
    # What is still held after the next request: the program's own last tensors at most.
    assert len(backend._free) < 20
    backend.close()


@pytest.mark.slow
def test_killed_two_hundred_times(nothing_left):
    """Workers die at random moments of debug sessions: every record that is not a crash is right."""
    backend = isolated()
    model = models.branching()
    clean = mo.DebugSession(progress=False).run(model.loss, model.feeds, frameworks=["numpy", backend])
    assert clean.consistent
    rng = np.random.default_rng(0)
    kills, crashes, stop = [], 0, threading.Event()

    def killer():
        while not stop.wait(float(rng.uniform(0.0, 0.12))) and len(kills) < 200:
            pid = backend.worker.pid
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                kills.append(pid)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        while thread.is_alive():
            try:
                report = mo.DebugSession(progress=False).run(model.loss, model.feeds, frameworks=["numpy", backend])
            except WorkerDied:
                continue  # killed before it said hello: there was no session yet
            assert [r.node for r in report.records] == [r.node for r in clean.records]
            for record in report.records:
                if record.status == "crash":
                    crashes += 1
                    assert "SIGKILL" in record.message or "took" in record.message or "not running" in record.message
                else:
                    assert (record.status, record.output_delta, record.gradient_delta) == ("ok", 0.0, 0.0), record
    finally:
        stop.set()
        thread.join()
        backend.close()
    assert len(kills) == 200
    assert crashes > 20


@pytest.mark.slow
def test_hung_at_random_moments(nothing_left):
    """As above, with workers that are stopped instead: a stop is waited out, the worker replaced, and the step done
    again; only a node that is hit twice is a timeout, and every other record is right.
    """
    backend = isolated()
    model = models.branching()
    clean = mo.DebugSession(progress=False).run(model.loss, model.feeds, frameworks=["numpy", backend])
    rng = np.random.default_rng(0)
    stopped, timeouts, stop = [], 0, threading.Event()

    def stopper():
        while not stop.wait(float(rng.uniform(0.0, 0.3))) and len(stopped) < 30:
            pid = backend.worker.pid
            if pid == backend.worker.about["pid"] and pid not in stopped:  # one that starts has other limits
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    continue
                stopped.append(pid)

    thread = threading.Thread(target=stopper)
    thread.start()
    try:
        while thread.is_alive():
            with limits(timeout=0.3):
                report = mo.DebugSession(progress=False).run(model.loss, model.feeds, frameworks=["numpy", backend])
            assert [r.node for r in report.records] == [r.node for r in clean.records]
            for record in report.records:
                if record.status == "timeout":
                    timeouts += 1
                    assert "no answer within 0.3 s" in record.message
                else:
                    assert (record.status, record.output_delta, record.gradient_delta) == ("ok", 0.0, 0.0), record
    finally:
        stop.set()
        thread.join()
        backend.close()
    assert len(stopped) == 30
    # Each was noticed, or the last ones would have gone on for ever.
    assert backend.worker.generation >= 30
    assert timeouts < 30
    assert not any(map(alive, stopped))


def address_space(pid):
    """The bytes that a process has mapped, which is what a memory limit counts."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_out_of_memory_here_and_there(nothing_left):
    """Wherever the memory of a worker ends, the node is told, and every other record is right."""
    backend = isolated()
    base = address_space(backend.worker.pid)
    backend.close()
    size = 9 << 20  # elements; so much is given back when it is freed, and does not come from what is kept
    x = mo.Placeholder(shape=(None,), dtype="float32", name="x")
    w = mo.Variable(np.float32(2), name="w")
    h = mo.multiply(mo.abs(x, name="abs"), w, name="product")
    loss = mo.reduce_mean(mo.add(mo.negative(h, name="negative"), h, name="sum"), name="loss")
    feed = {x: np.ones(size, "float32")}
    lost = set()
    for room in (1, 3, 5, 7):
        with limits(memory=base + room * 5 * size):
            report = mo.DebugSession(progress=False).run(loss, feed, frameworks=["numpy", backend])
        backend.close()
        for record in report.records:
            if record.status == "ok":
                assert (record.output_delta, record.gradient_delta) == (0.0, 0.0), record
            else:
                assert record.status in ("error", "crash")
                assert "the worker may take" in record.message, record.message
                lost.add((room, record.node))
    assert lost
    assert 5 <= len(lost) < 20, "the largest worker has room for some"


DEBUGGING = """
import numpy as np
import metaop as mo
from tests.isolation.conftest import isolated
x = mo.Placeholder(shape=(None,), dtype="float32", name="x")
w = mo.Variable(np.ones(1 << 18, "float32"), name="w")
loss = mo.reduce_sum(mo.exp(mo.multiply(x, w)))
while True:
    mo.DebugSession(progress=False).run(loss, {x: np.ones(1 << 18, "float32")}, frameworks=["numpy", isolated()])
"""


@pytest.mark.slow
def test_nothing_is_left_of_killed_sessions(nothing_left, tmp_path):
    """SIGKILL of the parent at any moment of its life, also while workers start."""
    root = Path(__file__).parents[2]
    rng = np.random.default_rng(0)
    for number in range(20):
        mark = f"METAOP_TEST_MARK={os.getpid()}.{number}"
        environment = {**os.environ, "TMPDIR": str(tmp_path), **dict([mark.split("=")])}
        parent = subprocess.Popen([sys.executable, "-c", DEBUGGING], cwd=root, env=environment)
        if number % 2:  # otherwise from its first moment on
            assert wait_for(lambda mark=mark: len(marked(mark)) > 1, 60.0), "no worker was started"
        time.sleep(float(rng.uniform(0.0, 0.6)))
        parent.kill()
        parent.wait()
        assert wait_for(lambda mark=mark: not marked(mark)), f"outlived their parent: {marked(mark)}"


def marked(variable):
    """The processes in whose environment a variable is."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in path.read_bytes().split(b"\0") and alive(path.parent.name):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
