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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from metaop.debug.compare import Distance, number
from metaop.debug.cradle import Inconsistency, Statistics
from metaop.debug.parts import Histogram, Part, Worst
from metaop.errors import UsageError

if TYPE_CHECKING:
    from metaop.debug.capsule import Capsule

__all__ = ["DebugReport", "Record", "Verification"]

Status = Literal["ok", "crash", "timeout", "unsupported", "error"]
#: what is the matter with a node; the classes of :mod:`metaop.debug.judge`, and those of a node without results
Kind = Literal["same", "noise", "convention", "tail", "fault", "failed", "unsupported"]


@dataclass(frozen=True)
class Record:
    """What happened when one node was swapped from the first framework to the second.

    ``output_delta`` and ``gradient_delta`` compare the results of the whole graph before and after the swap; ``None``
    means that the swap was not made (see the methods of :meth:`metaop.DebugSession.run`), or that there was nothing to
    compare. The local deltas and scores feed both frameworks the same inputs and the same random incoming gradients.
    An infinite delta means that one side failed, or has a NaN, an infinity, a shape or a dtype that the other has not.
    """

    node: str
    op: str
    output_delta: float | None
    gradient_delta: float | None
    local_output_delta: float | None
    local_gradient_delta: float | None
    #: how far the node is beyond what is accepted, in units of it: more than 1 makes it suspect
    score: float
    status: Status = "ok"
    #: what went wrong, where the status is not ``ok``
    message: str | None = None
    #: how long the second framework took for the node
    seconds: float = 0.0
    #: growth of the process's resident memory meanwhile
    bytes: int = 0
    #: where the gradients came from, on the first and on the second framework
    gradient_kind: tuple[str, str] = ("native", "native")
    suspect: bool = False
    #: ``same`` bits, ``noise``, a ``convention`` (gradients at a kink), wrong in its ``tail`` only, or a ``fault``
    kind: Kind = "same"
    #: the largest local difference in units of what rounding explains
    output_score: float | None = None
    gradient_score: float | None = None
    #: the same relative to each element by itself, where that was looked at
    tail_score: float | None = None
    #: the framework that the float64 reference speaks against at this node; both, joined by " and ", if it does
    wrong: str | None = None
    #: CRADLE's: at which rate the node changes the distance that comes in, the largest over many inputs
    rate_of_change: float | None = None
    #: the outputs and gradients one by one
    parts: tuple[Part, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return (
            f"{self.node} ({self.op}): output {number(self.output_delta)}, gradient {number(self.gradient_delta)}"
            + ("" if self.status == "ok" else f", {self.status}: {self.message}")
        )


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
    #: what decides who is suspect: ``noise`` (local scores) or ``paper`` (fixed thresholds)
    judge: str = "noise"
    method: str = "auto"
    #: the graph for people: one dict per node, in the order of execution
    graph: list[dict[str, Any]] = field(default_factory=list, repr=False)
    #: what :meth:`metaop.DebugSession.verify` found since
    verifications: list[Verification] = field(default_factory=list)
    #: statistics of each input, where several were given
    feeds: list[dict[str, Any]] | None = None
    #: scores and rates of change of every node over the inputs: how often, mean, largest, on which input
    statistics: Statistics | None = field(default=None, repr=False)
    #: CRADLE's verdicts over all inputs
    inconsistencies: list[Inconsistency] = field(default_factory=list, repr=False)
    _source: Any = field(default=None, repr=False, compare=False)

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

    def data(self) -> dict[str, Any]:
        """The report as what JSON can hold; infinite numbers are the string ``"inf"``."""
        from metaop._version import __version__
        from metaop.debug.render import headline

        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if not f.name.startswith("_")}
        fields["statistics"] = None if self.statistics is None else json.loads(self.statistics.to_json())
        fields["graph"] = {"nodes": self.graph, "outputs": self.target.split(", ")}
        return plain(
            {
                "format": "metaop-report",
                "format_version": 2,
                "metaop": __version__,
                "consistent": self.consistent,
                "headline": headline(self),
                "thresholds": {"score": 1.0, "output": self.threshold_output, "gradient": self.threshold_gradient},
                **fields,
            }
        )

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as JSON, which is also written to ``path`` if given; infinite numbers are the string ``"inf"``."""
        text = json.dumps(self.data(), indent=1)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as one self-contained HTML page, which is also written to ``path`` if given."""
        from metaop.debug.page import render

        text = render(self.data())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def export(self, folder: str | os.PathLike[str]) -> Capsule:
        """Write a capsule of the worst suspect into a folder: what shows the difference without metaop.

        It holds the operator as plain scripts for each framework and as ONNX, its data, versions, what is expected and
        what came, and a README to paste into a bug tracker. The scripts are run before the folder is called done.
        """
        from metaop.debug.export import export

        if self._source is None:
            raise UsageError("export: this report was not made by a debug session of this process")
        return export(self._source, self, Path(folder))

    def _repr_html_(self) -> str:
        from metaop.debug.page import embed

        return embed(self.data())


def _suspicion(record: Record) -> tuple[bool, float, float, float]:
    local = max(record.local_output_delta or 0.0, record.local_gradient_delta or 0.0)
    moved = max(record.output_delta or 0.0, record.gradient_delta or 0.0)
    return record.status not in ("ok", "unsupported"), record.score, moved, local


def parts_from(data: list[dict[str, Any]]) -> tuple[Part, ...]:
    """The inverse of what :func:`plain` makes of parts."""

    def number(value: Any) -> Any:
        return float(value) if isinstance(value, str) else value

    found = []
    for part in data:
        worst, histogram = part["worst"], part["histogram"]
        if worst is not None:
            sides = {k: number(worst[k]) for k in ("a", "b", "reference")}
            worst = Worst(tuple(worst["index"]), **sides)
        fields = {k: number(part[k]) for k in ("delta", "score", "tail")}
        held = None if histogram is None else Histogram(**histogram)
        found.append(Part(part["what"], kind=part["kind"], worst=worst, histogram=held, **fields))
    return tuple(found)


def plain(value: Any) -> Any:
    """Only what strict JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Verification:
    """Whether rebinding one operator explains the difference between two frameworks; true where it does.

    ``before`` is the distance between all-A and all-B; ``after`` that between all-A and all-B with only ``nodes`` on A;
    ``reproduced`` that between all-A and all-A with only ``nodes`` on B. Where later operators hide the fault from the
    target ``scope`` is ``"node"``: what was verified is then that it is there, at the node. ``blame`` is the framework
    that the float64 reference and the further frameworks speak against, or ``None`` where they decide nothing.
    """

    confirmed: bool
    nodes: tuple[str, ...]
    op: str
    before: Distance
    after: Distance
    reproduced: Distance
    blame: str | None
    evidence: list[str]
    scope: Literal["target", "node"] = "target"

    def __bool__(self) -> bool:
        return self.confirmed

    def __str__(self) -> str:
        verdict = "confirmed" if self.confirmed else "not confirmed"
        return "\n".join([f"{self.op} at {', '.join(self.nodes)}: {verdict}", *(f"  {line}" for line in self.evidence)])
