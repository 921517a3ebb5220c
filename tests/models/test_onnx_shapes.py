"""Shape arithmetic of ONNX models whose sizes are known with the data only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import metaop as mo
from tests import checks
from tests.models.build import model, value

BACKENDS = [b for b in ("numpy", "torch", "tensorflow", "onnxruntime") if b in checks.BACKENDS]
INT = TensorProto.INT64


def node(op: str, inputs: Any, outputs: Any = ("y",), **attributes: Any) -> Any:
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def agrees(proto: Any, *feeds: dict[str, np.ndarray], backends: Any = BACKENDS) -> mo.Model:
    """Import once; then every feed on every backend against ONNX's reference, bit for bit: only elements move."""
    found = mo.from_onnx(proto)
    for feed in feeds:
        wanted = ReferenceEvaluator(proto).run(None, feed)
        for backend in backends:
            for got, want in zip(found.run(feed, backend=backend).values(), wanted, strict=True):
                assert got.dtype == np.asarray(want).dtype
                np.testing.assert_array_equal(got, want, err_msg=backend)
    return found


def data(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype="float32").reshape(shape)


DYNAMIC = [value("x", ("a", "b", "c"))]


def test_flatten_as_exporters_write_it() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "first"], ["u"]),
        node("Concat", ["u", "rest"], ["t"], axis=0),
        node("Reshape", ["x", "t"]),
    ]
    given = {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1])}
    found = agrees(model(nodes, DYNAMIC, initializers=given), {"x": data(2, 3, 4)}, {"x": data(5, 1, 2)})
    assert found.outputs[0].shape == (None, None)


