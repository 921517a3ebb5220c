"""A run that was interrupted goes on from its journal, and its report is that of a run that was not."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metaop as mo
from benchmarks import debugged
from metaop.debug import journal
from metaop.debug.journal import Journal
from metaop.errors import UsageError

ROOT = Path(__file__).parents[2]
#: what no two runs have in common
VOLATILE = ("seconds", "bytes")


def network(seed: int = 0) -> debugged.Network:
    return debugged.mlp(layers=4, width=6, batch=3, seed=seed)


def faulty() -> str:
    """Wrong values, a wrong gradient, a NaN and an operator that raises."""

    def fail(*inputs: object, **attrs: object) -> object:
        raise ZeroDivisionError("injected")

    mo.derive("numpy", name="numpy-journal", forward={"tanh": lambda x: np.tanh(x) * np.float32(1.01)})
    mo.derive("numpy", name="numpy-failing", forward={"add": fail})
    return "numpy-journal"


def sides(net: debugged.Network) -> list[Any]:
    return ["numpy", {None: faulty(), net.node("bias2"): "numpy-failing"}]


def essence(report: mo.debug.DebugReport | str) -> Any:
    """The report without what no two runs have in common."""
    data = json.loads(report if isinstance(report, str) else report.to_json())
    for record in data["records"]:
        for field in VOLATILE:
            del record[field]
    return data


class Stop(KeyboardInterrupt):
    """What Ctrl-C raises, told from a real one."""


def stopping(after: int) -> Any:
    def progress(record: object, done: int, total: int) -> None:
        if done == after:
            raise Stop

    return progress


OPTIONS = [
    {"method": "sweep"},
    {"method": "auto"},
    {"method": "local"},
    {"method": "auto", "judge": "paper"},
    {"method": "sweep", "gradients": False},
]


def start(net: debugged.Network, out: Any, progress: Any = False, **options: Any) -> mo.debug.DebugReport:
    session = {k: options.pop(k) for k in ("judge", "seed", "tails", "threshold_output") if k in options}
    pair = options.pop("frameworks", None) or sides(net)
    with mo.DebugSession(progress=progress, **session) as sess:
        return sess.run(net.loss, net.feeds, frameworks=pair, out=out, **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_ten_interruptions(options: dict, tmp_path: Path) -> None:
    """At ten moments drawn at random, each in a folder of its own; and ten in a row in one."""
    net = network()
    expected = essence(start(net, None, **options))
    assert not expected["consistent"]
    total = len(net.operators) * (1 if options["method"] == "local" else 2)
    moments = sorted(random.Random(repr(options)).sample(range(1, total + 1), 10))
    for moment in moments:
        with pytest.raises(Stop):
            start(net, tmp_path / str(moment), stopping(moment), **options)
        assert essence(start(net, tmp_path / str(moment), **options)) == expected
    for moment in moments:
        with pytest.raises(Stop):
            start(net, tmp_path / "all", stopping(moment), **options)
    assert essence(start(net, tmp_path / "all", **options)) == expected
    # And once more, when nothing is left to do.
    assert essence(start(net, tmp_path / "all", **options)) == expected


def test_what_was_found_is_not_computed_again(tmp_path: Path) -> None:
    net, calls = network(), []
    reference = mo.ops()["tanh"].reference

    def counted(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return reference(x)

    mo.derive("numpy", name="numpy-counted", forward={"tanh": counted})
    pair = ["numpy", "numpy-counted"]
    start(net, tmp_path, frameworks=pair)
    first = len(calls)
    report = start(net, tmp_path, frameworks=pair)
    assert first > 0
    assert len(calls) <= 2 * first
    assert report.consistent
    calls.clear()
    local = tmp_path / "local"
    start(net, local, frameworks=pair, method="local")
    calls.clear()
    start(net, local, frameworks=pair, method="local")
    assert calls == [], "what is known is computed on A only, for the nodes below"


@pytest.mark.parametrize("cut", [1, 2, 20, 200])
def test_a_last_line_that_was_cut_off(tmp_path: Path, cut: int) -> None:
    net = network()
    expected = essence(start(net, tmp_path, method="sweep"))
    path = tmp_path / "run.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert essence(start(net, tmp_path, method="sweep")) == expected
    # What follows the cut was written on a line of its own.
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len([json.loads(line) for line in lines]) == len(whole.splitlines())


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x00", b"[]\n", b'{"what": "finding"}\n', b"null\n", b'{"what": "rm"}\n']
)
def test_lines_that_are_none(tmp_path: Path, garbage: bytes) -> None:
    """Nothing behind them counts, and they are gone afterwards."""
    net = network()
    expected = essence(start(net, tmp_path, method="sweep"))
    path = tmp_path / "run.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + garbage + b"".join(lines[5:]))
    assert essence(start(net, tmp_path, method="sweep")) == expected
    assert all(isinstance(json.loads(line), dict) for line in path.read_text(encoding="utf-8").splitlines())


def test_entries_of_the_right_kind_with_nothing_in_them(tmp_path: Path) -> None:
    """A journal is a file that people can edit: what cannot be read is computed again."""
    net = network()
    expected = essence(start(net, tmp_path, method="sweep"))
    path = tmp_path / "run.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    names = [n.name for n in net.operators]
    for spoiled in ({"what": "finding", "node": names[0]}, {"what": "swap", "node": "loss", "moved": 1}):
        path.write_text("\n".join([lines[0], json.dumps(spoiled)]) + "\n", encoding="utf-8")
        assert essence(start(net, tmp_path, method="sweep")) == expected


@pytest.mark.parametrize("content", [b"\n", b"hello\n", b"[1]\n", b"{}\n", b"\xff\xff\n"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is of another run") as caught:
        start(network(), tmp_path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("left", [0, 1, 40])
def test_a_header_that_was_cut_off(tmp_path: Path, left: int) -> None:
    net = network()
    expected = essence(start(net, tmp_path))
    path = tmp_path / "run.jsonl"
    path.write_bytes(path.read_bytes()[:left])
    assert essence(start(net, tmp_path)) == expected


def test_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a result depends on: graph, weights, data, options, frameworks and their versions."""
    net = network()
    start(net, tmp_path, method="local")
    before = (tmp_path / "run.jsonl").read_bytes()

    def refused(what: str, other: debugged.Network = net, **options: Any) -> None:
        with pytest.raises(UsageError, match=what) as caught:
            start(other, tmp_path, **({"method": "local"} | options))
        assert "Give another folder, or remove it" in str(caught.value)
        assert (tmp_path / "run.jsonl").read_bytes() == before

    refused("graph and data", network(seed=1))
    refused("graph and data", debugged.mlp(layers=3, width=6, batch=3))
    feeds = network()
    feeds.feeds.update({k: v + np.float32(v is feeds.feeds[k]) for k, v in feeds.feeds.items()})
    refused("graph and data", feeds)
    weights = network()
    (one, *_) = [n for n in mo.graph.order.execution_order([weights.loss]) if n.name == "w0"]
    one.assign(one.value + 1) if hasattr(one, "assign") else setattr(one, "value", one.value + 1)
    refused("graph and data", weights)
    refused("options", method="sweep")
    refused("options", judge="paper")
    refused("options", seed=1)
    refused("options", tails=True)
    refused("gradients", gradients=False)
    refused("frameworks", frameworks=["numpy", "numpy"])
    monkeypatch.setattr(type(mo.backends.get("numpy")), "version", lambda self: "0.0")
    refused("frameworks")


