"""A model: names in, names out."""

from __future__ import annotations

import numpy as np
import pytest

import metaop as mo
from metaop.errors import UsageError


@pytest.fixture
def model() -> mo.Model:
    x = mo.Placeholder(shape=(None, 2), dtype="float32", name="x")
    unused = mo.Placeholder(dtype="float32", name="unused")
    w = mo.Variable(np.float32([[1.0], [2.0]]), name="w")
    hidden = mo.matmul(x, w, name="hidden")
    return mo.Model([x, unused], {"out": mo.relu(hidden, name="act")})


def test_run_gives_outputs_by_name(model: mo.Model) -> None:
    x = np.float32([[1, 1], [-1, 0]])
    assert list(model.run({"x": x})) == ["out"]
    np.testing.assert_array_equal(model.run({"x": x})["out"], [[3], [0]])
    np.testing.assert_array_equal(model.run({"x": x}, outputs=["hidden"])["hidden"], [[3], [-1]])


def test_parts(model: mo.Model) -> None:
    assert [n.name for n in model.inputs] == ["x", "unused"]
    assert [n.name for n in model.outputs] == ["act"]
    assert model.output_names == ["out"]
    assert [n.name for n in model.parameters] == ["w"]
    assert model.node("out") is model.node("act")
    assert {n.name for n in model.nodes} == {"x", "unused", "w", "hidden", "act"}
    assert "x: float32[?, 2]" in repr(model)
    assert "1 parameters" in repr(model)


def test_what_nothing_needs_may_be_fed(model: mo.Model) -> None:
    model.run({"x": np.ones((1, 2), "float32"), "unused": np.float32(1)})


def test_unknown_names_are_told_with_near_ones(model: mo.Model) -> None:
    with pytest.raises(UsageError, match="no node named 'hiden'; did you mean 'hidden'"):
        model.node("hiden")
    with pytest.raises(mo.FeedError, match="no input named 'y'"):
        model.run({"y": np.ones(2)})
    with pytest.raises(mo.FeedError, match="'x'"):
        model.run({})


def test_wrong_models_are_refused() -> None:
    x = mo.Placeholder(name="x")
    with pytest.raises(UsageError, match="at least one output"):
        mo.Model([x], {})
    with pytest.raises(UsageError, match="names of their own"):
        mo.Model([x, mo.Placeholder(name="x")], {"y": x + 1.0})
