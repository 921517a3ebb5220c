"""Recurrent layers of ONNX that no single meta operator expresses, held against ONNX Runtime."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import metaop as mo

onnxruntime = pytest.importorskip("onnxruntime")

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 2, 3


def layer(op, direction="forward", lengths=False, states=False, peepholes=False, bias=True, **attrs):
    """A model of one layer, and what to feed it."""
    rng = np.random.default_rng(3)
    d, rows = (2 if direction == "bidirectional" else 1), GATES[op] * HIDDEN
    state = (d, BATCH, HIDDEN)
    shapes = {
        "X": (STEPS, BATCH, INPUTS),
        "W": (d, rows, INPUTS),
        "R": (d, rows, HIDDEN),
        "B": (d, 2 * rows) if bias else None,
        "lengths": (BATCH,) if lengths else None,
        "h0": state if states else None,
        "c0": state if states and op == "LSTM" else None,
        "P": (d, 3 * HIDDEN) if peepholes else None,
    }
    feeds = {n: rng.uniform(-1.5, 1.5, s).astype(np.float32) for n, s in shapes.items() if s is not None}
    if lengths:
        feeds["lengths"] = np.array([2, STEPS, 1], np.int32)
    names = [n if n in feeds else "" for n in (shapes if op == "LSTM" else list(shapes)[:6])]
    while not names[-1]:
        names.pop()
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction=direction, **attrs)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feeds.items() if n != "lengths"]
    if lengths:
        values.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, (BATCH,)))
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph([node], "layer", values, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), feeds


LAYERS = {
    "lengths": layer("RNN", lengths=True),
    "lengths, reverse": layer("RNN", "reverse", lengths=True, states=True),
    "lengths of a GRU": layer("GRU", "bidirectional", lengths=True, states=True),
    "lengths of an LSTM": layer("LSTM", "bidirectional", lengths=True, states=True),
    "relu": layer("RNN", activations=["Relu"]),
    "two activations": layer("RNN", "bidirectional", activations=["Relu", "Tanh"]),
    "other activations": layer("GRU", activations=["HardSigmoid", "Softsign"], linear_before_reset=1),
    "alpha and beta": layer(
        "GRU", activations=["HardSigmoid", "LeakyRelu"], activation_alpha=[0.3, 0.1], activation_beta=[0.4]
    ),
    "an alpha for the second": layer("GRU", activations=["Sigmoid", "LeakyRelu"], activation_alpha=[0.3]),
    "clip": layer("RNN", clip=0.4),
    "clip of an LSTM": layer("LSTM", clip=0.4),
    "clip of a GRU": layer("GRU", clip=0.4),
    "peepholes": layer("LSTM", peepholes=True, states=True),
    "peepholes, reverse": layer("LSTM", "reverse", peepholes=True, bias=False),
    "coupled": layer("LSTM", input_forget=1),
}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", LAYERS)
def test_written_out(name, backend):
    model, feeds = LAYERS[name]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = mo.from_onnx(model).run(feeds, backend=backend)
    for (output, got), want in zip(found.items(), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6, err_msg=output)


def test_what_an_activation_must_be():
    model, _ = layer("RNN", activations=["Affine"])
    with pytest.raises(mo.ModelError, match=r"activations .*affine.* are not supported"):
        mo.from_onnx(model)
