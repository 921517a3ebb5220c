"""The assertion for test suites: it passes where backends agree, and its failure is the verdict."""

import numpy as np
import pytest

import metaop as mo
from metaop.testing import assert_agree


def model():
    x = mo.Placeholder(shape=(3, 4), dtype="float32", name="x")
    w = mo.Variable(np.linspace(-1, 1, 8, dtype="float32").reshape(4, 2), name="w")
    loss = mo.reduce_sum(mo.tanh(mo.matmul(x, w, name="product"), name="tanh"), name="loss")
    return loss, {x: np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)}


def test_agreement_returns_a_report_per_pair():
    loss, feeds = model()
    reports = assert_agree(loss, feeds, ["numpy", "torch", "onnxruntime"])
    assert [r.frameworks for r in reports] == [("numpy", "torch"), ("numpy", "onnxruntime")]


def test_failure_is_the_verdict():
    loss, feeds = model()
    mo.derive("numpy", name="numpy-tanh-off", forward={"tanh": lambda x: np.tanh(x) * np.float32(1.1)})
    with pytest.raises(AssertionError, match=r"tanh at tanh: confirmed[\s\S]*to blame: numpy-tanh-off"):
        assert_agree(loss, feeds, ["numpy", "numpy", "numpy-tanh-off"])


@pytest.mark.parametrize("backends", [(), ["numpy"], "numpy"])
def test_fewer_than_two_backends_compare_nothing(backends):
    loss, feeds = model()
    with pytest.raises(mo.UserError, match="two or more"):
        assert_agree(loss, feeds, backends)
