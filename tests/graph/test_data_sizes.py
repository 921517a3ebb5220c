"""Graphs in which the sizes of tensors depend on the values of others."""

import numpy as np
import pytest

import metaop as mo
from metaop.errors import ShapeError
from tests.checks import BACKENDS

X = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")


@pytest.fixture
def graph():
    """Rows of ``x`` with a positive sum, through a layer: the placeholder, the rows, the variable and the loss."""
    x = mo.Placeholder((None, 3), "float32", name="x")
    w = mo.Variable(np.array([[1, 2], [3, -1], [0.5, 1]], np.float32), name="w")
    kept = mo.compress(x, mo.reduce_sum(x, axes=(1,)) > 0.0, axis=0, name="kept")
    loss = mo.reduce_sum(mo.square(mo.matmul(kept, w, name="layer")), name="loss")
    return x, kept, w, loss


def expected(x):
    kept = x[x.sum(1) > 0]
    w = np.array([[1, 2], [3, -1], [0.5, 1]], np.float32)
    return kept, np.square(kept @ w).sum(), 2 * kept.T @ (kept @ w)


@pytest.mark.parametrize("spec", BACKENDS)
def test_values_and_gradients_downstream(graph, spec):
    x, kept, w, loss = graph
    assert kept.shape == (None, 3)
    with mo.Session(spec) as session:
        for fed in (X, X[::-1] + 0.2, X[:5]):
            rows, value, gradient = expected(fed)
            np.testing.assert_array_equal(session.run(kept, {x: fed}), rows)
            np.testing.assert_allclose(session.run(loss, {x: fed}), value, rtol=1e-5)
            np.testing.assert_allclose(session.gradients(loss, [w], {x: fed})[0], gradient, rtol=1e-5)


def test_nothing_may_be_left(graph):
    x, kept, w, loss = graph
    for spec in BACKENDS:
        if spec == "tflite":
            continue  # its kernels take no empty tensors
        with mo.Session(spec) as session:
            assert session.run(kept, {x: -np.abs(X)}).shape == (0, 3)
            assert session.run(loss, {x: -np.abs(X)}) == 0
            assert not session.gradients(loss, [w], {x: -np.abs(X)})[0].any()


@pytest.mark.skipif("torch" not in BACKENDS or "onnxruntime" not in BACKENDS, reason="needs both")
def test_backends_are_mixed_and_compared(graph):
    x, kept, w, loss = graph
    with mo.Session("numpy", bindings={kept: "torch", loss: "onnxruntime"}) as session:
        np.testing.assert_allclose(session.run(loss, {x: X}), expected(X)[1], rtol=1e-5)
        np.testing.assert_allclose(session.gradients(loss, [w], {x: X})[0], expected(X)[2], rtol=1e-5)
    faulty = mo.derive("torch", name="torch-drops", forward={"compress": lambda x, condition, axis: x[condition][1:]})
    with mo.DebugSession(progress=False) as session:
        assert session.run(loss, {x: X}, frameworks=["torch", "onnxruntime"])
        report = session.run(loss, {x: X}, frameworks=["torch", faulty])
        assert [record.node for record in report.suspects] == ["kept"]


def test_shapes_are_data_but_not_attributes(graph):
    x, kept, _, _ = graph
    sizes = mo.shape_of(kept)
    with mo.Session("numpy") as session:
        assert session.run(sizes, {x: X}).tolist() == list(expected(X)[0].shape)
        with pytest.raises(ShapeError, match="the shape of 'kept' depends on data"):
            session.run(mo.expand(mo.Constant(1.0), shape=sizes), {x: X})


def test_a_result_that_its_rule_does_not_admit_is_refused(graph):
    x, kept, _, _ = graph
    mo.derive("numpy", name="numpy-flat", forward={"compress": lambda x, condition, axis: x[condition].reshape(-1)})
    with mo.Session("numpy-flat") as session, pytest.raises(mo.FrameworkError, match=r"rule says float32\[\?, 3\]"):
        session.run(kept, {x: X})


def test_an_operator_without_tensors():
    row = mo.range(start=1, limit=4, dtype="float32", name="row")
    assert str(row.type) == "float32[3]"
    for spec in BACKENDS:
        with mo.Session(spec) as session:
            assert session.run(row).tolist() == [1, 2, 3]


def test_an_open_attribute_beside_a_dtype():
    x = mo.Placeholder((None, 3), "float32", name="x")
    row = mo.range(limit=mo.size_of(x), dtype="float64")
    assert str(row.type) == "float64[...]"
    assert str(mo.range(limit=mo.size_of(x)).type) == "int64[...]"
    with mo.Session("numpy") as session:
        assert session.run(row, {x: X}).tolist() == list(range(18))
