"""Branches of ONNX models: the one that is known to be taken becomes part of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import metaop as mo
from tests.models.build import model, value

X = np.arange(6, dtype="float32").reshape(2, 3) - 2


def branch(*nodes: Any, output: str = "b", initializers: Any = ()) -> Any:
    return helper.make_graph(list(nodes), "branch", [], [value(output, None)], list(initializers))


def node(op: str, inputs: Any, outputs: Any, name: str = "", **attributes: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), name, **attributes)


def choice(then: Any, otherwise: Any) -> Any:
    return node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=otherwise)


def relu_or_tanh(c: Any = None, inputs: Any = None, before: Any = ()) -> Any:
    both = choice(branch(node("Relu", ["x"], ["b"], "then")), branch(node("Tanh", ["x"], ["b"], "else")))
    return model([*before, both], inputs, initializers={} if c is None else {"c": np.array(c)})


@pytest.mark.parametrize(("c", "wanted"), [(True, np.maximum(X, 0)), ([False], np.tanh(X))])
def test_a_constant_decides(c: Any, wanted: np.ndarray) -> None:
    found = mo.from_onnx(relu_or_tanh(c))
    np.testing.assert_allclose(found.run({"x": X})["y"], wanted, rtol=1e-6)
    assert {n.name for n in found.nodes} == {"x", "then" if np.all(c) else "else"}


def test_a_shape_decides() -> None:
    """As squeezing an axis that may have size 1 is exported."""
    before = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Equal", ["n", "two"], ["c"]),
    ]
    proto = relu_or_tanh(None, [value("x", (None, 3))], before)
    for name, array in {"zero": np.array(0), "two": np.array(2)}.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    with pytest.raises(mo.ModelError, match=r"depends on data.*'x'.*shapes="):
        mo.from_onnx(proto)
    np.testing.assert_array_equal(mo.from_onnx(proto, shapes={"x": (2, 3)}).run({"x": X})["y"], np.maximum(X, 0))


def test_an_input_that_never_changes_decides() -> None:
    proto = relu_or_tanh(None, [value("x"), value("c", (), TensorProto.BOOL)])
    with pytest.raises(mo.ModelError, match=r"depends on data.*'c'.*constants="):
        mo.from_onnx(proto)
    found = mo.from_onnx(proto, constants={"c": True})
    assert [n.name for n in found.inputs] == ["x"]
    np.testing.assert_array_equal(found.run({"x": X})["y"], np.maximum(X, 0))


def test_names_inside_hide_names_outside() -> None:
    inside = branch(
        node("Add", ["x", "one"], ["h"]),
        node("Mul", ["h", "outer"], ["b"]),
        initializers=[numpy_helper.from_array(np.float32(1), "one")],
    )
    nodes = [node("Relu", ["x"], ["outer"]), node("Neg", ["x"], ["h"]), choice(inside, inside)]
    found = mo.from_onnx(
        model([*nodes, node("Add", ["y", "h"], ["z"])], outputs=[value("z", None)], initializers={"c": np.array(True)})
    )
    np.testing.assert_array_equal(found.run({"x": X})["z"], (X + 1) * np.maximum(X, 0) - X)


def test_what_a_branch_needs_is_converted_before_it() -> None:
    inside = branch(node("Mul", ["late", "late"], ["b"]))
    nodes = [choice(inside, inside), node("Neg", ["x"], ["late"])]
    found = mo.from_onnx(model(nodes, initializers={"c": np.array(True)}))
    np.testing.assert_array_equal(found.run({"x": X})["y"], X * X)


def test_refusals_inside_are_told() -> None:
    bad = branch(node("SequenceConstruct", ["x"], ["b"], "inside"))
    with pytest.raises(mo.ModelError) as caught:
        mo.from_onnx(model([choice(bad, bad)], initializers={"c": np.array(True)}))
    assert [e["name"] for e in caught.value.unsupported] == ["inside", "choice"]


@pytest.mark.parametrize(
    ("proto", "why"),
    [
        (choice(branch(node("Relu", ["nowhere"], ["b"])), branch(node("Relu", ["x"], ["b"]))), "nothing computes"),
        (choice(branch(output="nowhere"), branch(output="nowhere")), "nothing computes"),
        (node("If", ["c"], ["y"], "choice"), "'then_branch', a graph, is missing"),
        (node("If", ["x"], ["y"], then_branch=branch(output="x"), else_branch=branch(output="x")), "depends on data"),
        (node("If", ["c"], ["y", "z"], then_branch=branch(output="x"), else_branch=branch(output="x")), "2 outputs"),
    ],
)
def test_wrong_branches(proto: Any, why: str) -> None:
    with pytest.raises(mo.ModelError, match=why):
        mo.from_onnx(model([proto], initializers={"c": np.array(True)}))


def test_branches_inside_branches() -> None:
    inner = branch(node("Relu", ["x"], ["b"]))
    for _ in range(15):
        inner = branch(node("If", ["c"], ["b"], then_branch=inner, else_branch=branch(output="x")))
    found = mo.from_onnx(model([choice(inner, inner)], initializers={"c": np.array(True)}))
    np.testing.assert_array_equal(found.run({"x": X})["y"], np.maximum(X, 0))


def test_wrong_constants_and_shapes() -> None:
    proto = relu_or_tanh(True)
    for wrong in ({"constants": {"z": 1}}, {"shapes": {"z": (1,)}}, {"shapes": {"x": (5, 3)}}):
        with pytest.raises(mo.UserError, match="from_onnx"):
            mo.from_onnx(proto, **wrong)  # type: ignore[arg-type]
    with pytest.raises(mo.UserError, match="'x' is declared"):
        mo.from_onnx(proto, constants={"x": np.ones((5, 3), "float32")})
