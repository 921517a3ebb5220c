"""From a report to a capsule: of the worst suspect, with the data on which it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metaop as mo
from metaop.cli import main
from metaop.debug.records import DebugReport
from metaop.errors import UsageError
from tests import checks, models

needs_torch = pytest.mark.skipif("torch" not in checks.BACKENDS, reason="METAOP_TEST_BACKENDS leaves torch out")


def bent(x):
    return np.tanh(x) * np.float32(1.01)


def bent_by_torch(x):
    import torch

    return torch.tanh(x) * 1.01


def slanted(g, y, x):
    return (g * (1 - y * y) * np.float32(1.5),)


def session_of(wrong: str, first: str = "numpy") -> tuple[mo.DebugSession, DebugReport]:
    model = models.mlp(2)
    sess = mo.DebugSession(progress=False)
    return sess, sess.run(model.loss, model.feeds, frameworks=[first, wrong])


def run_script(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """In a clean process that cannot import metaop."""
    code = f"import sys; sys.modules['metaop'] = None; import runpy; runpy.run_path({name!r}, run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def assert_shows_the_difference(folder: Path, key: str) -> None:
    """The scripts, run by hand, give results that differ at ``key``, and the expected one is that of the right side."""
    for name in sorted(p.name for p in folder.glob("run_*.py")):
        done = run_script(folder, name)
        assert done.returncode == 0, done.stderr
    with np.load(folder / "expected.npz") as file:
        expected = dict(file)
    apart = {}
    for path in folder.glob("result_*.npz"):
        with np.load(path) as file:
            apart[path.stem] = float(np.abs(file[key].astype(np.float64) - expected[key]).max())
    assert len(apart) >= 2
    assert min(apart.values()) < 1e-5
    assert max(apart.values()) > 1e-3


def test_a_fault_of_numpy(tmp_path: Path) -> None:
    mo.derive("numpy", name="numpy-bent", forward={"tanh": bent})
    sess, report = session_of("numpy-bent")
    sess.verify(report.suspects[0])
    capsule = report.export(tmp_path / "capsule")
    assert capsule.reproduced, capsule.notes
    assert_shows_the_difference(tmp_path / "capsule", "output 0")
    readme = (tmp_path / "capsule" / "README.md").read_text(encoding="utf-8")
    assert "tanh is wrong on numpy-bent" in readme


@needs_torch
@pytest.mark.parametrize("turn", [1, -1])
def test_a_fault_of_torch(tmp_path: Path, turn: int) -> None:
    mo.derive("torch", name="torch-bent", forward={"tanh": bent_by_torch})
    model = models.mlp(2)
    sess = mo.DebugSession(progress=False)
    report = sess.run(model.loss, model.feeds, frameworks=["numpy", "torch-bent"][::turn])
    # Without a verification before, one is made.
    capsule = report.export(str(tmp_path / "capsule"))
    assert capsule.reproduced, capsule.notes
    assert_shows_the_difference(tmp_path / "capsule", "output 0")
    assert "torch-bent" in (tmp_path / "capsule" / "README.md").read_text(encoding="utf-8")


def test_a_fault_in_a_gradient(tmp_path: Path) -> None:
    mo.derive("numpy", name="numpy-slanted", gradient={"tanh": slanted})
    _, report = session_of("numpy-slanted")
    capsule = report.export(tmp_path / "capsule")
    assert capsule.reproduced, capsule.notes
    assert_shows_the_difference(tmp_path / "capsule", "gradient 0")


def test_the_data_are_those_of_the_worst_input(tmp_path: Path) -> None:
    x = mo.Placeholder(shape=(3,), dtype="float32", name="x")
    mo.derive("numpy", name="numpy-negative", forward={"tanh": bent_below_zero})
    feeds = [{x: np.float32([v, 1, 2])} for v in (1, -3, 4)]
    report = mo.DebugSession(progress=False).run(mo.tanh(x, name="bend"), feeds, frameworks=["numpy", "numpy-negative"])
    capsule = report.export(tmp_path / "capsule")
    assert capsule.reproduced, capsule.notes
    with np.load(tmp_path / "capsule" / "inputs.npz") as file:
        assert any(np.array_equal(file[k], np.float32([-3, 1, 2])) for k in file.files)


def bent_below_zero(x):
    return np.where(x < 0, np.float32(1.5), np.float32(1)) * np.tanh(x)


def test_a_consistent_report_has_nothing_to_show(tmp_path: Path) -> None:
    _, report = session_of("numpy")
    with pytest.raises(UsageError, match="no node is suspect"):
        report.export(tmp_path / "capsule")
    assert not (tmp_path / "capsule").exists()


def test_a_report_without_its_session(tmp_path: Path) -> None:
    mo.derive("numpy", name="numpy-bent", forward={"tanh": bent})
    _, report = session_of("numpy-bent")
    lone = DebugReport(**{f: getattr(report, f) for f in report.__dataclass_fields__ if f != "_source"})
    with pytest.raises(UsageError, match="was not made by a debug session"):
        lone.export(tmp_path / "capsule")


def test_folders_with_other_things_are_left_alone(tmp_path: Path) -> None:
    mo.derive("numpy", name="numpy-bent", forward={"tanh": bent})
    _, report = session_of("numpy-bent")
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="holds other things"):
        report.export(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


# -- at the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    w = mo.Variable(np.linspace(-1, 1, 6, dtype=np.float32), name="w")
    mo.save({"loss": mo.reduce_sum(mo.tanh(w, name="bend"), name="loss")}, tmp_path / "net.metaop")
    return tmp_path / "net.metaop"


def test_localize_export(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mo.derive("numpy", name="numpy-bent", forward={"tanh": bent})
    folder = tmp_path / "capsule"
    arguments = ["localize", str(saved), "--between", "numpy", "numpy-bent", "--export", str(folder)]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert f"capsule: {folder}, reproduced" in out
    assert json.loads((folder / "versions.json").read_text(encoding="utf-8"))["format"] == "metaop capsule"
    assert_shows_the_difference(folder, "output 0")
    # Again, in place of the old one.
    assert main(arguments) == 1


def test_localize_exports_nothing_where_nothing_differs(saved: Path, tmp_path: Path) -> None:
    assert main(["localize", str(saved), "--between", "numpy", "numpy", "--export", str(tmp_path / "capsule")]) == 0
    assert not (tmp_path / "capsule").exists()


def test_localize_export_to_a_folder_of_others(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mo.derive("numpy", name="numpy-bent", forward={"tanh": bent})
    assert main(["localize", str(saved), "--between", "numpy", "numpy-bent", "--export", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "blame: numpy-bent" in captured.out, "what was found is told all the same"
    (line,) = captured.err.splitlines()
    assert "holds other things than a capsule" in line
