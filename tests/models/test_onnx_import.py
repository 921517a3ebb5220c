"""ONNX models become graphs; what cannot is refused as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import metaop as mo
from metaop.types import ANY
from tests.models.build import model, perceptron, value

X = np.random.default_rng(1).standard_normal((2, 3)).astype("float32")


def agrees(proto: Any, **feeds: np.ndarray) -> mo.Model:
    """Import, run on NumPy, and compare with ONNX's own reference."""
    imported = mo.from_onnx(proto)
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    for got, want in zip(imported.run(feeds).values(), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
        assert got.dtype == want.dtype
    return imported


def node(op: str, inputs: Any, outputs: Any = ("y",), name: str = "", **attributes: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), name, **attributes)


def test_a_whole_model() -> None:
    found = agrees(perceptron(), x=X)
    assert [n.name for n in found.inputs] == ["x"]
    assert found.inputs[0].shape == (None, 3)
    assert found.output_names == ["y"]
    assert sorted(n.name for n in found.parameters) == ["b1", "w1", "w2"]
    assert found.node("act").op.name == "relu"
    assert found.node("layer1").op.name == "add"
    assert found.node("layer1/matmul").op.name == "matmul"


@pytest.mark.parametrize("backend", ["torch", "tensorflow", "onnxruntime"])
def test_other_backends(backend: str) -> None:
    pytest.importorskip(backend)
    found = mo.from_onnx(perceptron())
    np.testing.assert_allclose(found.run({"x": X}, backend=backend)["y"], found.run({"x": X})["y"], rtol=1e-5)


