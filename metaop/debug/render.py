"""Reports for people as text, and what they show of the graph. The page is made by :mod:`metaop.debug.page`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from metaop.debug.compare import number
from metaop.debug.records import DebugReport, Record
from metaop.graph.nodes import Operator, Placeholder, Variable
from metaop.graph.program import Program

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["graph_data", "headline", "rich_table", "text_table"]

_COLUMNS = (
    "",
    "node",
    "op",
    "score",
    "output delta",
    "gradient delta",
    "local output",
    "local gradient",
    "finding",
    "ms",
)
#: columns of words
_WORDS = (0, 1, 2, 8)


def rich_table(report: DebugReport, limit: int | None) -> Table:
    """The report as a table for terminals; names may be as long as they are."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(headline(report)), title_justify="left", box=None, padding=(0, 1))
    for i, name in enumerate(_COLUMNS):
        table.add_column(name, justify="left" if i in _WORDS else "right", overflow="fold" if i == 1 else "ellipsis")
    for record, cells in _rows(report, limit):
        style = "bold red" if record.suspect else "yellow" if record.kind in ("tail", "convention") else None
        table.add_row(*map(escape, cells), style=style)
    return table


def graph_data(program: Program) -> list[dict[str, Any]]:
    """The nodes of a graph for people, in the order of execution."""
    kinds = ((Operator, "operator"), (Placeholder, "placeholder"), (Variable, "variable"))
    found = []
    for node in program.order:
        operator = node if isinstance(node, Operator) else None
        computed = operator is None or (operator, 0) in program.types
        count = 1 if operator is None else len(operator.types)
        types = [program.types[node, i] for i in range(count) if (node, i) in program.types]
        found.append(
            {
                "name": node.name,
                "kind": next((kind for cls, kind in kinds if isinstance(node, cls)), "constant"),
                "op": operator.op.name if operator is not None else "",
                "inputs": [n.producer.name for n in node.inputs if n is not None],
                "attrs": _attributes(program, operator) if operator is not None and computed else "",
                "type": ", ".join(map(str, types)),
            }
        )
    return found


def _attributes(program: Program, node: Operator) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in program.attrs(node).items())
    return text if len(text) <= 400 else text[:397] + "..."


def _rows(report: DebugReport, limit: int | None) -> list[tuple[Record, tuple[str, ...]]]:
    suspects = report.suspects
    rest = [r for r in report.ranking("output") if not r.suspect]
    return [
        (
            r,
            (
                "*" if r.suspect else "",
                r.node,
                r.op,
                number(r.score),
                number(r.output_delta),
                number(r.gradient_delta),
                number(r.local_output_delta),
                number(r.local_gradient_delta),
                r.kind if r.status == "ok" else r.status,
                f"{r.seconds * 1e3:.1f}",
            ),
        )
        for r in (suspects + rest)[:limit]
    ]


def headline(report: DebugReport) -> str:
    """The verdict in one line."""
    pair = " and ".join(f"{f} ({v})" for f, v in zip(report.frameworks, report.versions, strict=True))
    if report.consistent:
        return f"{pair} agree on {report.target!r}: no node of {len(report.records)} is suspect"
    count = len(report.suspects)
    return f"{pair} disagree on {report.target!r}: {count} of {len(report.records)} nodes suspect"


def text_table(report: DebugReport, limit: int | None) -> str:
    """The report as aligned text."""
    rows = [cells for _, cells in _rows(report, limit)]
    widths = [max(len(row[i]) for row in [_COLUMNS, *rows]) for i in range(len(_COLUMNS))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if i in _WORDS else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    lines = [headline(report), "", line(_COLUMNS), line(["-" * w for w in widths]), *map(line, rows)]
    if limit is not None and len(report.records) > limit:
        lines.append(f"... and {len(report.records) - limit} more")
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines)
