"""From a finding to a capsule: the suspect, the data on which it shows, and what the reference says of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metaop.debug.comparison import Comparison
from metaop.debug.local import Call, incoming_gradients
from metaop.debug.reference import Reference
from metaop.errors import UsageError
from metaop.graph.nodes import Operator
from metaop.graph.program import Value

if TYPE_CHECKING:
    from metaop.debug.capsule import Capsule
    from metaop.debug.records import DebugReport

__all__ = ["export"]


def export(comparison: Comparison, report: DebugReport, folder: str | Path) -> Capsule:
    """Write a capsule of the worst suspect; see :meth:`metaop.DebugReport.export`."""
    from metaop.debug.capsule import Case, write_capsule

    if not report.suspects:
        raise UsageError("export: no node is suspect, so that there is nothing to show")
    verified = next((v for v in reversed(report.verifications) if v.confirmed), None)
    record = report.suspects[0] if verified is None else report.record(verified.nodes[0])
    node = comparison.find(record)
    verification = next((v for v in reversed(report.verifications) if node.name in v.nodes), None)
    if verification is None:
        verification = comparison.verifier.verify([node])
    call = comparison.verifier.call(node)
    if call is None:
        raise UsageError(f"export: neither framework computes what {node.name!r} is given")
    incoming, expected = _expected(call, comparison.options.seed)
    a, b = (side(node) for side in comparison.sides)
    return write_capsule(
        Case(
            nodes=(node,),
            attrs={node: comparison.evaluator.program.attrs(node)},
            inputs={value: call.array(value) for value in call.inputs},
            outputs=tuple((node, i) for i in range(len(node.types))),
            incoming=incoming,
            wrt=call.wrt if incoming else (),
            backends=(a, b),
            expected=expected,
            blame=verification.blame,
            title=_title(node, record.wrong or verification.blame, (a.spec, b.spec)),
            evidence=verification.evidence,
        ),
        folder,
    )


def _expected(call: Call, seed: int) -> tuple[dict[Value, np.ndarray], dict[str, np.ndarray]]:
    """The gradients that arrive, and what the reference makes of it all, by the names that capsules have for it."""
    count = len(call.node.types)
    outputs = Reference(call, {}, seed).exact[:count]
    types = [call.program.types[call.node, i] for i in range(count)]
    shaped = [np.empty(y.shape, t.dtype) for y, t in zip(outputs, types, strict=True)]
    incoming = incoming_gradients(call, shaped, seed)
    exact = Reference(call, incoming, seed).exact
    expected = {f"output {i}": y for i, y in enumerate(exact[:count])}
    if incoming:
        expected |= {f"gradient {i}": g for i, g in enumerate(exact[count:])}
    return incoming, expected


def _title(node: Operator, wrong: str | None, sides: tuple[str, str]) -> str:
    if wrong is None:
        return f"{node.op.name}: {sides[0]} and {sides[1]} differ"
    return f"{node.op.name} is wrong on {wrong}"
