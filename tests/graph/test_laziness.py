"""Importing metaop loads no framework and needs NumPy only; shown in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import metaop

ROOT = Path(metaop.__file__).resolve().parents[1]
FRAMEWORKS = {"torch", "tensorflow", "keras", "onnxruntime", "onnx", "jax", "mxnet", "google"}

SHOW_LOADED = f"""
import sys
loaded = {FRAMEWORKS | {"rich", "click"}!r} & {{name.partition(".")[0] for name in sys.modules}}
assert not loaded, loaded
"""

#: Hides all modules but those of the standard library, of NumPy and of metaop.
NUMPY_ONLY = """
import sys

VISIBLE = {"numpy", "metaop"}

class Gate:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        first = name.partition(".")[0]
        if first not in sys.stdlib_module_names and first not in VISIBLE:
            return None
        return self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = [Gate(finder) for finder in sys.meta_path]
"""


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_metaop_loads_no_framework() -> None:
    python("import metaop\n" + SHOW_LOADED)


def test_listing_backends_and_operators_loads_no_framework() -> None:
    python("import metaop as mo\nassert mo.backends()['numpy']\nassert len(mo.ops()) > 100\n" + SHOW_LOADED)


def test_building_a_graph_loads_no_framework() -> None:
    code = """
import metaop as mo
x = mo.Placeholder(shape=(2, 3), dtype="float32")
y = mo.relu(x @ mo.Variable([[1.0], [2.0], [3.0]]), backend="torch")
y.backend = "tensorflow"
with mo.Session() as sess:
    sess.run(mo.relu(x), {x: [[1, 2, 3], [4, 5, 6]]})
"""
    python(code + SHOW_LOADED)


def test_one_framework_loads_no_other() -> None:
    code = """
import sys
import metaop as mo
try:
    mo.Session("onnxruntime").run(mo.relu(mo.Variable([1.0])))
except mo.errors.MissingFrameworkError:
    pass
loaded = [name for name in ("torch", "tensorflow", "jax", "mxnet") if name in sys.modules]
assert not loaded, loaded
"""
    python(code)


def test_numpy_is_all_that_is_needed() -> None:
    code = (
        NUMPY_ONLY
        + """
import metaop as mo
import numpy as np

x = mo.Placeholder(name="x")
w = mo.Variable([[2.0]], name="w")
loss = mo.mse(x @ w, x)
with mo.Session(backend="numpy") as sess:
    assert sess.run(loss, {x: [[1.0], [3.0]]}) == 5.0
    (g,) = sess.gradients(loss, [w], {x: [[1.0], [3.0]]})
    assert g == 10.0
with mo.DebugSession(progress=False) as sess:
    off = mo.derive("numpy", name="numpy-off", forward={"mse": lambda p, t, reduction: np.float32(0)})
    report = sess.run(loss, {x: [[1.0], [3.0]]}, frameworks=["numpy", "numpy-off"])
    assert [r.node for r in report.suspects] == [loss.name]
"""
    )
    python(code)


def test_without_frameworks_each_is_reported_missing(tmp_path: Path) -> None:
    code = (
        NUMPY_ONLY
        + f"""
import os
import metaop as mo

# No environments either; and without this metaop would ask platformdirs, which it depends on.
os.environ["METAOP_HOME"] = {str(tmp_path)!r}
rows = mo.backends()
assert rows["numpy"].available
for name in ("torch", "tensorflow", "onnxruntime", "jax"):
    try:
        mo.Session(name)
    except mo.errors.MissingFrameworkError as error:
        assert "pip install" in str(error), error
    else:
        raise AssertionError(name + " must not load")
"""
    )
    python(code)


def test_import_is_fast() -> None:
    # Generous, for machines are busy; a framework that slips in takes a second and more by itself.
    code = """
import time
import numpy
start = time.process_time()
import metaop
print(time.process_time() - start)
"""
    assert min(float(python(code)) for _ in range(3)) < 1.0
