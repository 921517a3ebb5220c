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


def test_localize_methods(capsys, saved, tmp_path):
    """All three find the node; only the sweep, and what is swapped, has deltas at the target."""
    mo.derive("numpy", name="numpy-tanh", forward={"tanh": lambda x: np.tanh(x) * np.float32(1.01)})
    for method, swapped in (("auto", {True}), ("sweep", {True}), ("local", {False})):
        report = tmp_path / "r.json"
        arguments = ("localize", saved, "--between", "numpy", "numpy-tanh", "--method", method, "--json", report)
        code, text, _ = run(capsys, *arguments)
        assert code == 1
        assert "tanh at hidden: confirmed" in text
        found = json.loads(report.read_text())
        assert found["method"] == method
        assert {r["output_delta"] is not None for r in found["records"]} == swapped


def test_localize_judges(capsys, saved, tmp_path):
    """A difference of 1e-5: far beyond rounding, and below the usual thresholds."""
    mo.derive("numpy", name="numpy-little", forward={"tanh": lambda x: np.tanh(x) + np.float32(5e-5)})
    arguments = ("localize", saved, "--between", "numpy", "numpy-little")
    report = tmp_path / "r.json"
    for options, code, judge in (
        ((), 1, "noise"),
        (("--judge", "noise"), 1, "noise"),
        (("--judge", "paper"), 0, "paper"),
        (("--threshold", "1e-3"), 0, "paper"),
        (("--threshold", "1e-7"), 1, "paper"),
        (("--threshold", "1e-3", "--judge", "noise"), 1, "noise"),
    ):
        assert run(capsys, *arguments, *options, "--json", report)[0] == code, options
        found = json.loads(report.read_text())
        assert found["judge"] == judge
        assert found["consistent"] == (code == 0)


def test_localize_tails(capsys, tmp_path):
    x = mo.Placeholder((5,), "float32", name="x")
    mo.save({"y": mo.gelu(x, name="act")}, tmp_path / "gelu.metaop")
    np.savez(tmp_path / "in.npz", x=np.float32([-6, -1, 0, 1, 6]))
    arguments = ("localize", tmp_path / "gelu.metaop", "--between", "numpy", "torch", "--feed", tmp_path / "in.npz")
    assert run(capsys, *arguments)[0] == 0
    code, text, _ = run(capsys, *arguments, "--tails")
    assert code == 1
    assert "tail" in text
    assert "blame: torch" in text


def test_localize_on_a_folder_of_inputs(capsys, saved, tmp_path):
    mo.derive(
        "numpy",
        name="numpy-beyond",
        forward={"tanh": lambda x: np.where(np.abs(x) > 50, 0.5, np.tanh(x)).astype(x.dtype)},
    )
    folder = tmp_path / "inputs"
    folder.mkdir()
    for name, scale in (("small", 1), ("usual", 2), ("huge", 1000)):
        np.savez(folder / f"{name}.npz", x=np.full((2, 4), scale, "float32"), rows=np.zeros(3, "int64"))
    page, report = tmp_path / "r.html", tmp_path / "r.json"
    arguments = ("localize", saved, "--between", "numpy", "numpy-beyond", "--feed", folder, "--out", tmp_path / "out")
    for _ in range(2):
        code, text, _ = run(capsys, *arguments, "--html", page, "--json", report)
        assert code == 1
        assert "tanh at hidden: confirmed" in text
        found = json.loads(report.read_text())
        assert found["feeds"][0]["name"] == "huge"
        assert {r["name"] for r in found["feeds"]} == {"small", "usual", "huge"}
        assert "usual" in page.read_text()
    assert len(list((tmp_path / "out").iterdir())) == 3
    assert run(capsys, "localize", saved, "--between", "numpy", "numpy", "--feed", folder)[0] == 0


def test_localize_tells_a_combination(capsys, saved, tmp_path):
    """Two operators are wrong, so that none explains all of it: the smallest set that does is told as well."""
    mo.derive(
        "numpy",
        name="numpy-both",
        forward={
            "tanh": lambda x: np.tanh(x) * np.float32(1.01),
            "sigmoid": lambda x: np.float32(1.01) / (1 + np.exp(-x)),
        },
    )
    code, text, _ = run(capsys, "localize", saved, "--between", "numpy", "numpy-both", "--output", "y")
    assert code == 1
    assert "all of them: act, hidden" in text


def test_localize_goes_on(capsys, saved, tmp_path):
    out = tmp_path / "out"
    arguments = ("localize", saved, "--between", "numpy", "numpy", "--shape", "x=2,4", "--out", out)
    assert run(capsys, *arguments)[0] == 0
    assert run(capsys, *arguments)[0] == 0
    code, _, err = run(capsys, *arguments, "--seed", "1")
    assert code == 2
    assert "is of another run" in err


def test_ctrl_c(capsys, saved, tmp_path):
    """Before anything is known, and in the middle: one line, what is known so far, and no traceback."""

    def interrupted(*inputs, **attrs):
        raise KeyboardInterrupt

    mo.derive("numpy", name="numpy-stop", forward={"tanh": interrupted})
    mo.derive("numpy", name="numpy-early", forward={"gather": interrupted, "matmul": interrupted})
    for name, out in (("stop", ()), ("stop", ("--out", tmp_path / "out")), ("early", ())):
        code = main([str(a) for a in ("localize", saved, "--between", "numpy", f"numpy-{name}", *out)])
        captured = capsys.readouterr()
        assert code == 130, (name, captured)
        (line,) = [text for text in captured.err.splitlines() if text]
        assert line.startswith("metaop: interrupted")
        assert "--out DIR" in line or str(tmp_path / "out") in line
        assert "ended early" in captured.out
    code = main(["run", str(saved), "--backend", "numpy-stop"])
    assert code == 130
    assert "metaop: interrupted" in capsys.readouterr().err


def bad(folder):
    """Arguments that make no sense, and words of the message."""
    net, text, npz = folder / "net.metaop", folder / "text.npz", folder / "one.npy"
    text.write_text("nonsense")
    np.save(npz, np.ones(2))
    np.savez(folder / "other.npz", z=np.ones(2))
    np.savez(folder / "pickle.npz", x=np.array([{}], dtype=object))
    (folder / "empty").mkdir()
    (folder / "feeds").mkdir()
    np.savez(folder / "feeds" / "one.npz", z=np.ones(2))
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
        (("localize", net, *between, "--method", "guess"), "--method"),
        (("localize", net, *between, "--judge", "nobody"), "--judge"),
        (("localize", net, *between, "--threshold", "nan"), "positive number"),
        (("localize", net, *between, "--feed", folder / "empty"), "holds no .npz"),
        (("localize", net, *between, "--feed", folder / "feeds"), "no input named 'z'"),
        (("localize", net, *between, "--feed", folder / "feeds", "--shape", "x=1,4"), "--shape is for random"),
        (("localize", net, *between, "--seed", "-1"), ">= 0"),
        (("localize", net, *between, "--out", text), "cannot be written"),
        (("localize", net, *between, "--html", folder / "no" / "r.html"), "cannot be written"),
        (("localize", net, "--between", "numpy", "nunpy"), "did you mean 'numpy'"),
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