def test_heads_of_attention() -> None:
    """Sizes that are constants in the shape are known; what follows can rely on rank and size."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "zero", "two"], ["lead"]),
        node("Concat", ["lead", "heads"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["h"]),
        node("Transpose", ["h"], ["y"], perm=[0, 2, 1, 3]),
    ]
    given = {"zero": np.array([0]), "two": np.array([2]), "heads": np.array([2, 4])}
    found = agrees(
        model(nodes, [value("x", ("n", "t", 8))], initializers=given), {"x": data(2, 3, 8)}, {"x": data(1, 5, 8)}
    )
    assert found.outputs[0].shape == (None, 2, None, 4)


@pytest.mark.parametrize("target", [[0, 0, -1], [0, -1], [-1, 0, 2], [0, 0, 0], [0, -1, 2, 2]])
def test_reshape_copies_unknown_sizes(target: list[int]) -> None:
    proto = model([node("Reshape", ["x", "s"])], DYNAMIC, initializers={"s": np.array(target)})
    found = agrees(proto, {"x": data(2, 3, 4)}, {"x": data(3, 3, 8)})
    assert len(found.outputs[0].shape or ()) == len(target)


def test_reshape_by_fed_sizes() -> None:
    proto = model([node("Reshape", ["x", "s"])], [*DYNAMIC, value("s", (2,), INT)])
    x = data(2, 3, 4)
    agrees(proto, {"x": x, "s": np.array([0, -1])}, {"x": x, "s": np.array([6, 4])}, {"x": x, "s": np.array([-1, 3])})
    with pytest.raises(mo.UserError, match="cannot take the shape"):
        mo.from_onnx(proto).run({"x": x, "s": np.array([5, 5])})


def test_zero_beyond_the_last_axis() -> None:
    proto = model([node("Reshape", ["x", "s"])], [*DYNAMIC, value("s", (4,), INT)])
    agrees(proto, {"x": data(2, 3, 4), "s": np.array([0, 0, 2, 2])})
    with pytest.raises(mo.UserError):
        mo.from_onnx(proto).run({"x": data(2, 3, 4), "s": np.array([0, 0, 4, 0])})


@pytest.mark.parametrize("sizes", [[2, 1, 4], [1, 1, 1], [5, 2, 3, 1], [4]])
def test_expand_goes_both_ways(sizes: list[int]) -> None:
    proto = model([node("Expand", ["x", "s"])], [*DYNAMIC, value("s", (len(sizes),), INT)])
    found = agrees(proto, {"x": data(2, 3, 1), "s": np.array(sizes)})
    assert len(found.outputs[0].shape or ()) == max(3, len(sizes))


def test_slice_by_fed_numbers() -> None:
    given = [*DYNAMIC, *[value(n, (2,), INT) for n in ("starts", "ends", "axes", "steps")]]
    feeds = [
        {"starts": [0, 1], "ends": [2, 3], "axes": [0, 2], "steps": [1, 1]},
        {"starts": [-1, -1], "ends": [-9, -9], "axes": [1, 0], "steps": [-1, -2]},
    ]
    proto = model([node("Slice", ["x", "starts", "ends", "axes", "steps"])], given)
    agrees(proto, *[{"x": data(2, 3, 4), **{k: np.array(v) for k, v in f.items()}} for f in feeds])


def test_slice_up_to_a_size() -> None:
    """As position embeddings are cut to the length of a sequence."""
    nodes = [
        node("Shape", ["x"], ["t"], start=1, end=2),
        node("Slice", ["table", "zero", "t", "zero"], ["p"]),
        node("Add", ["x", "p"]),
    ]
    proto = model(nodes, [value("x", ("n", "t", 4))], initializers={"zero": np.array([0]), "table": data(9, 4)})
    agrees(proto, {"x": data(2, 3, 4)}, {"x": data(1, 9, 4)})


def test_split_by_fed_sizes() -> None:
    outputs = [value("a", None), value("b", None)]
    given = [*DYNAMIC, value("s", (None,), INT)]
    proto = model([node("Split", ["x", "s"], ["a", "b"], axis=2)], given, outputs)
    agrees(proto, {"x": data(2, 3, 4), "s": np.array([1, 3])}, {"x": data(2, 3, 4), "s": np.array([4, 0])})


@pytest.mark.parametrize(("op", "shape"), [("Squeeze", (1, 3, 1)), ("Unsqueeze", (2, 3, 1))])
def test_axes_that_are_fed(op: str, shape: Any) -> None:
    proto = model([node(op, ["x", "axes"])], [*DYNAMIC, value("axes", (2,), INT)])
    found = agrees(proto, {"x": data(*shape), "axes": np.array([0, -1])})
    assert len(found.outputs[0].shape or ()) == (1 if op == "Squeeze" else 5)


@pytest.mark.parametrize("fed", ["pads", "axes", "both"])
def test_pads_and_axes_that_are_fed(fed: str) -> None:
    values = {"pads": np.array([1, 0, 2, 3]), "axes": np.array([-1, 0])}
    inputs = [*DYNAMIC, *[value(n, v.shape, INT) for n, v in values.items() if fed in (n, "both")]]
    stored = {n: v for n, v in values.items() if fed not in (n, "both")}
    proto = model([node("Pad", ["x", "pads", "", "axes"])], inputs, initializers=stored)
    agrees(proto, {"x": data(2, 3, 4), **{n: v for n, v in values.items() if n not in stored}})


def test_a_padding_value_that_is_fed() -> None:
    proto = model(
        [node("Pad", ["x", "p", "v"])], [value("x"), value("v", ())], initializers={"p": np.array([0, 1] * 2)}
    )
    agrees(proto, {"x": data(2, 3), "v": np.float32(7)}, {"x": data(2, 3), "v": np.float32(-1)})


def test_constants_of_a_shape_that_depends_on_data() -> None:
    fill = helper.make_tensor("value", TensorProto.FLOAT, [1], [3.0])
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["c"], value=fill),
        node("Size", ["x"], ["n"]),
        node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["x", "c"], ["z"]),
        node("Mul", ["z", "f"]),
    ]
    found = agrees(model(nodes, DYNAMIC), {"x": data(2, 3, 4)}, {"x": data(0, 3, 4)}, {"x": data(1, 1, 1)})
    assert found.outputs[0].shape is not None


def test_integer_division_of_sizes() -> None:
    nodes = [
        node("Shape", ["x"], ["s"], start=1, end=2),
        node("Div", ["s", "two"], ["half"]),
        node("Concat", ["same", "half", "more"], ["t"], axis=0),
        node("Reshape", ["x", "t"]),
    ]
    given = {"two": np.array([2]), "same": np.array([0]), "more": np.array([2, -1])}
    agrees(model(nodes, DYNAMIC, initializers=given), {"x": data(2, 4, 3)}, {"x": data(1, 6, 2)})


def test_reductions_over_fed_axes() -> None:
    nodes = [node("ReduceMax", ["x", "axes"], keepdims=0)]
    found = agrees(
        model(nodes, [*DYNAMIC, value("axes", (2,), INT)]),
        {"x": data(2, 3, 4), "axes": np.array([0, -1])},
        {"x": data(2, 3, 4), "axes": np.array([2, 1])},
    )
    assert len(found.outputs[0].shape or ()) == 1
    with pytest.raises(mo.ModelError, match="how many axes there are must be known"):
        mo.from_onnx(model(nodes, [*DYNAMIC, value("axes", (None,), INT)]))


def test_no_axes_at_all() -> None:
    given = [*DYNAMIC, value("axes", (0,), INT)]
    none = np.zeros(0, np.int64)
    for noop in (0, 1):
        proto = model([node("ReduceMax", ["x", "axes"], noop_with_empty_axes=noop)], given)
        agrees(proto, {"x": data(2, 3, 4), "axes": none})


def test_where_sizes_meet_a_constant() -> None:
    """``Equal`` and ``Where`` on sizes, which exporters write for broadcasting."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["three"], ["ones"], value=helper.make_tensor("v", INT, [1], [1])),
        node("Equal", ["wish", "minus"], ["keep"]),
        node("Where", ["keep", "ones", "wish"], ["t"]),
        node("Expand", ["x", "t"]),
    ]
    given = {"three": np.array([3]), "wish": np.array([-1, 3, -1]), "minus": np.array([-1])}
    found = agrees(model(nodes[1:], DYNAMIC, initializers=given), {"x": data(2, 1, 4)})
    assert found.outputs[0].shape == (None, 3, None)


