"""Graphs become ONNX models, and come back as the very same graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from metaop.errors import FrameworkError
from metaop.graph.nodes import Node, Operator
from metaop.graph.order import execution_order
from metaop.models.onnx import save
from metaop.ops import REGISTRY
from tests import checks
from tests.graph.support import assert_bits, generated, recipes
from tests.models import MODELS

BACKENDS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime", "jax") if b in checks.BACKENDS]


def signature(outputs: list[Node]) -> list[Any]:
    """All that there is to a graph but data: equal ones are the same graph, whatever runs them."""
    found: list[Any] = []
    for node in execution_order(outputs):
        inputs = [None if n is None else (n.producer.name, n.index) for n in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        entry: list[Any] = [node.name, type(node).__name__, str(node.type), inputs]
        if isinstance(node, Operator):
            open_ = {k: n.name for k, n in node.open.items()}
            entry += [node.op.name, {k: repr(v) for k, v in node.attrs.items()}, open_]
        found.append(entry)
    return sorted(found)


def run(outputs: list[Node], feeds: dict[str, np.ndarray], backend: str) -> list[np.ndarray] | str:
    """The values by the names of placeholders, or the kind of error."""
    leaves = [n for n in execution_order(outputs) if isinstance(n, mo.Placeholder)]
    try:
        with mo.Session(backend) as session:
            return session.run(outputs, {n: feeds[n.name] for n in leaves})
    except (mo.UserError, FrameworkError) as error:
        return type(error).__name__


def round_trip(outputs: list[Node], feeds: dict[str, np.ndarray], backends: Any = BACKENDS) -> onnx.ModelProto:
    proto = mo.to_onnx({f"out{i}": n for i, n in enumerate(outputs)})
    onnx.checker.check_model(proto)
    back = mo.from_onnx(proto.SerializeToString())
    assert signature(back.outputs) == signature(outputs)
    for backend in backends:
        before, after = run(outputs, feeds, backend), run(back.outputs, feeds, backend)
        if isinstance(before, str):
            assert before == after
        else:
            assert_bits(list(after), list(before))
    return proto


# -- every operator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_sample_comes_back(name: str) -> None:
    op = REGISTRY[name]
    reasons: list[str] = []
    written = 0
    for case in checks.cases(op, [checks.main_dtype(op)]):
        arrays = case.inputs()
        leaves = [None if a is None else mo.Placeholder(a.shape, a.dtype, name=f"in{i}") for i, a in enumerate(arrays)]
        made = mo.apply(op, leaves, case.attrs, name="it")
        outputs = list(made) if isinstance(made, tuple) else [made]
        feeds = {f"in{i}": a for i, a in enumerate(arrays) if a is not None}
        try:
            round_trip(outputs, feeds)
        except mo.ModelError as error:
            if not error.unsupported:
                raise
            reasons.append(str(error))
            continue
        written += 1
    assert bool(written) == (name not in UNWRITTEN), reasons
    assert all(UNWRITTEN.get(name, "") in why for why in reasons)


#: operators of which no sample can be written, each with the reason that is told
UNWRITTEN: dict[str, str] = {
    "expm1": "ONNX has no such operator, and exp(x) - 1 loses an x that is small",
    "log1p": "ONNX has no such operator, and log(1 + x) loses an x that is small",
}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("what", ["loss", "prediction"])
def test_whole_models_come_back(name: str, what: str) -> None:
    found = MODELS[name](0)
    target = getattr(found, what)
    needed = set(execution_order([target]))
    feeds = {n.name: a for n, a in found.feeds.items() if n in needed}
    proto = round_trip([target], feeds)
    # What others make of the file is right as well.
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (got,) = session.run(None, feeds)
    np.testing.assert_allclose(got, run([target], feeds, "numpy")[0], rtol=1e-4, atol=1e-5)


@generated(60)
@given(recipes(), st.sampled_from(["float32", "float64"]))
def test_generated_graphs_come_back(recipe: Any, dtype: str) -> None:
    built = recipe.build(np.dtype(dtype))
    round_trip([built.target, built.loss], {n.name: a for n, a in built.feeds.items()}, ["numpy", "torch"])


@generated(25)
@given(recipes(most=6))
def test_generated_graphs_come_back_on_every_backend(recipe: Any) -> None:
    built = recipe.build()
    round_trip([built.target], {n.name: a for n, a in built.feeds.items()})


# -- sizes that are not known ------------------------------------------------------------------------------------------


def test_unknown_sizes_stay_unknown() -> None:
    x = mo.Placeholder(shape=(None, 3, None), dtype="float32", name="x")
    proto = round_trip([mo.relu(x, name="y")], {"x": np.ones((2, 3, 4), "float32")})
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    assert [(d.dim_param, d.dim_value) for d in dims] == [("x_0", 0), ("", 3), ("x_2", 0)]
    unknown = mo.Placeholder(dtype="float32", name="x")
    # ONNX's checker wants a rank; its runtimes do not.
    found = mo.from_onnx(mo.to_onnx(mo.relu(unknown, name="y")))
    assert found.inputs[0].shape is None
    assert found.run({"x": np.ones((2, 3), "float32")})["y"].shape == (2, 3)


def test_open_attributes_are_written_as_inputs() -> None:
    x = mo.Placeholder(shape=(None, None, 4), dtype="float32", name="x")
    lead = mo.shape_of(x, end=1, name="lead")
    shape = mo.concat(lead, mo.Constant(np.array([-1]), name="rest"), axis=0, name="shape")
    flat = mo.reshape(x, shape=shape, name="flat")
    axes = mo.Placeholder(shape=(1,), dtype="int64", name="axes")
    outputs = [flat, mo.reduce_sum(x, axes=axes, keepdims=True, name="sum"), mo.unsqueeze(x, axes=axes, name="more")]
    proto = round_trip(outputs, {"x": np.ones((2, 3, 4), "float32"), "axes": np.array([1])})
    assert not proto.functions
    assert [n.op_type for n in proto.graph.node if n.name in ("lead", "shape", "flat")] == [
        "Shape",
        "Concat",
        "Reshape",
    ]


def test_a_number_that_is_computed() -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    axis = mo.Placeholder(shape=(), dtype="int64", name="axis")
    proto = round_trip([mo.cumsum(x, axis=axis, name="y")], {"x": np.ones((2, 3), "float32"), "axis": np.array(1)})
    assert [f.domain for f in proto.functions] == ["metaop"]


# -- form --------------------------------------------------------------------------------------------------------------


def small() -> tuple[Node, dict[str, np.ndarray]]:
    x = mo.Placeholder(shape=(None, 3), dtype="float32", name="x")
    w = mo.Variable(np.arange(6, dtype="float32").reshape(3, 2), name="w")
    shift = mo.Constant(np.float32([0.1, -0.2]), name="shift")
    hidden = mo.add(mo.matmul(x, w, name="product"), shift, name="hidden")
    return mo.leaky_relu(hidden, alpha=0.1, name="act"), {"x": np.ones((2, 3), "float32")}


def test_names_and_kinds() -> None:
    y, feeds = small()
    proto = round_trip([y], feeds)
    assert [n.name for n in proto.graph.node] == ["shift", "product", "hidden", "act"]
    assert [t.name for t in proto.graph.initializer] == ["w"]
    assert [o.name for o in proto.graph.output] == ["out0"]
    assert [n.name for n in mo.from_onnx(proto).parameters] == ["w"]


def test_forms_of_outputs() -> None:
    y, feeds = small()
    hidden = mo.from_onnx(mo.to_onnx(y)).run(feeds, outputs=["hidden"])["hidden"]
    before = next(n for n in execution_order([y]) if n.name == "hidden")
    result = np.where(hidden > 0, hidden, hidden * np.float32(0.1))
    unused = mo.Placeholder(shape=(1,), dtype="int64", name="unused")
    for outputs, wanted in [
        (y, {"act": result}),
        ([y, before], {"act": result, "hidden": hidden}),
        ({"a": y, "b": y}, {"a": result, "b": result}),
        ({"hidden": y, "act": before}, {"hidden": result, "act": hidden}),
        (mo.Model([unused], {"out": y}), {"out": result}),
    ]:
        proto = mo.to_onnx(outputs)
        onnx.checker.check_model(proto)
        found = mo.from_onnx(proto).run(feeds)
        assert list(found) == list(wanted)
        assert_bits(list(found.values()), list(wanted.values()))


def test_leaves_as_outputs() -> None:
    x = mo.Placeholder(shape=(2,), dtype="float32", name="x")
    w = mo.Variable(np.float32([1, 2]), name="w")
    proto = mo.to_onnx({"x": x, "copy": x, "w": w, "v": w})
    onnx.checker.check_model(proto)
    found = mo.from_onnx(proto).run({"x": np.float32([3, 4])})
    assert {k: v.tolist() for k, v in found.items()} == {"x": [3, 4], "copy": [3, 4], "w": [1, 2], "v": [1, 2]}


def test_equal_names_are_told_apart() -> None:
    x = mo.Placeholder(shape=(2,), dtype="float32", name="n")
    y = mo.relu(mo.add(x, mo.Variable(np.float32([1, -9]), name="n"), name="n"), name="n")
    found = mo.from_onnx(mo.to_onnx({"n": y}))
    assert found.run({found.inputs[0].name: np.float32([1, 1])})["n"].tolist() == [2, 0]


def test_exact_numbers_survive_float32() -> None:
    x = mo.Placeholder(shape=(3,), dtype="float64", name="x")
    y = mo.leaky_relu(x, alpha=0.1, name="y")
    proto = round_trip([y], {"x": np.array([-1.0, -2.0, 3.0])})
    assert not proto.functions
    # A note that does not fit what the node says is not believed.
    proto.graph.node[0].metadata_props[0].value = '{"alpha": 0.5}'
    found = mo.from_onnx(proto).node("y")
    assert found.attrs["alpha"] == pytest.approx(0.1)
    proto.graph.node[0].metadata_props[0].value = "{"
    assert mo.from_onnx(proto).node("y").attrs["alpha"] == pytest.approx(0.1)


def test_functions_can_be_run_without_knowing_them() -> None:
    x = mo.Placeholder(shape=(4,), dtype="float32", name="x")
    y = mo.Placeholder(shape=(4,), dtype="float32", name="y")
    loss = mo.huber(x, y, delta=0.7, name="loss")
    proto = round_trip([loss], {"x": np.float32([1, 2, 3, 4]), "y": np.float32([1, 0, 3, 9])})
    assert [f.name for f in proto.functions] == ["huber__1"]
    for node in proto.graph.node:
        del node.metadata_props[:]
    plain = mo.from_onnx(proto)
    assert "huber" not in {n.op.name for n in plain.nodes if isinstance(n, Operator)}
    feeds = {"x": np.float32([1, 2, 3, 4]), "y": np.float32([1, 0, 3, 9])}
    np.testing.assert_allclose(plain.run(feeds)["out0"], run([loss], feeds, "numpy")[0], rtol=1e-6)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_all_refusals_are_told_at_once() -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    first, second = mo.dropout(x, training=True, name="first"), mo.dropout(x, training=True, name="second")
    with pytest.raises(mo.ModelError, match="2 nodes cannot be written as ONNX") as caught:
        mo.to_onnx(mo.relu(first + second))
    assert sorted(e["name"] for e in caught.value.unsupported) == ["first", "second"]
    assert "drawn by metaop" in str(caught.value)


def test_what_must_be_known() -> None:
    with pytest.raises(mo.ModelError, match="placeholder 'x' has no dtype"):
        mo.to_onnx(mo.relu(mo.Placeholder(name="x")))
    x = mo.Placeholder(shape=(1, None, 5, 5), dtype="float32", name="x")
    w = mo.Variable(np.ones((4, 1, 3, 3), "float32"), name="w")
    with pytest.raises(mo.ModelError, match="sizes or ranks"):
        mo.to_onnx(mo.depthwise_conv2d(x, w))


@pytest.mark.parametrize("outputs", [None, [], {}, [1], {"": mo.Variable(1.0)}, {1: mo.Variable(1.0)}, "x"])
def test_what_is_no_output(outputs: Any) -> None:
    with pytest.raises(mo.UserError, match=r"outputs are nodes|at least one output"):
        mo.to_onnx(outputs)


def test_a_dtype_that_the_parameters_give() -> None:
    x = mo.Placeholder(name="x")
    proto = mo.to_onnx(mo.multiply(x, mo.Variable(np.float64(2.0), name="w"), name="y") + 1.0)
    assert proto.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    assert mo.from_onnx(proto).run({"x": np.float64([1.5])})


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("external", [False, True])
def test_files(tmp_path: Path, external: bool) -> None:
    x = mo.Placeholder(shape=(None, 40), dtype="float32", name="x")
    weights = np.random.default_rng(0).standard_normal((40, 50)).astype("float32")
    y = mo.add(mo.matmul(x, mo.Variable(weights, name="w")), mo.Variable(np.ones(50, "float32"), name="b"), name="y")
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")
    mo.to_onnx(y, path, external_data=external)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx"] + ["m.onnx.data"] * external
    assert (path.stat().st_size < 4000) == external
    onnx.checker.check_model(path)
    data = np.ones((2, 40), "float32")
    assert_bits(mo.from_onnx(path).run({"x": data})["y"], mo.Session().run(y, {x: data}))


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y, _ = small()
    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(save.os, "fsync", fail)
    with pytest.raises(mo.ModelError, match="No space left"):
        mo.to_onnx(y, path)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("m.onnx", b"before")]
    monkeypatch.undo()
    with pytest.raises(mo.ModelError, match="cannot be written"):
        mo.to_onnx(y, tmp_path / "missing" / "m.onnx")


def test_models_too_large_for_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save, "LARGEST", 1000)
    y = mo.relu(mo.Variable(np.ones(400, "float32"), name="w"))
    with pytest.raises(mo.ModelError, match="give a path"):
        mo.to_onnx(y)
    with pytest.raises(mo.ModelError, match="external_data=True"):
        mo.to_onnx(y, tmp_path / "m.onnx", external_data=False)
    mo.to_onnx(y, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()
