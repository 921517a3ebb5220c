"""Recurrent networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op

_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}


def _recurrent(call: Call, states: int) -> Any:
    """``states`` is how many initial states there are; they stand from input 5 on."""
    x, w, r = call.input(0), call.input(1), call.input(2)
    direction = call.attr("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    usual = _ACTIVATIONS[call.op_type] * count
    activations = call.attr("activations", usual)
    if tuple(a.lower() for a in activations) != tuple(a.lower() for a in usual):
        raise Refused(f"activations {activations} are not supported, only {usual}")
    for name in ("activation_alpha", "activation_beta"):  # these activations have none
        if call.attr(name, ()):
            raise Refused(f"{name} is not supported")
    if call.given("clip"):
        raise Refused("clip is not supported")
    if r.shape is None or call.attr("hidden_size", r.shape[-1] or 0) != r.shape[-1]:
        raise Refused(f"hidden_size does not fit the recurrent weights {r.type}")
    layout = call.flag("layout")

    def turned(node: Node | None, part: str) -> Node | None:
        return node if node is None or not layout else call.part(part, "transpose", node, perm=(1, 0, 2))

    inner = turned(x, "x")
    if call.has(4):
        lengths = call.constant(4)
        if inner is None or inner.shape is None or inner.shape[0] is None or (lengths != inner.shape[0]).any():
            raise Refused("sequences of different lengths are not supported")
    initial = [turned(call.optional(5 + i), f"initial_{i}") for i in range(states)]
    attrs: dict[str, Any] = {"direction": direction}
    if call.op_type == "GRU":
        attrs["linear_before_reset"] = call.flag("linear_before_reset")
    y, *last = call.make(call.op_type.lower(), inner, w, r, call.optional(3), *initial, **attrs)
    if layout:
        y = call.part("y", "transpose", y, perm=(2, 0, 1, 3))
        last = [turned(node, f"last_{i}") for i, node in enumerate(last)]
    return (y, *last)


@onnx_op("LSTM")
def lstm(call: Call) -> Any:
    call.only("input_forget", 0)
    if call.has(7) and np.any(call.constant(7)):
        raise Refused("peepholes are not supported")
    return _recurrent(call, 2)


@onnx_op("GRU")
def gru(call: Call) -> Any:
    return _recurrent(call, 1)