def test_path_bytes_and_proto_are_the_same(tmp_path: Path) -> None:
    proto = perceptron()
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    results = [
        mo.from_onnx(source).run({"x": X})["y"]
        for source in (proto, proto.SerializeToString(), tmp_path / "m.onnx", str(tmp_path / "m.onnx"))
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_names() -> None:
    nodes = [
        node("Relu", ["x"], ["h"]),
        node("Tanh", ["h"], ["t"], name="x"),
        node("Add", ["h", "t"], ["y"], name="h"),
    ]
    found = mo.from_onnx(model(nodes))
    assert {n.name for n in found.nodes} == {"x", "h/Relu", "x/Tanh", "h"}


def test_shape_arithmetic_is_folded() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Div", ["n", "three"], ["q"]),
        node("Concat", ["minus", "q"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    values = {"one": np.array([1]), "three": np.array([3]), "minus": np.array([-1])}
    found = agrees(model(nodes, initializers=values), x=X)
    assert found.outputs[0].shape == (6, 1)


@pytest.mark.parametrize(
    ("shape", "target", "wanted"),
    [
        ((None, 3, 4), [0, -1], (None, 12)),
        ((None, 3, 4), [0, 0, 2, 2], (None, 3, 2, 2)),
        ((2, 3), [0, -1], (2, 3)),
        ((None, 4), [-1, 2], (None, 2)),
    ],
)
def test_reshape_keeps_dynamic_sizes(shape: Any, target: list[int], wanted: Any) -> None:
    proto = model([node("Reshape", ["x", "s"])], [value("x", shape)], initializers={"s": np.array(target)})
    found = mo.from_onnx(proto)
    assert found.outputs[0].shape == wanted
    agrees(proto, x=np.zeros([2 if s is None else s for s in shape], "float32"))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_before_opset_13_flattens(op: str, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    found = mo.from_onnx(model([node(op, ["x"], axis=axis)], [value("x", x.shape)], opset=11)).run({"x": x})["y"]
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1).astype("float64")
    wanted = np.exp(flat) / np.exp(flat).sum(1, keepdims=True)
    wanted = np.log(wanted) if op == "LogSoftmax" else wanted
    np.testing.assert_allclose(found, wanted.reshape(x.shape), rtol=1e-5)


@pytest.mark.parametrize(
    ("opset", "proto"),
    [
        (7, node("Clip", ["x"], min=-0.5, max=0.5)),
        (7, node("Squeeze", ["u"], axes=[0])),
        (7, node("Slice", ["x"], starts=[1], ends=[3], axes=[1])),
        (7, node("Pad", ["x"], pads=[0, 1, 0, 1], value=2.0)),
        (7, node("ReduceSum", ["x"], axes=[1], keepdims=0)),
        (7, node("Dropout", ["x"], ratio=0.3)),
        (10, node("ReduceMean", ["x"], axes=[0])),
    ],
    ids=lambda p: getattr(p, "op_type", str(p)),
)
def test_old_forms(opset: int, proto: Any) -> None:
    nodes = [node("Unsqueeze", ["x"], ["u"], axes=[0]), proto]
    found = mo.from_onnx(model(nodes, opset=opset)).run({"x": X})["y"]
    wanted = {
        "Clip": np.clip(X, -0.5, 0.5),
        "Squeeze": X,
        "Slice": X[:, 1:3],
        "Pad": np.pad(X, ((0, 0), (1, 1)), constant_values=2.0),
        "ReduceSum": X.sum(1),
        "Dropout": X,
        "ReduceMean": X.mean(0, keepdims=True),
    }[proto.op_type]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_local_functions_are_inlined() -> None:
    body = helper.make_function(
        "mine", "twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 21)]
    )
    proto = model([helper.make_node("twice", ["x"], ["y"], "call", domain="mine")], functions=[body])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    np.testing.assert_array_equal(mo.from_onnx(proto).run({"x": X})["y"], 2 * X)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_all_refusals_are_told_at_once() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SequenceLength", ["a"], ["b"], name="first"),
        node("Cast", ["b"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Fancy", ["x"], ["d"], "second", domain="com.example"),
        node("Softmax", ["x"], ["e"], name="third", axis=7),
        node("Wrong", ["c"], ["y"], name="fourth"),
    ]
    proto = model(nodes)
    proto.opset_import.append(helper.make_opsetid("com.example", 3))
    with pytest.raises(mo.ModelError) as caught:
        mo.from_onnx(proto)
    told = caught.value.unsupported
    assert [entry["name"] for entry in told] == ["first", "second", "third", "fourth"]
    assert [entry["opset"] for entry in told] == [21, 3, 21, 21]
    assert told[1]["domain"] == "com.example"
    assert "4 nodes" in str(caught.value)
    assert all(entry["name"] in str(caught.value) and entry["why"] in str(caught.value) for entry in told)


@pytest.mark.parametrize(
    ("proto", "why"),
    [
        (node("Relu", ["x"], unheard=1), "attribute 'unheard'"),
        (node("Relu", ["x", "x"]), "relu takes 1"),
        (node("MaxPool", ["x"], ["y", "i"], kernel_shape=[1]), "spatial axes"),
        (node("Dropout", ["x", "", "t"]), "training mode"),
        (node("Elu", ["x"], alpha=2), "must be a float"),
        (node("Reshape", ["x", "n"]), "how many sizes there are must be known"),
        (node("LeakyRelu", [""]), "missing"),
        (node("Exp", ["t"]), "takes float16"),
        (node("Erf", ["x"], ["y", "z"]), "output 1"),
        (node("IsInf", ["n"]), "takes float16, float32 or float64"),
        (node("Swish", ["n"], alpha=0.5), "cannot stand beside int64"),
        (node("CumSum", ["x", "two"]), "must be one number"),
    ],
)
def test_nothing_is_ignored(proto: Any, why: str) -> None:
    given = [value("x"), value("n", (None,), TensorProto.INT64)]
    with pytest.raises(mo.ModelError, match=why):
        mo.from_onnx(model([proto], given, initializers={"t": np.array(True), "two": np.array([0, 1])}))


def test_a_missing_meta_operator_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    from metaop.models.onnx import table

    monkeypatch.setattr(table, "REGISTRY", {})
    with pytest.raises(mo.ModelError, match="needs the meta operator 'relu'"):
        mo.from_onnx(model([node("Relu", ["x"])]))


# -- files that are wrong ----------------------------------------------------------------------------------------------


def broken(change: Any) -> Any:
    proto = perceptron()
    change(proto)
    return proto


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.graph.node[0].input.__setitem__(0, "nowhere"), "which nothing computes"),
        (lambda m: m.graph.node[1].input.__setitem__(0, "m"), "form a cycle"),
        (lambda m: m.graph.node[1].output.__setitem__(0, "h"), "two things of the model are named 'h'"),
        (lambda m: setattr(m.graph.initializer[1], "name", "w1"), "two initializers"),
        (lambda m: m.graph.initializer[0].dims.__setitem__(0, 1 << 60), "bytes; the file has"),
        (lambda m: m.graph.initializer[0].dims.__setitem__(0, -4), "impossible shape"),
        (lambda m: setattr(m.graph.initializer[0], "data_type", 8), "type STRING"),
        (lambda m: setattr(m.graph.initializer[0], "data_type", 99), "number 99"),
        (lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 8), "type STRING"),
        (lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 7), "declared int64"),
        (lambda m: setattr(m.graph.output[0], "name", "z"), "nothing computes the output 'z'"),
        (lambda m: m.opset_import.pop(), "does not say which version"),
        (lambda m: setattr(m.opset_import[0], "version", 6), "reads opsets 7 to"),
        (lambda m: setattr(m.opset_import[0], "version", 9999), "reads opsets 7 to"),
        (lambda m: m.ClearField("graph"), "no graph"),
        (lambda m: m.graph.input.append(m.graph.input[0]), "another has too"),
    ],
)
def test_wrong_models(change: Any, why: str) -> None:
    with pytest.raises(mo.ModelError, match=why):
        mo.from_onnx(broken(change))


@pytest.mark.parametrize("source", [b"", b"garbage" * 20, bytes(range(256)), 7, None, "/no/such/file.onnx", "a\0b"])
def test_what_is_no_model(source: Any) -> None:
    with pytest.raises(mo.ModelError):
        mo.from_onnx(source)


def test_functions_that_call_themselves() -> None:
    domain = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    call = helper.make_node("f", ["a"], ["b"], domain="mine")
    proto = model(
        [helper.make_node("f", ["x"], ["y"], domain="mine")],
        functions=[helper.make_function("mine", "f", ["a"], ["b"], [call], domain)],
    )
    with pytest.raises(mo.ModelError, match="calls itself"):
        mo.from_onnx(proto)


