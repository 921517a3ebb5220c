"""``metaop run`` and ``metaop localize``."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import metaop as mo
from metaop.cli import main


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    if code == 2:
        assert captured.err.startswith("metaop: ")
        assert len(captured.err.splitlines()) == 1
    return code, captured.out, captured.err


@pytest.fixture
def saved(tmp_path):
    """A small network with two outputs, an integer input and an open batch."""
    rng = np.random.default_rng(0)
    x = mo.Placeholder((None, 4), "float32", name="x")
    rows = mo.Placeholder((3,), "int64", name="rows")
    w = mo.Variable(rng.standard_normal((4, 4)).astype("float32"), name="w")
    hidden = mo.tanh(mo.matmul(x, w, name="product"), name="hidden")
    picked = mo.gather(w, rows, name="picked")
    path = tmp_path / "net.metaop"
    mo.save({"y": mo.sigmoid(hidden, name="act"), "p": mo.exp(picked, name="powers")}, path)
    return path


def test_run(capsys, saved, tmp_path):
    out = tmp_path / "out.npz"
    code, text, _ = run(capsys, "run", saved, "--backend", "numpy", "--seed", 3, "--shape", "x=2,4", "--out", out)
    assert code == 0
    assert "float32[2, 4]" in text
    with np.load(out) as arrays:
        first = dict(arrays)
    assert {k: v.shape for k, v in first.items()} == {"y": (2, 4), "p": (3, 4)}
    run(capsys, "run", saved, "-b", "torch", "--seed", 3, "--shape", "x=2,4", "--out", out)
    with np.load(out) as arrays:
        for name, value in first.items():
            np.testing.assert_allclose(arrays[name], value, rtol=1e-5)
    run(capsys, "run", saved, "--seed", 4, "--shape", "x=2,4", "--out", out)
    with np.load(out) as arrays:
        assert not np.array_equal(arrays["y"], first["y"])


def test_run_on_given_data(capsys, saved, tmp_path):
    feed = tmp_path / "in.npz"
    np.savez(feed, x=np.zeros((1, 4), "float32"), rows=np.zeros(3, "int64"))
    code, text, _ = run(capsys, "run", saved, "--feed", feed, "--json", "--output", "y")
    assert code == 0
    (row,) = json.loads(text)["outputs"]
    assert row == {"output": "y", "type": "float32[1, 4]", "min": 0.5, "mean": 0.5, "max": 0.5, "not_finite": 0}


def test_run_tells_what_is_not_finite(capsys, tmp_path):
    x = mo.Placeholder((3,), "float32", name="x")
    mo.save({"y": mo.log(x, name="log")}, tmp_path / "log.metaop")
    np.savez(tmp_path / "in.npz", x=np.float32([-1, 0, 1]))
    _, text, _ = run(capsys, "run", tmp_path / "log.metaop", "--feed", tmp_path / "in.npz", "--json")
    (row,) = json.loads(text)["outputs"]
    assert (row["not_finite"], row["min"]) == (2, 0.0)


def test_localize_agrees(capsys, saved):
    code, text, _ = run(capsys, "localize", saved, "--between", "numpy", "torch", "--gradients")
    assert code == 0
    assert "agree" in text


@pytest.mark.parametrize(("op", "node"), [("tanh", "hidden"), ("exp", "powers"), ("gather", "picked")])
def test_localize_names_the_node(capsys, saved, tmp_path, op, node):
    """Whichever output the fault reaches."""
    good = mo.backends.get("torch").bindings.find(op).function
    mo.derive("torch", name="torch-off", forward={op: lambda *a, **k: good(*a, **k) * 1.01})
    page, report = tmp_path / "r.html", tmp_path / "r.json"
    code, text, _ = run(capsys, "localize", saved, "--between", "numpy", "torch-off", "--html", page, "--json", report)
    assert code == 1
    assert f"{op} at {node}: confirmed" in text
    assert "blame: torch-off" in text
    found = json.loads(report.read_text())
    assert [r["node"] for r in found["records"] if r["suspect"]] == [node]
    assert node in page.read_text()


def test_localize_gradients(capsys, saved):
    mo.derive("numpy", name="numpy-grad", gradient={"tanh": lambda g, y, x: (g,)})
    arguments = ("localize", saved, "--between", "numpy", "numpy-grad")
    assert run(capsys, *arguments)[0] == 0
    code, text, _ = run(capsys, *arguments, "--gradients")
    assert code == 1
    assert "blame: numpy-grad" in text


def bad(folder):
    """Arguments that make no sense, and words of the message."""
    net, text, npz = folder / "net.metaop", folder / "text.npz", folder / "one.npy"
    text.write_text("nonsense")
    np.save(npz, np.ones(2))
    np.savez(folder / "other.npz", z=np.ones(2))
    np.savez(folder / "pickle.npz", x=np.array([{}], dtype=object))
    (folder / "empty").mkdir()
    (folder / "model.txt").write_text("x")
    between = ("--between", "numpy", "numpy")
    return [
        (("run", folder / "none.onnx"), "does not exist"),
        (("run", folder / "model.txt"), "no kind of model"),
        (("run", folder / "empty"), "empty"),
        (("run", net, "--backend", "nunpy"), "did you mean 'numpy'"),
        (("run", net, "--feed", folder / "none.npz"), "do not exist"),
        (("run", net, "--feed", text), "not an .npz"),
        (("run", net, "--feed", npz), "without a name"),
        (("run", net, "--feed", folder / "pickle.npz"), "no plain array"),
        (("run", net, "--feed", folder / "other.npz"), "no input named 'z'"),
        (("run", net, "--shape", "x"), "NAME=SIZE"),
        (("run", net, "--shape", "x=2,-4"), "NAME=SIZE"),
        (("run", net, "--shape", "x=2,5"), "does not fit"),
        (("run", net, "--shape", "z=2"), "no input named 'z'"),
        (("run", net, "--shape", "x=1,4", "--feed", folder / "other.npz"), "--shape is for random"),
        (("run", net, "--seed", "-1"), ">= 0"),
        (("run", net, "--seed", "x"), "not a valid integer"),
        (("run", net, "--output", "nothing"), "no node named 'nothing'"),
        (("run", net, "--out", folder / "no" / "where.npz"), "cannot be written"),
        (("run",), "MODEL"),
        (("localize", net), "--between"),
        (("localize", net, "--between", "numpy"), "--between"),
        (("localize", net, *between, "--threshold", "-1"), "positive number"),
        (("localize", net, *between, "--output", "x"), "nothing to compare"),
        (("localize", net, *between, "--json", folder / "no" / "r.json"), "cannot be written"),
    ]


def test_bad_input_is_one_line(capsys, saved):
    for arguments, words in bad(saved.parent):
        code, _, err = run(capsys, *arguments)
        assert code == 2, arguments
        assert words in err, (arguments, err)


def write_onnx(folder):
    x = mo.Placeholder((None, 3), "float32", name="x")
    mo.to_onnx({"y": mo.tanh(x, name="act")}, folder / "m.onnx")
    return folder / "m.onnx"


def write_pt2(folder):
    import torch

    program = torch.export.export(torch.nn.Linear(3, 2), (torch.zeros(1, 3),))
    torch.export.save(program, folder / "m.pt2")
    return folder / "m.pt2"


def write_keras(folder):
    import keras

    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(folder / "m.keras")
    return folder / "m.keras"


def write_saved_model(folder):
    import keras

    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).export(folder / "saved", verbose=False)
    return folder / "saved"


@pytest.mark.parametrize("write", [write_onnx, write_pt2, write_keras, write_saved_model])
def test_every_kind_of_file(capfd, tmp_path, write):
    path = write(tmp_path)
    assert main(["run", str(path), "--backend", "numpy", "--json"]) == 0
    out = capfd.readouterr().out
    (row,) = json.loads(out[out.index("{") :])["outputs"]
    assert row["type"].startswith("float32[1, ")
    assert main(["localize", str(path), "--between", "numpy", "torch"]) == 0


def test_from_the_shell(saved):
    """As a user calls it: exit code and streams of a real process."""
    command = [sys.executable, "-m", "metaop", "run", str(saved), "--backend", "numpy"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "float32[1, 4]" in done.stdout
