"""Capsules: every script gives the bits that metaop got, and knows nothing of metaop."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import metaop as mo
from metaop.backends import get
from metaop.backends.isolation import environments
from metaop.debug.capsule import Case, compare, write_capsule
from metaop.debug.capsule import data as files
from metaop.debug.capsule.case import evaluate
from metaop.debug.capsule.models import write_model
from metaop.debug.capsule.places import Place
from metaop.debug.capsule.scripts import TorchScript, script_class
from metaop.debug.capsule.source import NotExtracted, Writer, global_names
from metaop.errors import UserError
from metaop.graph.nodes import Operator, Placeholder
from metaop.ops import REGISTRY
from metaop.types import is_floating
from tests import checks

#: runs many scripts in one process, in which metaop cannot be imported
RUN_ALL = """
import os, runpy, sys, traceback, json
sys.modules["metaop"] = None
failed = {}
for folder in sys.argv[1:]:
    os.chdir(folder)
    try:
        runpy.run_path("run.py", run_name="__main__")
    except Exception as error:
        failed[folder] = traceback.format_exc()
with open("failed.json", "w") as file:
    json.dump(failed, file)
"""


def case_of(sample: checks.Case, spec: str) -> Case:
    """A sample of an operator as a case, with gradients where there are any."""
    op, arrays = sample.op, sample.inputs()
    leaves = [None if a is None else Placeholder(a.shape, a.dtype, name=f"x{i}") for i, a in enumerate(arrays)]
    node = Operator(op, tuple(leaves), sample.attrs, sample.output_types, op.name)
    inputs = {(n, 0): a for n, a in zip(leaves, arrays, strict=True) if n is not None}
    outputs = tuple((node, i) for i in range(len(node.types)))
    incoming = {}
    if op.differentiable:
        grads = checks.incoming_gradients(sample.output_types, 0)
        incoming = {v: g for v, g in zip(outputs, grads, strict=True) if g is not None}
    wrt = tuple(v for v, a in inputs.items() if is_floating(a.dtype)) if incoming else ()
    return Case((node,), {node: sample.attrs}, inputs, outputs, incoming, wrt, (get(spec), get(spec)), {}, None, "", [])


def samples(name: str, spec: str) -> list[checks.Case]:
    op = REGISTRY[name]
    found = [c for c in checks.cases(op, [checks.main_dtype(op)], special=False) if checks.ordinary(c)]
    return found[:1] if spec == "jax" else [found[i] for i in sorted({0, len(found) - 1})]


def write(folder: Path, case: Case, spec: str, slug: str):
    """The script of a case and what it reads; what metaop got."""
    backend = get(spec)
    got = evaluate(case, backend)
    if got.failure is not None:
        return got
    place = Place.of(backend)
    script = script_class(place.framework)(case, backend, got, slug, place.version)
    folder.mkdir()
    text = script.text()
    compile(text, "run.py", "exec")
    (folder / "run.py").write_text(text)
    files.write(folder / "inputs.npz", case.data)
    for name, arrays in script.files.items():
        files.write(folder / name, arrays)
    if place.framework == "onnxruntime":
        for kind, file in (("output", "model_x.onnx"), ("gradient", "gradient_x.onnx")):
            nodes = {k: v for k, v in got.graph.items() if k.startswith(kind)}
            if nodes:
                write_model(folder / file, nodes, place)
    return got


def sweep(spec: str, ops, folder: Path, chosen=samples):
    """What is wrong with the scripts of a backend, and how many operators are right."""
    wanted, wrong = {}, {}
    for name in ops:
        if get(spec).support(name)[0] == "unsupported":
            continue
        for number, sample in enumerate(chosen(name, spec)):
            place = folder / f"{name}-{number}"
            try:
                got = write(place, case_of(sample, spec), spec, "x")
            except (NotExtracted, SyntaxError) as error:
                wrong[place.name] = repr(error)
                continue
            if got.failure is None:
                wanted[place] = got.arrays
    places = list(wanted)
    done = subprocess.run(
        [Place.of(get(spec)).python, "-I", "-c", RUN_ALL, *map(str, places)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    failed = json.loads((places[-1] / "failed.json").read_text())
    for place, arrays in wanted.items():
        if str(place) in failed:
            wrong[place.name] = failed[str(place)]
            continue
        mine = {files.file_name(k, a.dtype): files.stored(a) for k, a in arrays.items()}
        apart = files.differ(mine, files.read(place / "result_x.npz"))
        if apart:
            wrong[place.name] = f"other bits of {apart}"
    return wrong, {p.name.rpartition("-")[0] for p in wanted} - {n.rpartition("-")[0] for n in wrong}


@pytest.mark.parametrize(
    "spec", ["numpy", "torch", "tensorflow", "onnxruntime", pytest.param("jax", marks=pytest.mark.slow)]
)
def test_scripts_of_every_operator(spec, tmp_path):
    wrong, right = sweep(spec, checks.OPS, tmp_path)
    assert wrong == {}
    assert len(right) > 150


# -- whole folders -----------------------------------------------------------------------------------------------------


def single(op, arrays, specs, *, attrs=None, gradient=None, expected=None, name="suspect", **given):
    """One operator between two backends; ``gradient`` is the incoming one."""
    meta = REGISTRY[op]
    leaves = [None if a is None else Placeholder(a.shape, a.dtype, name=f"x{i}") for i, a in enumerate(arrays)]
    full = meta.complete(attrs or {})
    types = meta.infer([None if n is None else n.type for n in leaves], full)
    node = Operator(meta, tuple(leaves), full, types, name)
    inputs = {(n, 0): a for n, a in zip(leaves, arrays, strict=True) if n is not None}
    incoming = {} if gradient is None else {(node, 0): gradient}
    wrt = tuple(v for v, a in inputs.items() if is_floating(a.dtype)) if incoming else ()
    outputs = tuple((node, i) for i in range(len(types)))
    told = {"blame": None, "title": f"{op} differs", "evidence": [], **given}
    return Case((node,), {node: full}, inputs, outputs, incoming, wrt, tuple(map(get, specs)), expected or {}, **told)


DET = {
    "output 0": np.float64(0),
    "gradient 0": np.array([[4.0, -2.0], [-2.0, 1.0]]),
}
SINGULAR = np.float32([[1, 2], [2, 4]])


def run_by_hand(folder, script, python=sys.executable):
    """A script, or compare.py, as whoever gets the folder runs it."""
    return subprocess.run([python, script], cwd=folder, capture_output=True, check=False)


def test_a_real_bug(tmp_path):
    """pytorch#104675: the gradient of the determinant of a singular matrix."""
    case = single(
        "det", [SINGULAR], ("torch", "numpy"), gradient=np.float32(1), expected=DET, blame="torch", evidence=["e"]
    )
    capsule = write_capsule(case, tmp_path / "det")
    assert capsule.notes == []
    assert capsule.reproduced
    assert bool(capsule)
    assert capsule.scripts == ["run_torch.py", "run_numpy.py"]
    names = {p.name for p in capsule.folder.iterdir()}
    assert names == {
        *("README.md", "compare.py", "versions.json", "model.onnx", "inputs.npz", "expected.npz"),
        *("got_torch.npz", "got_numpy.npz", "run_torch.py", "run_numpy.py"),
        *("requirements_torch.txt", "requirements_numpy.txt"),
    }
    assert "torch==2.13.0" in (capsule.folder / "requirements_torch.txt").read_text()
    source = (capsule.folder / "run_torch.py").read_text()
    assert "torch.linalg.det(x)" in source
    assert "import metaop" not in source
    assert "from metaop" not in source
    assert run_by_hand(capsule.folder, "run_torch.py").returncode == 0
    found = files.read(capsule.folder / "result_torch.npz")
    assert not found["gradient 0"].any()
    table = run_by_hand(capsule.folder, "compare.py").stdout.decode().splitlines()
    row = next(line.split() for line in table if line.startswith("gradient 0") and "result_torch" in line)
    assert row[:8] == ["gradient", "0", "expected", "against", "result_torch", "4", "2.25", "4"]
    readme = (capsule.folder / "README.md").read_text()
    inline = readme.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "pasted.py").write_text(inline)
    printed = run_by_hand(tmp_path, "pasted.py").stdout.decode()
    assert "gradient 0: [[0.0, -0.0], [-0.0, 0.0]]" in printed


