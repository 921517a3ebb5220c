"""Steps of optimisers (``ai.onnx.preview.training``), from elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metaop.graph.nodes import Node
from metaop.models.onnx.table import Call, Refused, onnx_op

DOMAIN = "ai.onnx.preview.training"


class _Step:
    """The arithmetic of one optimiser: ``step(op, a, b)``, where a number takes the dtype of the tensor beside it."""

    def __init__(self, call: Call, groups: int) -> None:
        """``groups`` is how many lists of tensors follow the learning rate and the count of steps."""
        self.call = call
        self.rate, self.count = call.input(0), call.input(1)
        rest = call.all()[2:]
        if not rest or len(rest) % groups:
            raise Refused(f"it takes {groups} tensors for each parameter; got {len(rest)}")
        size = len(rest) // groups
        #: for each parameter: its value, its gradient, and what the optimiser remembers
        self.parameters = [rest[i::size] for i in range(size)]

    def __call__(self, op: str, *operands: Node | float) -> Node:
        like = next(o for o in operands if isinstance(o, Node))
        nodes = [o if isinstance(o, Node) else self.call.number(o, like, "number") for o in operands]
        return self.call.part(op, op, *nodes)

    def times(self, like: Node) -> Node:
        """The count of steps, in the dtype of ``like``."""
        return self.call.part("count", "cast", self.count, to=like.dtype)

    def regularised(self, x: Node, g: Node) -> Node:
        """The gradient with that of the square of the parameter, times a coefficient."""
        return self("add", self("multiply", x, self.call.attr("norm_coefficient", 0.0)), g)

    def results(self, update: Callable[..., tuple[Node, ...]]) -> Any:
        """``update(x, g, *memory)`` of every parameter: all new values, then all new memories."""
        found = [update(*tensors) for tensors in self.parameters]
        flat = [node for group in zip(*found, strict=True) for node in group]
        return (self.call.make("identity", flat[0]), *flat[1:])


@onnx_op(f"{DOMAIN}.Momentum")
def momentum(call: Call) -> Any:
    step = _Step(call, 3)
    alpha, beta, mode = call.attr("alpha"), call.attr("beta"), call.attr("mode")
    if mode not in ("standard", "nesterov"):
        raise Refused(f"mode={mode!r} is unknown")

    def update(x: Node, g: Node, v: Node) -> tuple[Node, ...]:
        g = step.regularised(x, g)
        # The first step does not dampen the gradient.
        first = call.part("first", "equal", step.count, call.number(0, step.count, "zero"))
        damped = call.part("beta", "where", first, call.number(1.0, x, "one"), call.number(beta, x, "beta"))
        new = step("add", step("multiply", v, alpha), step("multiply", g, damped))
        move = step("add", g, step("multiply", new, alpha)) if mode == "nesterov" else new
        return step("subtract", x, step("multiply", move, step.rate)), new

    return step.results(update)


@onnx_op(f"{DOMAIN}.Adagrad")
def adagrad(call: Call) -> Any:
    step = _Step(call, 3)
    decay, epsilon = call.attr("decay_factor", 0.0), call.attr("epsilon", 1e-6)

    def update(x: Node, g: Node, h: Node) -> tuple[Node, ...]:
        g = step.regularised(x, g)
        rate = step("div", step.rate, step("add", step("multiply", step.times(x), decay), 1.0))
        new = step("add", h, step("multiply", g, g))
        move = step("div", step("multiply", g, rate), step("add", step("sqrt", new), epsilon))
        return step("subtract", x, move), new

    return step.results(update)


@onnx_op(f"{DOMAIN}.Adam")
def adam(call: Call) -> Any:
    step = _Step(call, 4)
    alpha, beta, epsilon = call.attr("alpha", 0.9), call.attr("beta", 0.999), call.attr("epsilon", 1e-6)
    after = call.attr("norm_coefficient_post", 0.0)

    def update(x: Node, g: Node, v: Node, h: Node) -> tuple[Node, ...]:
        g = step.regularised(x, g)
        new_v = step("add", step("multiply", v, alpha), step("multiply", g, 1.0 - alpha))
        new_h = step("add", step("multiply", h, beta), step("multiply", step("multiply", g, g), 1.0 - beta))
        # Before the first step nothing is corrected; and there the correction would be 0 / 0.
        later = call.part("later", "greater", step.count, call.number(0, step.count, "zero"))
        one = call.number(1.0, x, "one")
        times = step("maximum", step.times(x), 1.0)
        above = step("sqrt", step("subtract", 1.0, step("pow", call.number(beta, x, "beta"), times)))
        below = step("subtract", 1.0, step("pow", call.number(alpha, x, "alpha"), times))
        rate = step("multiply", step.rate, call.part("correction", "where", later, step("div", above, below), one))
        move = step("multiply", step("div", new_v, step("add", step("sqrt", new_h), epsilon)), rate)
        return step("multiply", step("subtract", x, move), 1.0 - after), new_v, new_h

    return step.results(update)