def test_functions_that_unfold_without_end() -> None:
    domain = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    functions = [helper.make_function("mine", "f0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], domain)]
    for level in range(1, 9):
        chain = [
            helper.make_node(
                f"f{level - 1}", ["a" if i == 0 else f"t{i}"], ["b" if i == 9 else f"t{i + 1}"], domain="mine"
            )
            for i in range(10)
        ]
        functions.append(helper.make_function("mine", f"f{level}", ["a"], ["b"], chain, domain))
    with pytest.raises(mo.ModelError, match="unfolds to more than"):
        mo.from_onnx(model([helper.make_node("f8", ["x"], ["y"], domain="mine")], functions=functions))


def test_large_constants_are_not_made_while_reading() -> None:
    nodes = [node("ConstantOfShape", ["s"], ["big"]), node("Reshape", ["x", "big"])]
    with pytest.raises(mo.ModelError):
        mo.from_onnx(model(nodes, initializers={"s": np.array([1 << 40])}))
    values = {"a": np.array(0), "b": np.array(1 << 60), "c": np.array(1)}
    with pytest.raises(mo.ModelError, match="too long"):
        mo.from_onnx(model([node("Range", ["a", "b", "c"])], initializers=values))


# -- external data -----------------------------------------------------------------------------------------------------


def external(location: str, **entries: str) -> Any:
    proto = model([node("Add", ["x", "w"])], initializers={"w": X})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, given in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=given)
    return proto


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"skip" + X.tobytes())
    (tmp_path / "m.onnx").write_bytes(external("w.bin", offset="4", length="24").SerializeToString())
    np.testing.assert_array_equal(mo.from_onnx(tmp_path / "m.onnx").run({"x": X})["y"], X + X)


@pytest.mark.parametrize(
    ("location", "entries", "why"),
    [
        ("../w.bin", {}, "inside the model's folder"),
        ("a/../../w.bin", {}, "inside the model's folder"),
        ("/etc/passwd", {}, "inside the model's folder"),
        ("", {}, "inside the model's folder"),
        ("link", {}, "leads out"),
        ("folder/w.bin", {}, "leads out"),
        ("missing", {}, "does not exist"),
        ("short", {}, "ends before"),
        ("short", {"length": "999999999999"}, "needs 24 bytes"),
        ("short", {"offset": "-1"}, "needs 24 bytes"),
        ("short", {"offset": "many"}, "not numbers"),
    ],
)
def test_external_data_elsewhere(tmp_path: Path, location: str, entries: dict[str, str], why: str) -> None:
    (tmp_path / "w.bin").write_bytes(X.tobytes())
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path / "w.bin")
    (home / "folder").symlink_to(tmp_path)
    (home / "short").write_bytes(b"1234")
    (home / "m.onnx").write_bytes(external(location, **entries).SerializeToString())
    with pytest.raises(mo.ModelError, match=why):
        mo.from_onnx(home / "m.onnx")


def test_external_data_needs_a_folder() -> None:
    with pytest.raises(mo.ModelError, match="give the model's path"):
        mo.from_onnx(external("w.bin"))


# -- stored tensors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(d.name for d in ANY))
@pytest.mark.parametrize("raw", [True, False])
def test_stored_tensors(dtype: str, raw: bool) -> None:
    from metaop.models.onnx.read import tensor

    array = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = helper.make_tensor("t", kind, array.shape, array.tobytes() if raw else array.reshape(-1), raw=raw)
    np.testing.assert_array_equal(numpy_helper.to_array(proto), array)
    found = tensor(proto, "t", None)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


# -- mutations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_read_or_refused(seed: int) -> None:
    """Bytes changed, cut, doubled: a model comes out or a ModelError, and nothing else."""
    rng = np.random.default_rng(seed)
    original = perceptron().SerializeToString()
    refused = 0
    for trial in range(150):
        content = bytearray(original)
        for _ in range(int(rng.integers(1, 4))):
            place, kind = int(rng.integers(len(content))), rng.integers(4)
            if kind == 0:
                content[place] = int(rng.integers(256))
            elif kind == 1:
                content[place] ^= 1 << int(rng.integers(8))
            elif kind == 2:
                del content[place : place + int(rng.integers(1, 20))]
            else:
                content[place:place] = content[place : place + int(rng.integers(1, 20))]
        try:
            mo.from_onnx(bytes(content))
        except mo.ModelError:
            refused += 1
        except Exception as error:
            pytest.fail(f"seed {seed}, trial {trial}: {type(error).__name__}: {error}")
    assert 20 < refused < 150


def test_truncated_files_are_refused() -> None:
    content = perceptron().SerializeToString()
    for size in range(0, len(content) - 1, 7):
        with pytest.raises(mo.ModelError):
            mo.from_onnx(content[:size])


def test_every_mapping_names_an_onnx_operator() -> None:
    from metaop.models.onnx.convert import TABLE

    known = {
        f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
    }
    assert set(TABLE) <= known