def leaky(x):
    return torch.where(x > LIMIT, x, SLOPE * x)


LIMIT, SLOPE = 0.0, 0.5


def test_a_function_given_to_derive(tmp_path):
    x = np.float32([-1, 0, 2])
    mo.derive("torch", name="torch-leaky", forward={"relu": leaky})
    capsule = write_capsule(single("relu", [x], ("torch-leaky", "torch"), gradient=x + 1), tmp_path / "relu")
    assert capsule.reproduced, capsule.notes
    assert (
        "def relu(x):\n    return torch.where(x > 0.0, x, 0.5 * x)"
        in (capsule.folder / "run_torch_leaky.py").read_text()
    )
    factor = 1.5
    mo.derive("numpy", name="numpy-off", forward={"relu": lambda x: np.maximum(x, 0) * np.float32(factor)})
    capsule = write_capsule(single("relu", [x], ("numpy-off", "torch")), tmp_path / "lambda")
    assert capsule.reproduced, capsule.notes
    mo.derive("torch", name="torch-off", gradient={"relu": lambda g, y, x: (g * 2,)})
    capsule = write_capsule(single("relu", [x], ("torch-off", "torch"), gradient=x + 1), tmp_path / "gradient")
    assert capsule.reproduced, capsule.notes


def test_a_function_that_is_not_its_own(tmp_path):
    x, holder = np.float32([-1, 0, 2]), object()
    mo.derive("torch", name="torch-odd", forward={"relu": lambda x: x if holder else None})
    capsule = write_capsule(single("relu", [x], ("torch-odd", "torch")), tmp_path / "relu")
    assert not capsule.reproduced
    assert any("torch-odd: no script could be written" in note and "holder" in note for note in capsule.notes)
    assert "do not reproduce" in (capsule.folder / "README.md").read_text()


