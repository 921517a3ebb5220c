"""Many inputs: each is compared by itself, and what is kept of it is its worst.

Besides the findings, each input gets CRADLE's measures: how far the classes that a classifier ranks are apart, how far
both sides are from the float64 result, and the rate at which each node changes the distance that comes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metaop.backends import get
from metaop.debug.comparison import Comparison
from metaop.debug.cradle import (
    Inconsistency,
    Statistics,
    class_distance,
    class_metric,
    detect,
    deviations,
    mad_distance,
    mad_metric,
    rates_of_change,
    top_class,
)
from metaop.debug.evaluate import Evaluator, Side
from metaop.debug.records import Record
from metaop.debug.reference import wide
from metaop.errors import FrameworkError, MetaopError, UnsupportedOpError
from metaop.graph.nodes import Operator
from metaop.graph.program import Value, value_of
from metaop.graph.trace import Trace, single_step
from metaop.types import epsilon, is_floating

__all__ = ["Many"]


@dataclass
class Many:
    """What is known of a graph after some inputs; in memory that does not grow with their number."""

    #: one row per input
    rows: list[dict[str, Any]] = field(default_factory=list)
    #: of each node the record on its worst input
    records: dict[str, Record] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=Statistics)
    #: the comparison with the worst input, on which suspects are verified
    worst: Comparison | None = None
    rates: dict[str, float] = field(default_factory=dict)
    _severity: tuple[float, float] = (-1.0, -1.0)
    _names: list[str] = field(default_factory=list)

    def take(self, name: str, comparison: Comparison) -> None:
        """Take a finished comparison into account."""
        records = comparison.records()
        for record in records:
            before = self.records.get(record.node)
            if before is None or _weight(record) > _weight(before):
                self.records[record.node] = record
            self.statistics.add(f"score of {record.node}", name, record.score)
        cradle = measures(comparison)
        for node, rate in cradle.pop("rates").items():
            self.rates[node] = max(self.rates.get(node, -1.0), rate)
            self.statistics.add(f"rate of change at {node}", name, max(rate, -1.0))
        score = max((r.score for r in records), default=0.0)
        row = {
            "name": name,
            "score": score,
            "suspects": sum(r.suspect for r in records),
            "worst_node": max(records, key=_weight).node if records else "",
            **cradle,
        }
        self.rows.append(row)
        severity = (score, row["output_delta"] or 0.0)
        if severity > self._severity:
            self.worst, self._severity = comparison, severity

    def merged(self) -> list[Record]:
        """The records, in swap order, each from the input that is worst for it."""
        return [replace(r, rate_of_change=self.rates.get(r.node)) for r in self.records.values()]

    def inconsistencies(self, model: str, pair: tuple[str, str]) -> list[Inconsistency]:
        """CRADLE's verdicts over all inputs, for either of its distances."""
        found = []
        for key, metric in (("class_distance", class_metric()), ("mad_distance", mad_metric())):
            distances = {r["name"]: r[key] for r in self.rows if r[key] is not None}
            if distances:
                one = detect(model, pair, distances, metric, rates=self.rates)
                found += [one] if one is not None else []
        return found


def _weight(record: Record) -> tuple[bool, float, float]:
    local = max(record.local_output_delta or 0.0, record.local_gradient_delta or 0.0)
    return record.status not in ("ok", "unsupported"), record.score, local


def measures(comparison: Comparison) -> dict[str, Any]:
    """CRADLE's measures of one input; ``None`` where a side gives no result, or the output is no classification."""
    evaluator, sides = comparison.evaluator, comparison.sides
    hidden = [_hidden(evaluator, side, comparison) for side in sides]
    found: dict[str, Any] = {"output_delta": None, "class_distance": None, "mad_distance": None, "rates": {}}
    if hidden[0] is None or hidden[1] is None:
        return found
    apart = deviations(*hidden)  # type: ignore[arg-type]
    rates = rates_of_change(evaluator.program.operators, apart)
    found["rates"] = {n.name: rate for n, rate in rates.items()}
    targets = [(node, index) for node, index in evaluator.targets if isinstance(node, Operator)]
    if not targets:
        return found
    found["output_delta"] = max(apart[node] for node, _ in targets)
    node, index = targets[0]
    a, b = (side[node][index] for side in hidden)  # type: ignore[index]
    truth = exact_values(evaluator).get((node, index))
    if a.ndim >= 1 and is_floating(a.dtype) and truth is not None and truth.shape == a.shape == b.shape and a.size:
        rows = [np.asarray(t, np.float64).reshape(t.shape[0], -1) for t in (a, b, truth)]
        # Ratios of rounding errors mean nothing: they are measured against this much.
        floor = 64 * epsilon(a.dtype) * np.abs(rows[2]).mean(axis=1) + 1e-300
        found["mad_distance"] = float(mad_distance(*rows, floor=floor).max())
        if a.ndim == 2 and a.shape[1] > 1:
            found["class_distance"] = float(class_distance(rows[0], rows[1], top_class(rows[2])).max())
    return found


def _hidden(evaluator: Evaluator, side: Side, comparison: Comparison) -> Mapping[Operator, list[np.ndarray]] | None:
    """What every operator gives where one side computes all of it, but for what it does not offer."""
    trace = Trace(evaluator.program, evaluator.natives)
    trace.feed(evaluator.feeds)
    number = 0 if side is comparison.sides[0] else 1
    backend_of = comparison.runs.backends(lambda node: number == 0)
    try:
        trace.run([single_step(evaluator.program, n, backend_of(n)) for n in evaluator.program.operators])
        return {n: [trace.array((n, i)) for i in range(len(n.types))] for n in evaluator.program.operators}
    except (FrameworkError, UnsupportedOpError):
        return None


def exact_values(evaluator: Evaluator) -> dict[Value, np.ndarray]:
    """Every value of the graph, by the references in float64; none from where on that cannot be done."""
    program = evaluator.program
    trace = Trace(program, evaluator.natives)
    trace.feed(evaluator.feeds)
    found = {value: wide(trace.array(value)) for value in trace.values}
    numpy = get("numpy")
    for node in program.operators:
        inputs = [None if n is None else found.get(value_of(n)) for n in node.inputs]
        if any(n is not None and x is None for n, x in zip(node.inputs, inputs, strict=True)):
            continue
        try:
            with np.errstate(all="ignore"):
                outputs = numpy.call(node.op.name, program.attrs(node), inputs)
        except (MetaopError, TypeError, ValueError):
            continue
        found.update({(node, i): np.asarray(y) for i, y in enumerate(outputs)})
    return found


def worst_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows by how bad they are."""
    return sorted(rows, key=lambda r: (r["score"], r["output_delta"] or 0.0), reverse=True)
