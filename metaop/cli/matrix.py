"""The op x backend matrix, and tables on the terminal."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import metaop as mo
from metaop.backends import canonical, get, support
from metaop.errors import MissingFrameworkError
from metaop.types import describe_dtypes

__all__ = ["SupportMatrix", "describe_dtypes", "nearest", "show", "support_matrix"]


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest known name, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


@dataclass(frozen=True)
class SupportMatrix:
    """How each backend computes each operator; a backend that is not installed has the reason instead."""

    operators: list[Any]
    backends: list[str]
    cells: dict[tuple[str, str], tuple[str, str | None]]
    missing: dict[str, str]

    def cell(self, op: Any, backend: str) -> tuple[str, str | None]:
        """Kind and reason."""
        if backend in self.missing:
            return "not installed", self.missing[backend]
        return self.cells[op.name, backend]

    def reasons(self) -> list[str]:
        """Every reason, one line each: what is missing first, then what is unsupported."""
        lines = [f"{backend}: {why}" for backend, why in self.missing.items()]
        for (op, backend), (_, reason) in self.cells.items():
            if reason:
                lines.append(f"{op} on {backend}: {reason}")
        return lines

    def counts(self) -> list[str]:
        """How many operators each backend computes."""
        return [
            "-" if b in self.missing else str(sum(self.cells[op.name, b][0] != "unsupported" for op in self.operators))
            for b in self.backends
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """One row per operator, and the count of supported ones."""
        rows = [(op.name, op.family, *(self.cell(op, b)[0] for b in self.backends)) for op in self.operators]
        return [*rows, (f"{len(self.operators)} operators", "", *self.counts())]

    def show(self) -> None:
        """Print to the terminal."""
        import click

        show(("operator", "family", *self.backends), self.rows())
        for line in self.reasons():
            click.echo(line)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            op.name: {
                "signature": op.signature,
                "family": op.family,
                "backends": {b: dict(zip(("kind", "reason"), self.cell(op, b), strict=True)) for b in self.backends},
            }
            for op in self.operators
        }

    def as_markdown(self) -> str:
        """For the docs."""
        lines = [
            "| " + " | ".join(("operator", "family", *self.backends)) + " |",
            "|---" * (2 + len(self.backends)) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows()]
        return "\n".join([*lines, "", *(f"- {line}" for line in self.reasons())])


def support_matrix(specs: Sequence[str] | None, operators: list[Any]) -> SupportMatrix:
    """Ask every backend (by default all known ones) about every operator."""
    names = [canonical(s) for s in specs] if specs else [n for n in mo.backends() if "==" not in n]
    cells: dict[tuple[str, str], tuple[str, str | None]] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            backend = get(name)
        except MissingFrameworkError as error:
            if specs:
                raise
            missing[name] = str(error)
            continue
        for op in operators:
            cells[op.name, name] = support(backend, op.name)
    return SupportMatrix(operators, names, cells, missing)


def show(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on standard output; wide enough for its content where the output is not a terminal."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=SIMPLE, pad_edge=False)
    for column in head:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    if not console.is_terminal:
        console.width = 10_000
    console.print(table)


_STYLES = {"native": "green", "derived": "cyan", "unsupported": "red", "not installed": "dim", "forward": "blue"}
