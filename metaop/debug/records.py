"""What a debug session finds: records, the report that holds them, and verifications. Verdicts are records with
numbers.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from metaop.errors import UsageError

__all__ = ["DebugReport", "Record", "Verification"]

Status = Literal["ok", "crash", "timeout", "unsupported", "error"]


@dataclass(frozen=True)
class Record:
    """What happened when one node was swapped from the first framework to the second.

    Deltas compare the results before and after the swap; local deltas feed both frameworks the same inputs and the
    same incoming gradient. ``None`` means that there was nothing to compare; an infinite delta that one side failed,
    or has a NaN, an infinity, a shape or a dtype that the other has not.
    """

    node: str
    op: str
    output_delta: float | None
    gradient_delta: float | None
    local_output_delta: float | None
    local_gradient_delta: float | None
    #: the larger of both deltas, each in units of its threshold
    score: float
    status: Status = "ok"
    #: what went wrong, where the status is not ``ok``
    message: str | None = None
    seconds: float = 0.0
    #: growth of the process's resident memory during the run
    bytes: int = 0
    #: where the gradients came from, on the first and on the second framework
    gradient_kind: tuple[str, str] = ("native", "native")
    suspect: bool = False

    def __str__(self) -> str:
        return (
            f"{self.node} ({self.op}): output {number(self.output_delta)}, gradient {number(self.gradient_delta)}"
            + ("" if self.status == "ok" else f", {self.status}: {self.message}")
        )


def number(value: float | None) -> str:
    """A delta for people."""
    return "-" if value is None else "0" if value == 0 else f"{value:.3g}"


def _key(delta: float | None, local: float | None) -> tuple[float, float]:
    return (-1.0 if delta is None else delta, -1.0 if local is None else local)


@dataclass(frozen=True)
class DebugReport:
    """The records of a debug session, in swap order; true where the frameworks agree.

    >>> import metaop as mo
    >>> w = mo.Variable([1.0, 2.0])
    >>> report = mo.DebugSession().run(mo.reduce_sum(w * w), frameworks=["numpy", "numpy"])
    >>> report.consistent, [r.op for r in report.records]
    (True, ['reduce_sum', 'multiply'])
    """

    records: list[Record]
    frameworks: tuple[str, str]
    versions: tuple[str, str]
    target: str
    parameters: list[str]
    threshold_output: float
    threshold_gradient: float
    seed: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def suspects(self) -> list[Record]:
        """The records beyond a threshold, the worst first."""
        return sorted((r for r in self.records if r.suspect), key=_suspicion, reverse=True)

    @property
    def consistent(self) -> bool:
        """Whether no node is suspect."""
        return not any(r.suspect for r in self.records)

    def __bool__(self) -> bool:
        return self.consistent

    def ranking(self, by: Literal["output", "gradient"] = "output") -> list[Record]:
        """All records, the largest delta first; equal deltas by the local delta, then in swap order."""
        if by == "output":
            return sorted(self.records, key=lambda r: _key(r.output_delta, r.local_output_delta), reverse=True)
        if by == "gradient":
            return sorted(self.records, key=lambda r: _key(r.gradient_delta, r.local_gradient_delta), reverse=True)
        raise UsageError(f"ranking by {by!r} does not exist; use 'output' or 'gradient'")

    def record(self, node: str) -> Record:
        """The record of a node, by name."""
        for record in self.records:
            if record.node == node:
                return record
        raise UsageError(f"no record of a node named {node!r}; the nodes are {', '.join(r.node for r in self.records)}")

    def table(self, limit: int | None = None) -> str:
        """The records as text, worst first, at most ``limit`` of them."""
        from metaop.debug.render import text_table

        return text_table(self, limit)

    def __str__(self) -> str:
        return self.table()

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as JSON, which is also written to ``path`` if given; infinite numbers are the string ``"inf"``."""
        text = json.dumps(_plain(dataclasses.asdict(self) | {"format": "metaop-report", "format_version": 1}), indent=1)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as one self-contained HTML page, which is also written to ``path`` if given."""
        from metaop.debug.render import html_page

        text = html_page(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _repr_html_(self) -> str:
        return self.to_html()


def _suspicion(record: Record) -> tuple[bool, float, float]:
    local = max(record.local_output_delta or 0.0, record.local_gradient_delta or 0.0)
    return record.status not in ("ok", "unsupported"), record.score, local


def _plain(value: Any) -> Any:
    """Only what strict JSON can hold."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Distance:
    """How far two whole runs are apart."""

    output: float
    gradient: float | None

    def __str__(self) -> str:
        return f"output {number(self.output)}, gradient {number(self.gradient)}"


@dataclass(frozen=True)
class Verification:
    """Whether rebinding one operator explains the difference between two frameworks; true where it does.

    ``before`` is the distance between all-A and all-B; ``after`` that between all-A and all-B with only ``nodes`` on A;
    ``reproduced`` that between all-A and all-A with only ``nodes`` on B. ``blame`` is the framework that the float64
    reference speaks against, or ``None`` where it decides nothing.
    """

    confirmed: bool
    nodes: tuple[str, ...]
    op: str
    before: Distance
    after: Distance
    reproduced: Distance
    blame: str | None
    evidence: list[str]

    def __bool__(self) -> bool:
        return self.confirmed

    def __str__(self) -> str:
        verdict = "confirmed" if self.confirmed else "not confirmed"
        return "\n".join([f"{self.op} at {', '.join(self.nodes)}: {verdict}", *(f"  {line}" for line in self.evidence)])
