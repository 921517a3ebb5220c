"""Recurrent networks. PyTorch has the gates in another order, and all layers and directions in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op

#: for each gate of the meta operator, where PyTorch has it: i o f c from i f g o, and z r h from r z n
_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


def _recurrent(
    call: Call,
    op: str,
    x: Node,
    states: Sequence[Node],
    params: Sequence[Node],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    **own_attrs: Any,
) -> Any:
    directions = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    if len(params) != num_layers * directions * each:
        raise Refused("projections are not supported")
    if call.rank(x) != 3:
        raise Refused("an input without a batch is not supported; give it one of size 1")
    if batch_first:
        x = call.part("steps_first", "transpose", x, perm=(1, 0, 2))
    last: list[list[Node]] = []
    for layer in range(num_layers):
        tag = f"layer{layer}"
        own = params[layer * directions * each : (layer + 1) * directions * each]
        weights = _weights(call, op, tag, [own[d * each : (d + 1) * each] for d in range(directions)])
        span = {"starts": (layer * directions,), "ends": ((layer + 1) * directions,), "axes": (0,)}
        initial = [
            state if num_layers == 1 else call.part(f"{tag}/initial_{i}", "slice", state, **span)
            for i, state in enumerate(states)
        ]
        attrs: dict[str, Any] = {**own_attrs, "direction": "bidirectional" if bidirectional else "forward"}
        y, *found = call.part(tag, op, x, *weights, *initial, **attrs)
        last.append(found)
        # From [T, D, N, H] to [T, N, D * H].
        if bidirectional:
            y = call.part(f"{tag}/batch_first", "transpose", y, perm=(0, 2, 1, 3))
            x = call.part(f"{tag}/y", "reshape", y, shape=_merged(call, y, params[layer * directions * each + 1]))
        else:
            x = call.part(f"{tag}/y", "squeeze", y, axes=(1,))
        if train and dropout and layer + 1 < num_layers:
            x = call.part(f"{tag}/dropout", "dropout", x, ratio=float(dropout), training=True)
    y = call.make("transpose", x, perm=(1, 0, 2)) if batch_first else x
    ends = [
        layers[0] if num_layers == 1 else call.part(f"last_{i}", "concat", *layers, axis=0)
        for i, layers in enumerate(zip(*last, strict=True))
    ]
    return (y, *ends)


def _merged(call: Call, y: Node, recurrent: Node) -> Any:
    """The shape with both directions side by side; steps or batch may be open, but not both."""
    width = 2 * call.static(recurrent)[1]
    steps, batch = (y.shape or (None,) * 4)[:2]
    if steps is None and batch is None:
        raise Refused("steps and batch must not both be open")
    return (-1 if steps is None else steps, -1 if batch is None else batch, width)


def _weights(call: Call, op: str, tag: str, directions: list[Sequence[Node]]) -> list[Node]:
    gates = _GATES[op]
    tensors = []
    for d, own in enumerate(directions):
        for i, tensor in enumerate(own):
            if len(gates) == 1:
                tensors.append(tensor)
                continue
            parts = call.part(f"{tag}/parts_{d}{i}", "split", tensor, axis=0, num_outputs=len(gates))
            tensors.append(call.part(f"{tag}/gates_{d}{i}", "concat", *[parts[g] for g in gates], axis=0))
    each = len(tensors) // len(directions)
    w, r = (call.part(f"{tag}/{n}", "stack", *tensors[i::each], axis=0) for i, n in enumerate(("w", "r")))
    if each == 2:
        return [w, r, None]
    biases = [
        call.part(f"{tag}/bias_{d}", "concat", *tensors[d * each + 2 : d * each + 4], axis=0)
        for d in range(len(directions))
    ]
    return [w, r, call.part(f"{tag}/b", "stack", *biases, axis=0)]


@aten_op("lstm.input")
def lstm(
    call: Call,
    input: Node,
    hx: Sequence[Node],
    params: Sequence[Node],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    return _recurrent(
        call, "lstm", input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


@aten_op("gru.input")
def gru(
    call: Call,
    input: Node,
    hx: Node,
    params: Sequence[Node],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    return _recurrent(
        call,
        "gru",
        input,
        [hx],
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        batch_first,
        linear_before_reset=True,
    )


def _plain(activation: str) -> None:
    @aten_op(f"rnn_{activation}.input")
    def mapping(
        call: Call,
        input: Node,
        hx: Node,
        params: Sequence[Node],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        return _recurrent(
            call,
            "rnn",
            input,
            [hx],
            params,
            has_biases,
            num_layers,
            dropout,
            train,
            bidirectional,
            batch_first,
            activation=activation,
        )


_plain("tanh")
_plain("relu")
