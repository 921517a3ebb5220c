"""ONNX's own node tests on every backend."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

import metaop as mo
from benchmarks import onnx_suite
from metaop.backends.bind import Binding
from tests.checks import BACKENDS

#: how many were right when this was written; more is better
PASSED = {"numpy": 1500, "onnxruntime": 1450, "torch": 1390, "tensorflow": 1410, "jax": 1430, "tflite": 1080}


@pytest.mark.slow
@pytest.mark.parametrize("backend", [b for b in BACKENDS if b in PASSED])
def test_no_case_is_wrong(backend: str) -> None:
    """In a process of its own, as the benchmark does: a framework may take the process down."""
    results = onnx_suite.collect(backend, "")
    assert [r for r in results if r["status"] in ("wrong", "failed")] == []
    assert len(results) == len(onnx_suite.cases())
    assert Counter(r["status"] for r in results)["passed"] >= PASSED[backend]


def spoiled(name: str, change: object) -> tuple[str, str]:
    """What the suite says of a case whose expected result was changed."""
    (case,) = [c for c in onnx_suite.cases(name) if c.name == name]
    inputs, outputs = case.data_sets[0]
    changed = [change(onnx_suite._array(o)) for o in outputs]  # type: ignore[operator]
    # The loader hands out the same case again.
    return onnx_suite.run(dataclasses.replace(case, data_sets=[(inputs, changed)]), "numpy")


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a * np.float32(1.01),
        lambda a: a * np.float32(1.0011),  # hardly more than the tolerance of 0.001
        lambda a: a.astype("float64"),
        lambda a: a[:1],
        lambda a: np.where(a > 0, np.float32(np.nan), a),
        lambda a: np.where(a > 1, np.float32(np.inf), a),
    ],
)
def test_the_suite_sees_wrong_values(change: object) -> None:
    assert spoiled("test_relu", lambda a: a) == ("passed", "")
    assert spoiled("test_relu", change)[0] == "wrong"


@pytest.mark.parametrize("name", ["test_attention_4d_fp16", "test_attention_4d_causal_bf16"])
def test_the_suite_sees_wrong_values_in_coarse_dtypes(name: str) -> None:
    assert spoiled(name, lambda a: a)[0] in ("passed", "rounded")
    for factor in (1.05, 0.9):
        assert spoiled(name, lambda a, f=factor: (a.astype("float32") * f).astype(a.dtype))[0] == "wrong"


def test_a_meaning_that_is_not_onnxs_is_wrong_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The float64 model that rounding is judged by is ours too: it must not vouch for itself."""
    (case,) = [c for c in onnx_suite.cases("test_elu") if c.name == "test_elu"]
    meaning = mo.ops()["elu"]
    reference = meaning.reference
    monkeypatch.setitem(
        mo.backends.get("numpy").bindings.table,
        "elu",
        Binding("elu", lambda x, *, alpha: reference(x, alpha=alpha * 1.01)),
    )
    monkeypatch.setattr(meaning, "reference", lambda x, *, alpha: reference(x, alpha=alpha * 1.01))
    assert onnx_suite.run(case, "numpy")[0] == "wrong"
