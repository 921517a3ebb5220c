"""``mo.save`` and ``mo.load``: the same model comes back, and nothing else is believed."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import metaop as mo
from metaop.models.store import FORMAT
from metaop.ops import REGISTRY
from tests import models
from tests.checks import cases, main_dtype


def round_trip(outputs, tmp_path):
    mo.save(outputs, tmp_path / "m.metaop")
    return mo.load(tmp_path / "m.metaop")


@pytest.mark.parametrize("build", [models.mlp, models.cnn, models.attention, models.branching])
def test_models_come_back(build, tmp_path):
    model = build()
    loaded = round_trip({"loss": model.loss}, tmp_path)
    feeds = {n.name: a for n, a in model.feeds.items()}
    assert np.array_equal(loaded.run(feeds)["loss"], mo.Session().run(model.loss, model.feeds))
    order = mo.graph.order.execution_order([model.loss])
    assert [(type(n), n.name, n.type) for n in mo.graph.order.execution_order(loaded.outputs)] == [
        (type(n), n.name, n.type) for n in order
    ]


@pytest.mark.parametrize("name", REGISTRY)
def test_every_operator_comes_back(name, tmp_path):
    op = REGISTRY[name]
    for case in cases(op, [main_dtype(op)]):
        arrays = case.inputs()
        inputs = [None if a is None else mo.Placeholder(a.shape, a.dtype, name=f"x{i}") for i, a in enumerate(arrays)]
        made = mo.apply(name, inputs, case.attrs, name="node")
        loaded = round_trip(made, tmp_path)
        node = loaded.outputs[0].producer
        original = (made[0] if isinstance(made, tuple) else made).producer
        assert repr(node.attrs) == repr(original.attrs)  # repr, for nan is not equal to itself
        assert (node.op, node.types) == (original.op, original.types)
        assert [None if n is None else n.name for n in node.inputs] == [
            None if n is None else n.name for n in original.inputs
        ]


def test_everything_about_nodes_comes_back(tmp_path):
    x = mo.Placeholder(name="x")
    unused = mo.Placeholder((2, None), "int64", name="unused")
    w = mo.Variable(np.float64([1.5]), name="w")
    half = mo.Constant(np.float16(0.5), name="half")
    scaled = x * 2.0  # a weak constant: x has no dtype yet
    first = mo.exp(scaled, name="first", backend="torch")
    second = mo.reshape(first, shape=mo.shape_of(first, name="sizes"), name="second").run_after(w)
    parts = mo.split(second, num_outputs=2, name="parts")
    noisy = mo.dropout(parts[1], ratio=0.5, name="noisy")
    clipped = mo.clip(noisy, min=-np.inf, name="clipped")
    kept = mo.cast(half, to="float32", name="kept")
    model = mo.Model([unused, x], {"a": clipped, "b": parts[0], "c": kept, "d": w}, "everything")
    loaded = round_trip(model, tmp_path)
    assert (loaded.name, loaded.output_names) == ("everything", ["a", "b", "c", "d"])
    assert [n.name for n in loaded.inputs] == ["unused", "x"]
    assert loaded.inputs[0].type == unused.type
    assert loaded.node("first").backend == "torch"
    assert [n.name for n in loaded.node("second").controls] == ["w"]
    assert loaded.node("parts.1").index == 1
    for name in ("w", "half"):
        assert loaded.node(name).value.dtype == {"w": w, "half": half}[name].value.dtype
    for dtype in ("float32", "float64"):
        data = np.linspace(0, 1, 4, dtype=dtype)
        mo.save(mo.Model([x], {"b": parts[0]}), tmp_path / "weak.metaop")
        result = mo.load(tmp_path / "weak.metaop").run({"x": data}, outputs=["first"], backend="numpy")["first"]
        assert result.dtype == dtype
        assert np.array_equal(result, mo.Session().run(first, {x: data})), "on torch, where the node is bound"


def test_bfloat16_in_a_process_that_never_saw_it(tmp_path):
    w = mo.Variable(mo.Session().run(mo.cast(mo.Constant(np.float32([1.5, 2])), to="bfloat16")), name="w")
    mo.save({"y": mo.negative(w, name="y")}, tmp_path / "m.metaop")
    code = "import sys, metaop as mo; print(mo.load(sys.argv[1]).run({})['y'].tolist())"
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", code, str(tmp_path / "m.metaop")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[-1.5, -2.0]", "")


def test_random_data_are_drawn_alike(tmp_path):
    x = mo.Placeholder((64,), "float32", name="x")
    y = mo.dropout(x, ratio=0.5, training=True, name="drop")
    data = {"x": np.ones(64, "float32")}
    loaded = round_trip({"y": y}, tmp_path)
    assert np.array_equal(loaded.run(data)["y"], mo.Model([x], {"y": y}).run(data)["y"])


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    x = mo.Placeholder(name="x")
    path = tmp_path / "m.metaop"
    mo.save({"y": mo.exp(x, name="old")}, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(mo.ModelError, match="cannot be written: No space left"):
        mo.save({"y": mo.sin(x, name="new")}, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.metaop"]
    monkeypatch.undo()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    with pytest.raises(mo.ModelError, match="cannot be written"):
        mo.save({"y": x}, tmp_path / "nowhere" / "m.metaop")


# -- files that lie ----------------------------------------------------------------------------------------------------


@pytest.fixture
def spoil(tmp_path):
    """The error for a file whose structure was changed by a function."""
    x = mo.Placeholder((2,), "float32", name="x")
    w = mo.Variable(np.float32([1, 2]), name="w")
    mo.save({"y": mo.leaky_relu(mo.add(x, w, name="sum"), alpha=0.5, name="act")}, tmp_path / "good.metaop")

    def spoiled(change, drop=()):
        with safe_open(tmp_path / "good.metaop", framework="numpy") as file:
            structure = json.loads(file.metadata()["metaop"])
            tensors = {key: file.get_tensor(key) for key in file.keys() if key not in drop}  # noqa: SIM118  no mapping
        changed = change(structure)
        save_file(tensors, tmp_path / "bad.metaop", {"metaop": json.dumps(structure if changed is None else changed)})
        with pytest.raises(mo.ModelError) as caught:
            mo.load(tmp_path / "bad.metaop")
        return str(caught.value)

    return spoiled


def test_newer_files_say_so(spoil):
    text = spoil(lambda s: s.update(format=FORMAT + 1, library="99.0"))
    assert f"version {FORMAT + 1}" in text
    assert "99.0" in text
    assert "install a newer one" in text


def node(structure, name):
    return next(n for n in structure["nodes"] if n["name"] == name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s.pop("format"), "which version"),
        (lambda s: s.update(format=True), "which version"),
        (lambda s: [], "which version"),
        (lambda s: s.update(nodes=None), "damaged"),
        (lambda s: node(s, "act").update(op="fly"), "'fly', which metaop"),
        (lambda s: node(s, "act").update(attrs={"alpha": "x"}), "takes a number"),
        (lambda s: node(s, "act").update(attrs={"alpha": {"code": "x"}}), "no attribute is written"),
        (lambda s: node(s, "act").update(attrs={"beta": 1.0}), "no attribute 'beta'"),
        (lambda s: node(s, "act").update(inputs=[[99, 0]]), "99 is no number"),
        (lambda s: node(s, "act").update(inputs=[[-1, 0]]), "-1 is no number"),
        (lambda s: node(s, "act").update(inputs=[[True, 0]]), "True is no number"),
        (lambda s: node(s, "act").update(inputs=[[3, 0]]), "3 is no number"),
        (lambda s: node(s, "act").update(inputs=[[0, 1]]), "1 is no number"),
        (lambda s: node(s, "act").update(inputs=[]), "takes 1 tensors"),
        (lambda s: node(s, "act").update(backend="nonsense"), "unknown backend"),
        (lambda s: node(s, "sum").update(controls=[3]), "cycle"),
        (lambda s: node(s, "sum").update(name=""), "has no name"),
        (lambda s: node(s, "w").update(dtype="float64"), "declared float64"),
        (lambda s: node(s, "x").update(kind="magic"), "no kind of node"),
        (lambda s: node(s, "x").update(shape=[-3]), "a size is an integer"),
        (lambda s: node(s, "x").update(shape=[7]), "shape"),
        (lambda s: s.update(inputs=[1 if s["nodes"][1]["kind"] != "placeholder" else 0]), "not a placeholder"),
        (lambda s: s.update(outputs=[]), "at least one output"),
        (lambda s: s.update(outputs=[["y", [3, 0]], ["y", [3, 0]]]), "one that another has too"),
        (lambda s: s.update(outputs=5), "damaged"),
    ],
)
def test_lies_are_one_clear_error(spoil, change, words):
    assert words in spoil(lambda s: result if isinstance(result := change(s), list) else None)


def test_a_missing_tensor(spoil):
    assert "damaged" in spoil(lambda s: None, drop=("0", "1", "2"))


def test_other_files(tmp_path):
    path = tmp_path / "m.metaop"
    with pytest.raises(mo.ModelError, match="no such file"):
        mo.load(path)
    for content in (b"", b"nonsense", b"\xff" * 64, (1 << 60).to_bytes(8, "little") + b"{}"):
        path.write_bytes(content)
        with pytest.raises(mo.ModelError, match="not a metaop model"):
            mo.load(path)
    save_file({"a": np.ones(2, "float32")}, path)
    with pytest.raises(mo.ModelError, match="without a metaop model"):
        mo.load(path)


def test_flipped_bytes_never_escape(tmp_path):
    """A damaged file is a ModelError, or reads as a model."""
    model = models.cnn()
    path = tmp_path / "m.metaop"
    mo.save(model.loss, path)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        bad = bytearray(good)
        if rng.random() < 0.3:
            del bad[int(rng.integers(len(bad))) :]
        else:
            # The structure comes first; the weights behind it may hold any bytes.
            for place in rng.integers(0, len(bad) * 3 // 4, 3):
                bad[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(bad))
        try:
            mo.load(path)
        except mo.ModelError:
            refused += 1
    assert refused > 200
