"""Attributes given as nodes: computed before a run, from the types of what is fed and from the data they depend on."""

import numpy as np
import pytest

import metaop as mo

BACKENDS = ["numpy", "torch", "tensorflow", "onnxruntime", "isolated:numpy"]


def flattened(name="x"):
    """A reshape to (first axis, the rest), as exporters write it."""
    x = mo.Placeholder(shape=(None, None, None), dtype="float32", name=name)
    shape = mo.concat(mo.shape_of(x, start=0, end=1), mo.Constant([-1]), axis=0)
    return x, mo.reshape(x * 2.0, shape=shape, name="flat")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_shape_computed_from_a_shape(backend):
    x, flat = flattened()
    assert flat.dtype == np.float32
    assert flat.shape == (None, None)
    with mo.Session(backend) as session:
        for sizes in ((2, 3, 4), (5, 1, 2), (2, 3, 4)):
            data = np.random.default_rng(0).standard_normal(sizes).astype("float32")
            assert np.array_equal(session.run(flat, {x: data}), 2 * data.reshape(sizes[0], -1))


def test_shape_arithmetic_is_not_run_on_the_backend_under_test():
    def fail(*tensors, **attrs):
        raise AssertionError("computed on the backend")

    mo.derive("numpy", name="numpy-no-shapes", forward={"shape_of": fail, "concat": fail})
    x, flat = flattened()
    assert mo.Session("numpy-no-shapes").run(flat, {x: np.ones((2, 3, 4), "float32")}).shape == (2, 12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_data_that_decide_are_looked_at_in_every_run(backend):
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    axes = mo.Placeholder(shape=(None,), dtype="int64", name="axes")
    total = mo.reduce_sum(x, axes=axes, keepdims=True)
    data = np.arange(6, dtype="float32").reshape(2, 3)
    with mo.Session(backend) as session:
        for chosen in ([0], [1], [0, 1], [0]):
            found = session.run(total, {x: data, axes: np.array(chosen)})
            assert np.array_equal(found, data.sum(axis=tuple(chosen), keepdims=True))


def test_variables_that_decide():
    x = mo.Placeholder(shape=(4,), dtype="float32", name="x")
    shape = mo.Variable(np.array([2, 2]), name="shape")
    y = mo.reshape(x, shape=mo.identity(shape))
    session = mo.Session()
    assert session.run(y, {x: np.ones(4, "float32")}).shape == (2, 2)
    shape.value = np.array([4, 1])
    assert session.run(y, {x: np.ones(4, "float32")}).shape == (4, 1)


@pytest.mark.parametrize("backend", ["numpy", "torch", "tensorflow", "onnxruntime"])
def test_gradients(backend):
    x, flat = flattened()
    w = mo.Variable(np.float32(3.0), name="w")
    loss = mo.reduce_sum(mo.square(flat * w))
    data = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
    (found,) = mo.Session(backend).gradients(loss, [w], {x: data})
    assert np.allclose(found, (2 * 3 * 4 * data.astype("float64") ** 2).sum(), rtol=1e-5)


def test_a_debug_session_over_open_attributes():
    def off(x, *, shape):
        return x.reshape(shape) * 1.01

    mo.derive("torch", name="torch-bad-reshape", forward={"reshape": off})
    x, flat = flattened()
    w = mo.Variable(np.float32(3.0), name="w")
    feed = {x: np.ones((2, 3, 4), "float32")}
    with mo.DebugSession(progress=False) as session:
        report = session.run(mo.reduce_sum(flat * w), feed, frameworks=["numpy", "torch-bad-reshape"])
        assert [r.node for r in report.suspects] == ["flat"]
        verdict = session.verify("flat")
    assert verdict.confirmed
    assert verdict.blame == "torch-bad-reshape"


def test_constants_are_no_open_attributes():
    x = mo.Placeholder(shape=(2, 3), dtype="float32")
    assert mo.reshape(x, shape=mo.Constant([3, 2])).shape == (3, 2)
    with pytest.raises(mo.UserError, match="cannot take the shape"):
        mo.reshape(x, shape=mo.Constant([4, 2]))


def test_dtypes_follow_from_the_declaration():
    x = mo.Placeholder(shape=(2, 3), dtype="float16")
    axis = mo.size_of(x)
    assert mo.argmax(x, axis=axis).dtype == np.int64
    assert mo.reduce_max(x, axes=mo.shape_of(x)).dtype == np.float16


def test_mistakes():
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    matrix = mo.Placeholder(shape=(2, 2), dtype="int64", name="matrix")
    sizes = mo.Placeholder(shape=(None,), dtype="int64", name="sizes")
    with pytest.raises(mo.UserError, match="number or a vector"):
        mo.reshape(x, shape=matrix)
    with pytest.raises(mo.UserError, match="how many outputs"):
        mo.split(x, split=sizes, axis=0)
    with pytest.raises(mo.UserError, match="no attribute 'nothing'"):
        mo.relu(x, nothing=sizes)
    wrong = mo.reshape(x, shape=sizes, name="wrong")
    with pytest.raises(mo.UserError, match=r"node 'wrong'.*cannot take the shape"):
        mo.Session().run(wrong, {x: np.ones((2, 3), "float32"), sizes: np.array([4, 2])})
    floating = mo.reshape(x, shape=mo.cast(sizes, to="float32"), name="floating")
    with pytest.raises(mo.UserError, match="sequence of ints"):
        mo.Session().run(floating, {x: np.ones((2, 3), "float32"), sizes: np.array([3, 2])})


def test_rules_for_open_attributes_are_of_operators_that_exist():
    from metaop.ops.opened import RULES

    assert set(RULES) <= set(mo.ops())
