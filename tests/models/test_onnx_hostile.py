"""A thousand damaged and malicious ONNX files: each is read or refused in one clear message, quickly and cheaply."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import checks
from tests.models import hostile

ROOT = Path(__file__).resolve().parents[2]
FILES = 1000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are Linux's")
@pytest.mark.parametrize("through", ["library", "commands"])
def test_hostile_files(through: str, tmp_path: Path) -> None:
    first = checks.SEED * FILES
    program = [sys.executable, "-W", "ignore", "-m", "tests.models.hostile"]
    done = subprocess.run(
        [*program, str(tmp_path / "h"), str(first), str(FILES), through],
        capture_output=True,
        text=True,
        cwd=ROOT,
        # Each thread of the linear algebra would take memory of its own.
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == FILES
    assert [line for line in lines if line["status"] == "bug" or line["opened"]] == []
    assert max(line["seconds"] for line in lines) < hostile.SECONDS
    assert last["peak"] < hostile.MEMORY
    # A message is a line that says what is wrong, or a list with a line per node.
    refused = [line["why"] for line in lines if line["status"] == "refused"]
    assert all(why and "Traceback" not in why and why[0] != "\n" for why in refused)
    count = Counter(line["status"] for line in lines)
    assert count["refused"] > FILES // 2
    assert count["imported"] > FILES // 50


def test_the_program_sees_what_it_should(tmp_path: Path) -> None:
    """A reader that opens files elsewhere, takes memory or fails otherwise is caught."""
    code = """
import sys
from pathlib import Path
import numpy as np
import metaop as mo
from tests.models import hostile
faults = iter([lambda: open('/etc/hostname').close(), lambda: np.ones(1 << 28), lambda: 1 / 0])
read, calls = mo.from_onnx, []
def faulty(path):
    calls.append(path)
    if len(calls) > len(hostile.BASES):
        next(faults)()
    return read(path)
hostile.mo.from_onnx = faulty
hostile.main(Path(sys.argv[1]), 0, 3)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "h")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    opening, taking, failing = [json.loads(line) for line in done.stdout.splitlines()[:3]]
    assert opening["opened"] == ["/etc/hostname"]
    assert taking["status"] == "bug"
    assert taking["why"].startswith("MemoryError")
    assert failing["why"].startswith("ZeroDivisionError")