def test_gradients_through_shape_arithmetic() -> None:
    nodes = [
        node("Mul", ["x", "w"], ["h"]),
        node("Shape", ["x"], ["s"], end=1),
        node("Concat", ["s", "rest"], ["t"], axis=0),
        node("Reshape", ["h", "t"], ["r"]),
        node("ReduceSum", ["r"], ["y"], keepdims=0),
    ]
    proto = model(nodes, DYNAMIC, initializers={"rest": np.array([-1]), "w": np.full(4, 2, "float32")})
    found = mo.from_onnx(proto)
    with mo.Session("torch") as session:
        (grad,) = session.gradients(found.outputs[0], found.parameters, {found.inputs[0]: data(2, 3, 4)})
    np.testing.assert_array_equal(grad, data(2, 3, 4).sum((0, 1)))


@pytest.mark.parametrize("kv_heads", [2, 1])
def test_attention_of_open_batch_and_length(kv_heads: int) -> None:
    """As exports of language models have it: causal, with keys that several heads share."""
    call = node("Attention", "qkv", q_num_heads=2, kv_num_heads=kv_heads, is_causal=1)
    inputs = [value("q", ("n", "t", 8)), *(value(name, ("n", "t", 4 * kv_heads)) for name in "kv")]
    proto = model([call], inputs, [value("y", ("n", "t", 8))], {}, opset=23)
    found = mo.from_onnx(proto)
    reference = ReferenceEvaluator(proto)
    rng = np.random.default_rng(0)
    for batch, length in ((1, 3), (2, 5)):
        widths = {"q": 8, "k": 4 * kv_heads, "v": 4 * kv_heads}
        feeds = {n: rng.standard_normal((batch, length, w)).astype("float32") for n, w in widths.items()}
        (want,) = reference.run(None, feeds)
        for backend in BACKENDS:
            np.testing.assert_allclose(found.run(feeds, backend)["y"], want, rtol=1e-5, atol=1e-6)
