"""The worker's side of the conversation, served by a thread of this process."""

import socket
import threading

import numpy as np
import pytest

from metaop.backends import base, get
from metaop.backends.isolation import protocol, worker


@pytest.fixture
def ask(monkeypatch):
    for name, module in (("protocol", protocol), ("base", base)):
        monkeypatch.setattr(worker, name, module, raising=False)
    ours, theirs = (protocol.Channel(end) for end in socket.socketpair())
    server = worker.Server(theirs, get("numpy"), bytearray(4))
    thread = threading.Thread(target=server.serve)
    thread.start()

    def ask(header, tensors=()):
        ours.send(header, tensors)
        return ours.receive()

    ask.server = server
    yield ask
    ours.close()
    thread.join(5)
    assert not thread.is_alive()
    theirs.close()


X = np.arange(6, dtype="float32").reshape(2, 3)


def test_hello(ask):
    about, _ = ask({"do": "hello"})
    assert about["version"] == np.__version__
    assert about["gradients"] == "derived"
    assert about["reasons"]["relu"] is None


def test_call_keeps_and_sends_small_results(ask):
    header = {"do": "call", "op": "exp", "attrs": {}, "inputs": [1], "outputs": 10, "put": [1], "small": 100}
    answer, (found,) = ask(header, [X])
    assert answer["types"] == [["<f4", [2, 3]]]
    assert np.array_equal(found, np.exp(X))
    answer, (again,) = ask({"do": "fetch", "inputs": [10]})
    assert np.array_equal(again, found)
    answer, tensors = ask({"do": "call", "op": "exp", "attrs": {}, "inputs": [1], "outputs": 11, "small": 4})
    assert (answer["sent"], tensors) == ([], [])
    ask({"do": "fetch", "inputs": [], "free": [1, 10, 11]})
    assert ask.server.tensors == {}


def test_programs(ask):
    steps = [
        ["exp", {}, [0], [1], [0]],
        ["split", {"axis": 1, "split": [1, 2], "num_outputs": None}, [1], [2, 3], [1, 2]],
    ]
    answer, _ = ask({"do": "program", "id": 5, "steps": steps, "arguments": [0], "results": [3]})
    assert answer == {}
    header = {"do": "run", "id": 5, "inputs": [1], "outputs": 20, "put": [1], "fetch": True}
    answer, (found,) = ask(header, [X])
    assert np.array_equal(found, np.exp(X)[:, 1:])
    assert answer["count"] == 1
    ask({"do": "fetch", "inputs": [], "drop": [5]})
    assert ask.server.programs == {}


def test_gradients(ask):
    header = {
        "do": "linearize",
        "op": "multiply",
        "attrs": {},
        "inputs": [1, 2],
        "outputs": 9,
        "wrt": [1],
        "pullback": 7,
    }
    answer, _ = ask(dict(header, put=[1, 2]), [X, X + 1])
    answer, (found,) = ask({"do": "pull", "pullback": 7, "inputs": [3], "outputs": 30, "put": [3], "fetch": True}, [X])
    assert np.array_equal(found, X * X)
    assert answer["absent"] == []
    ask({"do": "fetch", "inputs": [], "forget": [7]})
    assert ask.server.pullbacks == {}


def test_failures_name_the_step(ask):
    bad = [["reshape", {"shape": [7]}, [0], [1], []]]
    ask({"do": "program", "id": 6, "steps": bad, "arguments": [0], "results": [1]})
    answer, _ = ask({"do": "run", "id": 6, "inputs": [1], "outputs": 40, "put": [1]}, [X])
    assert (answer["error"], answer["type"], answer["step"]) == ("failed", "ValueError", 0)
    answer, _ = ask(
        {"do": "program", "id": 8, "steps": [["nothing", {}, [0], [1], []]], "arguments": [0], "results": [1]}
    )
    assert (answer["error"], answer["step"]) == ("unsupported", 0)
    assert ask({"do": "hello"})[0]["python"], "and it goes on"