def two_nodes(specs):
    x = Placeholder((2, 3), "float32", name="x")
    first = mo.sigmoid(x)
    second = mo.multiply(first, x)
    rng = np.random.default_rng(0)
    data = rng.standard_normal((2, 3)).astype("float32")
    return Case(
        nodes=(first, second),
        attrs={first: first.attrs, second: second.attrs},
        inputs={(x, 0): data},
        outputs=((second, 0), (first, 0)),
        incoming={(second, 0): data + 1, (first, 0): data - 1},
        wrt=((x, 0),),
        backends=tuple(map(get, specs)),
        expected={},
        blame=None,
        title="two",
        evidence=[],
    )


@pytest.mark.parametrize("specs", [("torch", "onnxruntime"), ("tensorflow", "jax")])
def test_two_operators(specs, tmp_path):
    capsule = write_capsule(two_nodes(specs), tmp_path / "two")
    agree = [n for n in capsule.notes if "no difference" not in n]
    assert agree == []
    for spec in specs:
        assert run_by_hand(capsule.folder, f"run_{spec}.py").returncode == 0
        found = files.read(capsule.folder / f"result_{spec}.npz")
        assert files.differ(files.read(capsule.folder / f"got_{spec}.npz"), found) == []


def test_onnx_runtime_needs_nothing_else(tmp_path):
    """onnxruntime#10514: the maximum of NaN. Of what its script imports, only NumPy and ONNX Runtime are installed."""
    case = single("reduce_max", [np.float32([1, np.nan, 2])], ("onnxruntime", "numpy"))
    capsule = write_capsule(case, tmp_path / "max")
    assert capsule.reproduced, capsule.notes
    blocked = (
        "import sys, runpy\n"
        "for name in ('metaop', 'onnx', 'torch', 'tensorflow', 'jax', 'ml_dtypes'): sys.modules[name] = None\n"
        "runpy.run_path('run_onnxruntime.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-I", "-c", blocked], cwd=capsule.folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_old_release_in_its_environment(tmp_path):
    environments.create("mxnet==1.6.0")
    rng = np.random.default_rng(0)
    a, b, g = (rng.standard_normal(s).astype("float32") for s in ((1, 1, 5, 3), (1, 1, 3, 2), (1, 1, 5, 2)))
    case = single("einsum", [a, b], ("torch", "mxnet==1.6.0"), attrs={"equation": "bnij,bnjc->bnic"}, gradient=g)
    capsule = write_capsule(case, tmp_path / "einsum")
    assert capsule.reproduced, capsule.notes
    python = environments.find("mxnet", "1.6.0").interpreter
    assert subprocess.run([python, "-c", "import metaop"], capture_output=True, check=False).returncode
    assert run_by_hand(capsule.folder, "run_mxnet_1.6.0.py", python).returncode == 0
    assert "mxnet==1.6.0" in (capsule.folder / "requirements_mxnet_1.6.0.txt").read_text()
    one, other = (files.read(capsule.folder / f"got_{s}.npz") for s in ("torch", "mxnet_1.6.0"))
    assert np.abs(one["gradient 0"] - other["gradient 0"]).max() > 0.1


