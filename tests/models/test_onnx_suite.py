"""ONNX's own node tests on NumPy."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks import onnx_suite

#: how many were right when this was written; more is better
PASSED, FIXED = 830, 207


@pytest.mark.slow
def test_no_case_is_wrong_on_numpy() -> None:
    results = {case.name: onnx_suite.run(case, "numpy") for case in onnx_suite.cases()}
    assert {name: why for name, (status, why) in results.items() if status in ("wrong", "failed")} == {}
    count = Counter(status for status, _ in results.values())
    assert count["passed"] >= PASSED
    assert count["fixed"] >= FIXED


def test_the_suite_sees_wrong_values() -> None:
    (case,) = [c for c in onnx_suite.cases("test_relu") if c.name == "test_relu"]
    assert onnx_suite.run(case, "numpy") == ("passed", "")
    (inputs, outputs) = case.data_sets[0]
    for wrong in (outputs[0] * np.float32(1.01), outputs[0].astype("float64"), outputs[0][:1]):
        case.data_sets[0] = (inputs, [wrong])
        assert onnx_suite.run(case, "numpy")[0] == "wrong"


def test_the_suite_tells_rounding_in_float16_from_wrong_values() -> None:
    (case,) = [c for c in onnx_suite.cases("test_attention_4d_fp16") if c.name == "test_attention_4d_fp16"]
    inputs, (right,) = case.data_sets[0]
    assert onnx_suite.run(case, "numpy") == ("passed", "")
    units = right.copy()
    units[0, 0, 0, 0] = np.nextafter(np.nextafter(units[0, 0, 0, 0], np.float16(2)), np.float16(2))
    for expected, status in ((units, "rounded"), (right * np.float16(1.01), "wrong"), (right[::-1], "wrong")):
        case.data_sets[0] = (inputs, [expected])
        assert onnx_suite.run(case, "numpy")[0] == status
