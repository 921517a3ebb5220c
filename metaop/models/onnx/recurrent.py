"""Recurrent networks: as one meta operator where it means the same, else step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op

_ACTIVATIONS = {"RNN": ("tanh",), "LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh")}
_GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
#: activations that meta operators express, with ONNX's names and defaults of alpha and beta
_KNOWN: dict[str, tuple[str, dict[str, float]]] = {
    "relu": ("relu", {}),
    "tanh": ("tanh", {}),
    "sigmoid": ("sigmoid", {}),
    "softsign": ("softsign", {}),
    "softplus": ("softplus", {}),
    "leakyrelu": ("leaky_relu", {"alpha": 0.01}),
    "elu": ("elu", {"alpha": 1.0}),
    "hardsigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
}
#: longer sequences are not written out
MOST_STEPS = 512

Activation = Callable[[Node], Node]


class _Layer:
    """What the three operators share: their tensors with time first, and their attributes."""

    def __init__(self, call: Call, states: int, first: int = 5) -> None:
        self.call = call
        x, self.w, self.r = call.input(0), call.input(1), call.input(2)
        self.b = call.optional(3)
        self.direction = call.attr("direction", "forward")
        if self.direction not in ("forward", "reverse", "bidirectional"):
            raise Refused(f"direction={self.direction!r} is unknown")
        self.reversed = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[self.direction]
        usual = _ACTIVATIONS[call.op_type] * len(self.reversed)
        self.activations = tuple(a.lower() for a in call.attr("activations", usual))
        if len(self.activations) != len(usual) or any(a not in _KNOWN for a in self.activations):
            raise Refused(f"activations {self.activations} are not supported: {len(usual)} of {', '.join(_KNOWN)}")
        self.functions = self._functions()
        self.usual = self.activations == usual
        self.clip = call.attr("clip", 0.0)
        if call.given("clip") and not self.clip > 0:
            raise Refused(f"clip={self.clip} must be a positive number")
        self.hidden = self.r.shape[-1] if self.r.shape else None
        if self.hidden is None or call.attr("hidden_size", self.hidden) != self.hidden:
            raise Refused(f"hidden_size does not fit the recurrent weights {self.r.type}")
        self.layout = call.flag("layout")
        self.x = self.turned(x, "x")
        self.lengths = self._lengths()
        self.initial = [
            None if state is None else self.turned(state, f"initial_{i}")
            for i, state in enumerate(call.optional(first + i) for i in range(states))
        ]

    def _functions(self) -> list[tuple[str, dict[str, float]]]:
        """The meta operator and the attributes of each activation: each takes the next alpha and beta it uses."""
        left = {name: list(self.call.attr(f"activation_{name}", ())) for name in ("alpha", "beta")}
        given = {name: bool(values) for name, values in left.items()}
        found = []
        for activation in self.activations:
            op, defaults = _KNOWN[activation]
            for name in defaults:
                if given[name] and not left[name]:
                    raise Refused(f"activation_{name} has too few values for {', '.join(self.activations)}")
            found.append((op, {name: left[name].pop(0) if given[name] else v for name, v in defaults.items()}))
        if any(left.values()):
            raise Refused(
                f"activation_alpha or activation_beta has more values than {', '.join(self.activations)} take"
            )
        return found

    @property
    def plain(self) -> bool:
        """Whether only what every recurrent meta operator has is asked for."""
        return self.usual and not self.clip and self.lengths is None

    def turned(self, node: Node, part: str) -> Node:
        """Time, or directions, and sequences exchanged where the layout says so."""
        return self.call.part(part, "transpose", node, perm=(1, 0, 2)) if self.layout else node

    def _lengths(self) -> Node | None:
        """The lengths of the sequences; ``None`` where all are known to be the full one."""
        if not self.call.has(4):
            return None
        node = self.call.input(4)
        steps = self.x.shape[0] if self.x.shape else None
        value = self.call.converter.value(node)
        # A sequence has at least one step.
        full = steps == 1 or (value is not None and steps is not None and bool((value == steps).all()))
        return None if full else node

    def whole(self, op: str, **attrs: Any) -> Any:
        """The layer as one meta operator."""
        tensors = [self.x, self.w, self.r, self.b, *self.initial]
        return self.finished(*self.call.make(op, *tensors, direction=self.direction, **attrs))

    def finished(self, y: Node, *last: Node) -> Any:
        """The results, as the layout says."""
        if self.layout:
            y = self.call.part("y", "transpose", y, perm=(2, 0, 1, 3))
        return (y, *[self.turned(node, f"last_{i}") for i, node in enumerate(last)])

    # -- step by step -------------------------------------------------------------------------------------------------

    def written_out(self, step: Callable[[_Direction, Node, list[Node]], list[Node]]) -> Any:
        """The layer as many small nodes: ``step(direction, x_t, states)`` gives the next states, h first."""
        call = self.call
        shape = self.x.shape or (None,)
        if shape[0] is None or not 0 < shape[0] <= MOST_STEPS:
            raise Refused(f"the number of steps must be known and at most {MOST_STEPS}; got {self.x.type}")
        sequences, finals = [], []
        for d, backwards in enumerate(self.reversed):
            direction = _Direction(self, d)
            now = [direction.state(i, state) for i, state in enumerate(self.initial)]
            outputs: list[Node] = []
            for t in range(shape[0])[:: -1 if backwards else 1]:
                new = step(direction, direction.at(self.x, t), now)
                shown = new[0]
                if self.lengths is not None:
                    lives = direction.part("greater", direction.lengths, call.number(t, direction.lengths, "step"))
                    zero = call.number(0.0, shown, "zero")
                    new = [direction.part("where", lives, a, b) for a, b in zip(new, now, strict=True)]
                    shown = direction.part("where", lives, shown, zero)
                now = new
                outputs.append(shown)
            sequences.append(direction.part("stack", *(outputs[::-1] if backwards else outputs), axis=0))
            finals.append(now)
        y = call.make("stack", *sequences, axis=1)
        last = [call.part(f"state_{i}", "stack", *group, axis=0) for i, group in enumerate(zip(*finals, strict=True))]
        return self.finished(y, *last)


class _Direction:
    """The weights of one direction, and its arithmetic."""

    def __init__(self, layer: _Layer, d: int) -> None:
        self.call, self.layer, self.d = layer.call, layer, d
        gates = _GATES[self.call.op_type]
        self.w = self._transposed(layer.w)
        self.r = self._transposed(layer.r)
        self.wb: list[Node | None] = [None] * gates
        self.rb: list[Node | None] = [None] * gates
        if layer.b is not None:
            halves = self.part("split", self.at(layer.b, d), axis=0, num_outputs=2 * gates)
            self.wb, self.rb = list(halves[:gates]), list(halves[gates:])
        if layer.lengths is not None:
            self.lengths = self.part("unsqueeze", layer.lengths, axes=(1,))

    def part(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        """A node of this direction."""
        return self.call.part(f"{self.layer.direction}_{self.d}/{op}", op, *inputs, **attrs)

    def at(self, node: Node, index: int) -> Node:
        """``node[index]``."""
        return self.part("gather", node, self.call.value(index, "index"), axis=0)

    def _transposed(self, weights: Node) -> list[Node]:
        """One ``[I, H]`` matrix for each gate."""
        turned = self.part("transpose", self.at(weights, self.d), perm=(1, 0))
        gates = _GATES[self.call.op_type]
        return list(self.part("split", turned, axis=1, num_outputs=gates)) if gates > 1 else [turned]

    def state(self, index: int, initial: Node | None) -> Node:
        """The initial state, of zeros where none is given."""
        if initial is not None:
            return self.at(initial, self.d)
        batch = self.layer.x.shape[1] if self.layer.x.shape else None
        if batch is None:
            raise Refused(f"the number of sequences must be known; got {self.layer.x.type}")
        zero = self.call.number(0.0, self.layer.x, "zero")
        return self.part("expand", zero, shape=(batch, self.layer.hidden))

    def linear(self, node: Node, weights: Node, bias: Node | None) -> Node:
        """``node @ weights + bias``."""
        product = self.part("matmul", node, weights)
        return product if bias is None else self.part("add", product, bias)

    def gate(self, index: int, x: Node, h: Node) -> Node:
        """A gate before its activation."""
        return self.part(
            "add", self.linear(x, self.w[index], self.wb[index]), self.linear(h, self.r[index], self.rb[index])
        )

    def act(self, index: int, node: Node) -> Node:
        """The activation at ``index`` of this direction, after the clip."""
        layer = self.layer
        if layer.clip:
            node = self.part("clip", node, min=-layer.clip, max=layer.clip)
        op, attrs = layer.functions[self.d * len(_ACTIVATIONS[self.call.op_type]) + index]
        return self.part(op, node, **attrs)


@onnx_op("RNN")
def rnn(call: Call) -> Any:
    layer = _Layer(call, 1)
    if layer.clip == 0 and layer.lengths is None and set(layer.activations) in ({"tanh"}, {"relu"}):
        return layer.whole("rnn", activation=layer.activations[0])
    return layer.written_out(lambda d, x, states: [d.act(0, d.gate(0, x, states[0]))])


@onnx_op("GRU")
def gru(call: Call) -> Any:
    layer = _Layer(call, 1)
    linear_before_reset = call.flag("linear_before_reset")
    if layer.plain:
        return layer.whole("gru", linear_before_reset=linear_before_reset)

    def step(d: _Direction, x: Node, states: list[Node]) -> list[Node]:
        (h,) = states
        update, reset = d.act(0, d.gate(0, x, h)), d.act(0, d.gate(1, x, h))
        if linear_before_reset:
            inner = d.part("multiply", reset, d.linear(h, d.r[2], d.rb[2]))
        else:
            inner = d.linear(d.part("multiply", reset, h), d.r[2], d.rb[2])
        new = d.act(1, d.part("add", d.linear(x, d.w[2], d.wb[2]), inner))
        rest = d.part("subtract", call.number(1.0, update, "one"), update)
        return [d.part("add", d.part("multiply", rest, new), d.part("multiply", update, h))]

    return layer.written_out(step)


@onnx_op("LSTM")
def lstm(call: Call) -> Any:
    layer = _Layer(call, 2)
    coupled = call.flag("input_forget")
    peepholes = call.optional(7)
    if layer.plain and not coupled and peepholes is None:
        return layer.whole("lstm")

    def step(d: _Direction, x: Node, states: list[Node]) -> list[Node]:
        h, c = states
        i, o, f, z = (d.gate(index, x, h) for index in range(4))
        if peepholes is not None:
            pi, po, pf = d.part("split", d.at(peepholes, d.d), axis=0, num_outputs=3)
            i, f = (d.part("add", gate, d.part("multiply", p, c)) for gate, p in ((i, pi), (f, pf)))
        i = d.act(0, i)
        f = d.part("subtract", call.number(1.0, i, "one"), i) if coupled else d.act(0, f)
        c = d.part("add", d.part("multiply", f, c), d.part("multiply", i, d.act(1, z)))
        if peepholes is not None:
            o = d.part("add", o, d.part("multiply", po, c))
        return [d.part("multiply", d.act(0, o), d.act(2, c)), c]

    return layer.written_out(step)
