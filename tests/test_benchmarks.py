"""The benchmark of the overhead runs and says what it should; how long anything takes is no matter here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metaop as mo
from benchmarks import faults, paper
from benchmarks.bugs import BUGS
from benchmarks.chains import BY_HAND, CHAINS
from benchmarks.timing import QUICK, Effort, compare, geometric_mean
from tests import checks

ROOT = Path(__file__).parent.parent


def run(*options: str) -> tuple[str, dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("backend", [b for b in BY_HAND if b in checks.BACKENDS])
def test_chains(backend: str) -> None:
    text, report = run("--only", backend, "--ops", "add,softmax,reshape")
    assert report["skipped"] == {}
    assert set(report[backend]) == {"[1, 100]", "[256, 256]"}
    for part in report[backend].values():
        assert set(part) == {"ops", "geometric_mean"}
        assert set(part["ops"]) == {"add", "softmax", "reshape"}
        assert all(ratio > 0 for ratio in part["ops"].values())
        assert part["geometric_mean"] == pytest.approx(geometric_mean(part["ops"].values()), rel=1e-3)
    assert "geometric mean" in text


@pytest.mark.skipif("torch" not in checks.BACKENDS, reason="the networks run on PyTorch")
def test_networks() -> None:
    _, report = run("--only", "models")
    found = report["models"]
    assert set(found) == {"mobilenet", "transformer", "geometric_mean_forward", "geometric_mean_gradient"}
    assert all(found[name][what] > 0 for name in ("mobilenet", "transformer") for what in ("forward", "gradient"))


@pytest.mark.skipif("torch" not in checks.BACKENDS, reason="the networks run on PyTorch")
def test_imported_networks() -> None:
    command = [sys.executable, "-m", "benchmarks.models", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["imported"]
    assert set(found) == {"resnet50", "bert-base", "gpt2-small"}
    assert all(ratio > 0 for ratio in found.values())


@pytest.mark.skipif(not {"torch", "jax", "onnxruntime"} <= set(checks.BACKENDS), reason="faults go into these three")
def test_the_judgement(tmp_path: Path) -> None:
    kept, tables = tmp_path / "rows.jsonl", tmp_path / "tables.md"
    command = [sys.executable, "-m", "benchmarks.judgement", "--quick", "--part", "faults,clean"]
    command += ["--out", str(kept), "--write", str(tables)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["faults"] == {"count": 12, "found": 12, "first": 12, "verified": 12, "blamed": 12}
    assert found["clean"]["false_alarms"] == 0
    assert "| all | 12 | 12 (100.0%) |" in tables.read_text()
    # Nothing is computed again.
    rows = kept.read_text()
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert json.loads(again.stdout.splitlines()[-1]) == found
    assert kept.read_text() == rows


@pytest.mark.skipif("torch" not in checks.BACKENDS, reason="the networks run on PyTorch")
def test_the_localisation() -> None:
    command = [sys.executable, "-m", "benchmarks.localize", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == {"methods", "depth", "reduction", "memory"}
    for row in found["methods"].values():
        assert row["same"], "the sweep has other numbers than Algorithm 1 from scratch"
        assert set(row["first"]) == {row["place"]}


def test_bugs_name_what_is_wrong_or_why_not() -> None:
    assert len({bug.issue for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert (bug.network is None) == bool(bug.reason)
        if bug.network is not None:
            network = bug.network()
            assert 10 <= len(network.operators) <= 30
            assert network.node("bug").name == "bug"


def test_faults_without_effect_are_told() -> None:
    subject = faults.Subject("transformer")
    node = subject.network.node
    assert faults.without_effect("scaled", subject, node("layer0.q")) is None
    assert faults.without_effect("swapped_arguments", subject, node("layer0.sum0")) is not None, "commutative"
    assert faults.without_effect("swapped_arguments", subject, node("layer0.q")) is not None, "of other shapes"
    assert faults.without_effect("wrong_axis", subject, node("layer0.sum0")) is not None
    assert faults.without_effect("wrong_epsilon", subject, node("layer0.norm0")) is None
    assert faults.without_effect("stale", subject, node("layer0.sum0")) is not None, "its gradient has no data in it"
    assert faults.without_effect("stale", subject, node("layer0.gelu")) is None
    assert {f.kind for f in faults.draw(12, {"transformer": subject})[0]} == set(faults.KINDS)


def test_unknown_parts_are_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.overhead", "--only", "abacus"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "abacus" in done.stderr


def test_every_chain_is_written_by_hand_somewhere() -> None:
    assert all(chain.torch for chain in CHAINS.values())


def test_ratios() -> None:
    calls: list[str] = []

    def clock() -> float:
        # One second for each call of "ours", half of one for "theirs".
        return sum(1.0 if call == "ours" else 0.5 for call in calls)

    effort = Effort(sample=2.0, rounds=20, most=1000.0, clock=clock)
    found = compare(lambda: calls.append("ours"), lambda: calls.append("theirs"), effort)
    assert (found.ratio, found.ours, found.theirs) == (2.0, 1.0, 0.5)
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert QUICK.rounds < Effort().rounds


def test_the_papers_operators() -> None:
    assert len(paper.ROWS) == 20
    for row in paper.ROWS:
        assert len(row.marks) == len(paper.VERSIONS)
        node, inputs = paper._build(row)
        if row.op != "dropout":
            assert np.isfinite(mo.Session("numpy").run(node)).all()
        assert len(inputs) == len(row.shapes)


def test_the_papers_attention() -> None:
    loss, nodes = paper._figure_nine(["value"])
    exact = mo.Session("numpy").gradients(loss, nodes["value"]).reshape(3, 5)
    # Figure 9 prints the right gradient as MXNet's and the wrong one as TensorFlow's.
    np.testing.assert_allclose(exact, paper.VALUE_GRADIENT["mxnet"], rtol=1e-5)
    assert np.abs(exact - paper.VALUE_GRADIENT["tensorflow"]).max() > 0.9
    assert mo.Session("numpy").run(paper._multi_head()).shape == (1, 6, 16)


def test_the_papers_output_is_written_as_it_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "paper.md"
    out = paper.Output(str(file))
    out.head("Title", "a", "b")
    out.row("1", "2")
    assert file.read_text() == capsys.readouterr().out == "\n## Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


def test_unknown_parts_of_the_paper_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        paper.main(["--only", "abacus"])
    assert "abacus" in capsys.readouterr().err
