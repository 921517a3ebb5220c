"""Who is wrong: the float64 reference gives a third opinion on the operators in question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metaop.backends import get
from metaop.debug.evaluate import Evaluator, LocalResult, Side, run_local
from metaop.debug.records import number
from metaop.errors import MetaopError
from metaop.graph.nodes import Operator
from metaop.graph.trace import Trace
from metaop.types import epsilon, is_floating

__all__ = ["blame"]

#: a side is wrong where its error exceeds this part of the result's rms, ...
_PART = 1.2e-4
#: ... this many roundings of a dtype too coarse for that, ...
_ROUNDINGS = 16
#: ... and this many times the error of the other side
_RATIO = 10.0


def blame(
    evaluator: Evaluator, nodes: Sequence[Operator], sides: tuple[Side, Side], failures: tuple[str | None, str | None]
) -> tuple[str | None, list[str]]:
    """The backend that the reference speaks against (``None``: undecided), and the reasons in words."""
    a, b = sides
    if bool(failures[0]) != bool(failures[1]):
        wrong = (a if failures[0] else b)(nodes[0]).spec
        return wrong, [f"{wrong} fails where the other framework gives a result"]
    votes: set[str] = set()
    reasons: list[str] = []
    for node in nodes:
        try:
            errors = _errors(evaluator, node, sides)
        except MetaopError as error:
            reasons.append(f"the reference has no opinion on {node.name}: {error}")
            continue
        for what, (ea, eb), scale in errors:
            floor = _tolerated(evaluator, node) * scale
            for label, mine, other in ((a(node).spec, ea, eb), (b(node).spec, eb, ea)):
                if mine > floor and mine > _RATIO * other:
                    votes.add(label)
                    reasons.append(
                        f"{what} of {node.name} against the float64 reference: {label} is off by {number(mine)}, "
                        f"the other by {number(other)} (rms {number(scale)})"
                    )
    if len(votes) == 1:
        return votes.pop(), reasons
    if not votes:
        reasons.append("the float64 reference lies between both sides: nobody is blamed")
    return None, reasons


def _tolerated(evaluator: Evaluator, node: Operator) -> float:
    """The relative error that rounding can explain at the node."""
    dtypes = [evaluator.program.types[node, i].dtype for i in range(len(node.types))]
    dtypes += [evaluator.program.types[n.producer, n.index].dtype for n in node.inputs if n is not None]
    return max([_PART, *(_ROUNDINGS * epsilon(d) for d in dtypes if d is not None and is_floating(d))])


def _errors(
    evaluator: Evaluator, node: Operator, sides: tuple[Side, Side]
) -> list[tuple[str, tuple[float, float], float]]:
    """Distances of both sides from the float64 reference, on inputs computed by the reference in the model's dtype."""
    numpy = get("numpy")
    trace = evaluator.trace(lambda n: numpy)
    grads = evaluator.incoming_gradients(trace)
    exact = _reference(evaluator, node, trace, grads)
    mine = [run_local(evaluator, node, side(node), trace, grads) for side in sides]
    found = []
    for index, truth in enumerate(exact.outputs):
        found.append((f"output {index}", _pair([m.outputs[index] for m in mine], truth), _rms(truth)))
    for index, gradient in enumerate(exact.gradients):
        if gradient is not None:
            found.append((f"gradient {index}", _pair([m.gradients[index] for m in mine], gradient), _rms(gradient)))
    return found


def _reference(evaluator: Evaluator, node: Operator, trace: Trace, grads: dict) -> LocalResult:
    """The node's reference and derived gradient in float64, on the very same inputs."""
    numpy = get("numpy")

    def widen(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float64) if is_floating(array.dtype) else array

    values = [None if n is None else (n.producer, n.index) for n in node.inputs]
    inputs = [None if v is None else widen(trace.array(v)) for v in values]
    wrt = [i for i, v in enumerate(values) if v is not None and v in evaluator.active]
    outputs, pullback = numpy.linearize(node.op.name, evaluator.program.attrs(node), inputs, wrt)
    results = [(node, i) for i in range(len(outputs))]
    gradients: list[np.ndarray | None] = []
    if wrt and node.op.differentiable and any(v in grads for v in results):
        found = pullback([widen(grads[v]) if v in grads else None for v in results])
        gradients = [np.zeros_like(inputs[i]) if g is None else np.asarray(g) for i, g in zip(wrt, found, strict=True)]
    return LocalResult([np.asarray(y) for y in outputs], gradients)


def _pair(arrays: Sequence[np.ndarray | None], truth: np.ndarray) -> tuple[float, float]:
    a, b = (float("inf") if x is None else _error(x, truth) for x in arrays)
    return a, b


def _error(array: np.ndarray, truth: np.ndarray) -> float:
    """Mean absolute error; infinite where NaN or infinity stands on one side only."""
    from metaop.debug.compare import mean_absolute_distance

    return mean_absolute_distance(array.astype(np.float64), truth.astype(np.float64))


def _rms(array: np.ndarray) -> float:
    finite = array[np.isfinite(array)].astype(np.float64)
    return float(np.sqrt((finite**2).mean())) if finite.size else 0.0