@pytest.mark.parametrize(
    ("op", "arrays", "attrs", "specs"),
    [
        ("add", [np.float32(1.5), np.float32(2)], {}, ("torch", "numpy")),
        ("add", [np.zeros((0, 3), "int64"), np.zeros((0, 3), "int64")], {}, ("torch", "tensorflow")),
        ("logical_and", [np.array([True, False]), np.array([True, True])], {}, ("torch", "numpy")),
        ("cast", [np.float32([1, np.nan, 3])], {"to": "bfloat16"}, ("torch", "numpy")),
    ],
    ids=["scalar", "empty", "bool", "dtype"],
)
def test_all_kinds_of_data(op, arrays, attrs, specs, tmp_path):
    capsule = write_capsule(single(op, arrays, specs, attrs=attrs), tmp_path / "data")
    expected = ("no difference", "takes no bfloat16")
    assert [n for n in capsule.notes if not any(words in n for words in expected)] == []


@pytest.mark.parametrize("specs", [("torch", "numpy"), ("tensorflow", "jax")])
def test_bfloat16(specs, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([[1, 2.5], [-3, 4]], ml_dtypes.bfloat16)
    capsule = write_capsule(single("multiply", [x, x], specs, gradient=x), tmp_path / "data")
    assert [n for n in capsule.notes if "no difference" not in n and "takes no bfloat16" not in n] == []


def test_a_script_that_computes_something_else_is_found_out(tmp_path, monkeypatch):
    text = TorchScript.text

    def tampered(self, inline=False):
        return text(self, inline).replace("torch.linalg.det(x)", "torch.linalg.det(2 * x)")

    monkeypatch.setattr(TorchScript, "text", tampered)
    matrix = np.float32([[1, 2], [3, 4]])
    capsule = write_capsule(single("det", [matrix], ("torch", "numpy")), tmp_path / "det")
    assert not capsule.reproduced
    assert any("torch: the script gave other bits" in note for note in capsule.notes)


def test_without_a_difference_nothing_is_reproduced(tmp_path):
    x = np.float32([1, 2])
    capsule = write_capsule(single("negative", [x], ("torch", "numpy")), tmp_path / "same")
    assert not capsule.reproduced
    assert capsule.notes == ["both backends give the same: there is no difference to reproduce"]


def test_a_failure_is_a_difference(tmp_path):
    capsule = write_capsule(
        single("average_pool1d", [np.ones((1, 1, 5), "float32")], ("torch", "numpy"), attrs=POOL), tmp_path / "pool"
    )
    assert capsule.reproduced, capsule.notes
    assert "torch fails: torch: its average pooling has no dilations" in (capsule.folder / "README.md").read_text()


POOL = {"kernel_shape": (2,), "dilations": (2,)}


NASTY = "x\"\"\"\n'''\n# heading\n```sh\nrm -rf $HOME\n``` @user #1 <img src=x> ../../etc \u2028"


def test_names_of_strangers(tmp_path):
    case = single(
        "det", [SINGULAR], ("torch", "numpy"), gradient=np.float32(1), name=NASTY, title=NASTY, evidence=[NASTY] * 2
    )
    capsule = write_capsule(case, tmp_path / "nasty")
    assert capsule.reproduced, capsule.notes
    for path in capsule.folder.iterdir():
        if path.name != "README.md":
            assert b"heading" not in path.read_bytes(), path.name
    lines = (capsule.folder / "README.md").read_text().splitlines()
    assert lines[0].startswith("# x")
    assert "@" not in lines[0]
    assert "<img" not in lines[0].replace("\\<", "")
    fence, outside = None, []
    for line in lines:
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence is None and len(ticks) >= 3 and "`" not in line[len(ticks) :]:
            fence = ticks
        elif fence is not None and line == fence:
            fence = None
        elif fence is None:
            outside.append(line)
    assert fence is None
    assert not any(line.startswith(("# heading", "rm ")) for line in outside)


def test_folders_that_are_no_capsules_stay(tmp_path):
    case = single("negative", [np.float32([1])], ("numpy", "numpy"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years")
    with pytest.raises(UserError, match="holds other things"):
        write_capsule(case, tmp_path / "full")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="not a folder"):
        write_capsule(case, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    for _ in range(2):  # an empty folder, then the capsule that is there
        write_capsule(case, tmp_path / "empty")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "file", "full"]


def test_a_case_that_makes_no_sense(tmp_path):
    case = single("negative", [np.float32([1])], ("numpy", "torch"))
    with pytest.raises(UserError, match="neither an input nor computed"):
        replace(case, inputs={})
    with pytest.raises(UserError, match="there are none"):
        replace(case, wrt=tuple(case.inputs))
    with pytest.raises(UserError, match=r"is float32\[2\]; the value is float32\[1\]"):
        replace(case, incoming={case.outputs[0]: np.float32([1, 2])})


# -- the parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64", "bool"])
def test_arrays_as_source(dtype):
    rng = np.random.default_rng(0)
    for array in (
        rng.standard_normal((3, 50)) * 100,
        np.array(-0.0),
        np.zeros((2, 0)),
        np.full((4, 4), 3.0),
        np.array([[np.nan, np.inf], [-np.inf, -0.0]]) if dtype.startswith("float") else np.ones(1),
        np.array([np.iinfo(dtype).max if "int" in dtype else 1], dtype),
    ):
        with np.errstate(all="ignore"):
            given = np.abs(array).astype(dtype) if dtype == "uint64" else array.astype(dtype)
        found = eval(files.array_literal(given), {"np": np})
        assert files.same_bits(found, given), files.array_literal(given)


def test_names_that_two_files_share():
    writer = Writer({"VERSION": (2, 13)}, ["arrays"])
    writer.binding("metaop.backends.torch", "quantize_linear")
    writer.binding("metaop.backends.torch", "hann_window")
    assert writer.text().count("DTYPES = {") == 1
    assert writer.text().count("DTYPES_ = {") == 1
    scope = {}
    exec("\n".join([*writer.imports, writer.text()]), scope)
    assert scope["hann_window"](size=4, periodic=True, output_datatype=np.dtype("float64")).dtype is torch.float64


def test_a_name_that_hides_a_builtin():
    writer = Writer({"VERSION": (2, 13)})
    found = writer.binding("metaop.backends.torch", "range")
    assert found.function == "range_"
    assert "def range_(" in writer.text()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x, y=A): return B(x) + [z for z in C if z]", {"A", "B", "C"}),
        ("def f():\n    def g():\n        return h\n    h = A\n    return g", {"A"}),
        ("f = lambda x, *y, z=A: x + y + z + B", {"f", "A", "B"}),
        ("class F(A):\n    b = 1\n    def g(self): return b", {"A", "b"}),
        ("def f(x: A) -> B:\n    try:\n        return x\n    except C as e:\n        return e", {"C"}),
    ],
)
def test_names_that_come_from_outside(source, names):
    assert {n.id for n in global_names(ast.parse(source).body[0])} == names


def test_compare_sees_every_difference():
    nan, inf = np.nan, np.inf
    assert compare.distances(np.array([1.0, nan]), np.array([1.0, nan])) == (0, 0, 0)
    assert compare.distances(np.array([1.0, nan]), np.array([1.0, 2.0])) == (inf, inf, 1)
    assert compare.distances(np.array([inf]), np.array([-inf])) == (inf, inf, 1)
    assert compare.distances(np.ones(2), np.ones(3)) == (inf, inf, 3)
    assert compare.distances(np.array([2**62]), np.array([2**62 + 1])) == (1, 1, 1)
    assert compare.distances(np.array([True]), np.array([False])) == (1, 1, 1)
    assert compare.distances(np.zeros(0), np.zeros(0)) == (0, 0, 0)
