"""Small ONNX models for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper


def value(name: str, shape: Any = (2, 3), kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[Any],
    inputs: Any = None,
    outputs: Any = None,
    initializers: dict[str, np.ndarray] | None = None,
    opset: int = 21,
    **more: Any,
) -> ModelProto:
    """From ``x`` (float32[2, 3]) to ``y``, unless told otherwise."""
    graph = helper.make_graph(
        nodes,
        "test",
        [value("x")] if inputs is None else inputs,
        [value("y", None)] if outputs is None else outputs,
        [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def perceptron() -> ModelProto:
    """Two layers, with weights, a constant shape and a name on every node."""
    rng = np.random.default_rng(0)
    return model(
        [
            helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "layer1", transB=1),
            helper.make_node("Relu", ["h"], ["a"], "act"),
            helper.make_node("Reshape", ["a", "shape"], ["r"], "flat"),
            helper.make_node("MatMul", ["r", "w2"], ["m"], "layer2"),
            helper.make_node("Softmax", ["m"], ["y"], "prob", axis=-1),
        ],
        inputs=[value("x", ("batch", 3))],
        initializers={
            "w1": rng.standard_normal((4, 3)).astype("float32"),
            "b1": rng.standard_normal(4).astype("float32"),
            "shape": np.array([-1, 4]),
            "w2": rng.standard_normal((4, 2)).astype("float32"),
        },
    )