def test_the_same_graph_built_again_goes_on(tmp_path: Path) -> None:
    """Names that were given are part of a run; the numbers of nodes without a name are not needed for that."""
    with pytest.raises(Stop):
        start(network(), tmp_path, stopping(6))
    net = network()
    assert essence(start(net, tmp_path)) == essence(start(network(), None))


# -- disks -------------------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_ends_the_journal_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    expected = essence(start(net, None))
    written = []

    def full(path: Any, *arguments: Any, **options: Any) -> Any:
        written.append(path)
        if len(written) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return open(path, *arguments, **options)

    monkeypatch.setattr(journal, "open", full, raising=False)
    report = start(net, tmp_path)
    monkeypatch.undo()
    (note,) = [n for n in report.notes if "ends early" in n]
    assert str(tmp_path) in note
    assert "No space left" in note
    found = essence(report)
    found["notes"].remove(note)
    assert found == expected
    assert essence(start(net, tmp_path)) == expected


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting takes root")
def test_a_small_disk(tmp_path: Path) -> None:
    """A real one: a write may succeed in part."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(small)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        net = network()
        report = start(net, small)
        assert any("ends early" in note and "No space left" in note for note in report.notes)
        again = start(net, small)
        assert any("ends early" in note for note in again.notes)
        assert [r.score for r in again.records] == [r.score for r in report.records]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        start(network(), tmp_path / "file")
    with pytest.raises(UsageError, match="cannot be written"):
        start(network(), tmp_path / "file" / "below")
    (tmp_path / "taken" / "run.jsonl").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be written"):
        start(network(), tmp_path / "taken")


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start(network(), None)
    assert list(tmp_path.iterdir()) == []
    assert Journal().problem is None


# -- Ctrl-C at the command line ----------------------------------------------------------------------------------------


def command(model: Path, out: Path, report: Path) -> list[str]:
    arguments = ["localize", str(model), "--between", "numpy", "onnxruntime", "--gradients", "--method", "sweep"]
    return [sys.executable, "-m", "metaop", *arguments, "--json", str(report), "--out", str(out)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.metaop"
    net = debugged.cnn(blocks=5, channels=2, size=4)
    mo.save({"loss": net.loss}, path)
    return path


def test_ctrl_c_at_random_moments(saved: Path, tmp_path: Path) -> None:
    """A real signal to a real process; whenever it comes, the same command goes on and ends with the same report."""

    def lines() -> int:
        path = tmp_path / "out" / "run.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    expected = tmp_path / "expected.json"
    done = subprocess.run(command(saved, tmp_path / "other", expected), capture_output=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    total = len((tmp_path / "other" / "run.jsonl").read_bytes().splitlines())
    draw = random.Random(5)
    interrupted = 0
    for moment in sorted(draw.sample(range(1, total - 2), 10)):
        report = tmp_path / "report.json"
        process = subprocess.Popen(
            command(saved, tmp_path / "out", report),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        until = time.monotonic() + 60
        while lines() < moment and process.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err
        if process.returncode == 130:
            interrupted += 1
            (line,) = [text for text in err.splitlines() if text.startswith("metaop: ")]
            assert "interrupted" in line
            assert str(tmp_path / "out") in line
            assert "ended early" in out
            assert lines() >= moment
        else:
            assert process.returncode == 0, err
    assert interrupted >= 5
    last = subprocess.run(command(saved, tmp_path / "out", report), capture_output=True, cwd=ROOT, check=False)
    assert last.returncode == 0, last.stderr
    first, second = (essence(path.read_text(encoding="utf-8")) for path in (expected, report))
    assert first == second
