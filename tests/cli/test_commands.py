"""The command line: what it prints, its exit codes, and that bad input is one line on standard error."""

import json
import subprocess
import sys

import pytest

import metaop as mo
from metaop.cli import main


def run(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def test_backends(capsys):
    code, out, _ = run(capsys, "backends")
    assert code == 0
    for name in ("numpy", "torch", "tensorflow", "tflite", "onnxruntime", "jax", "mxnet"):
        assert name in out
    code, out, _ = run(capsys, "backends", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["numpy"]["available"] is True
    assert rows["torch"]["aliases"] == ["pytorch"]


def test_ops_matrix(capsys):
    code, out, _ = run(capsys, "ops", "-b", "numpy", "-b", "torch")
    assert code == 0
    lines: dict[str, list[str]] = {}
    for line in filter(str.strip, out.splitlines()):  # below the table stand the reasons of what is unsupported
        lines.setdefault(line.split()[0], line.split()[1:])
    for op in mo.ops().values():
        kind = "derived" if op.differentiable else "forward"
        assert lines[op.name][:2] == [op.family, kind]
    assert lines["relu"] == ["activation", "derived", "native"]
    assert f"{len(mo.ops())} operators" in out


def test_unsupported_operators_have_reasons(capsys):
    code, out, _ = run(capsys, "ops", "--json", "-b", "tflite")
    assert code == 0
    cells = [entry["backends"]["tflite"] for entry in json.loads(out).values()]
    refused = [cell for cell in cells if cell["kind"] == "unsupported"]
    assert refused
    assert all(cell["reason"] for cell in refused)
    _, out, _ = run(capsys, "ops", "-b", "tflite")
    assert all(cell["reason"] in out for cell in refused)


def test_one_operator(capsys):
    code, out, _ = run(capsys, "ops", "conv2d", "-b", "numpy")
    assert code == 0
    assert mo.ops()["conv2d"].signature in out
    assert "derived" in out


def test_family_and_markdown(capsys):
    code, out, _ = run(capsys, "ops", "--family", "loss", "--markdown", "-b", "numpy")
    assert code == 0
    assert "| mse | loss | derived |" in out
    assert "conv2d" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ops", "conv2"], "did you mean 'conv"),
        (["ops", "--family", "losses"], "there is no family 'losses'"),
        (["ops", "-b", "pytroch"], "did you mean 'pytorch'"),
        (["nothing"], "No such command"),
        (["ops", "--nothing"], "No such option"),
        (["env", "create"], "Missing argument"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("metaop: ")


def test_without_arguments_it_helps(capsys):
    code, out, err = run(capsys)
    assert code == 2
    assert "backends" in out + err


def test_version_and_help(capsys):
    assert mo.__version__ in run(capsys, "--version")[1]
    code, out, _ = run(capsys, "ops", "-h")
    assert code == 0
    assert "native" in out


def test_as_a_module_and_into_a_closed_pipe():
    answer = subprocess.run([sys.executable, "-m", "metaop", "backends"], capture_output=True, text=True, check=True)
    assert "numpy" in answer.stdout
    piped = subprocess.run(
        f"{sys.executable} -m metaop ops -b numpy | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert piped.stderr == ""


def test_failures_of_frameworks_are_exit_code_3(capsys, monkeypatch):
    from metaop.cli import commands

    def fail(*arguments):
        raise mo.FrameworkError("the framework\nfailed")

    monkeypatch.setattr(commands.matrix, "support_matrix", fail)
    code, _, err = run(capsys, "ops")
    assert code == 3
    assert err == "metaop: the framework failed\n"


def test_the_table_in_the_docs_is_current(capsys):
    from pathlib import Path

    document = Path(__file__).parents[2] / "docs" / "operators.md"
    code, out, _ = run(capsys, "ops", "--markdown", *[a for b in IN_PROCESS for a in ("-b", b)])
    assert code == 0
    assert document.read_text(encoding="utf-8") == out, "run: make docs"


IN_PROCESS = ["numpy", "torch", "tensorflow", "tflite", "onnxruntime", "jax"]


def test_the_type_stub_is_current():
    from pathlib import Path

    from metaop.graph import functional, stubs

    stub = Path(functional.__file__).with_suffix(".pyi")
    assert stub.read_text(encoding="utf-8") == stubs.stub_text(), "run: make docs"
