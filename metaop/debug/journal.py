"""What a run has found so far, on disk: the same command goes on from there.

A journal is a file of JSON lines: a header that says what was compared, then one line per finding of the local check
and one per swap. A last line that was cut off is left out. A disk that is full ends the journal, not the run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metaop.debug.check import Finding
from metaop.debug.compare import Distance
from metaop.debug.evaluate import Evaluator
from metaop.debug.records import parts_from, plain
from metaop.debug.sweep import Swap
from metaop.errors import UsageError
from metaop.graph.nodes import Constant, Operator, Placeholder, Variable

__all__ = ["Journal", "fingerprint"]

_FORMAT = "metaop-journal"
_VERSION = 1


class Journal:
    """A journal in a folder; without one, nothing is kept."""

    def __init__(self, folder: Path | None = None, about: Mapping[str, Any] | None = None, name: str = "run") -> None:
        self.problem: str | None = None
        self._findings: dict[str, dict[str, Any]] = {}
        self._swaps: dict[str, dict[str, Any]] = {}
        self._path: Path | None = None
        if folder is None:
            return
        header = {"format": _FORMAT, "format_version": _VERSION, **(about or {})}
        self._path = folder / f"{name}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                self._read(header)
            else:
                self._path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"out: {folder} cannot be written ({error.strerror or error})") from None

    def _read(self, header: Mapping[str, Any]) -> None:
        assert self._path is not None
        text = self._path.read_bytes().decode("utf-8", errors="replace")
        lines = text.splitlines()
        try:
            found = json.loads(lines[0]) if lines else {}
        except ValueError:
            found = {}
        if found != header:
            changed = [k for k in header if not isinstance(found, dict) or found.get(k) != header[k]]
            raise UsageError(
                f"out: {self._path} is of another run (different: {', '.join(changed)}). "
                "Give another folder, or remove it"
            )
        kept = [lines[0]]
        for line in lines[1:]:
            try:
                entry = json.loads(line)
                {"finding": self._findings, "swap": self._swaps}[entry["what"]][entry["node"]] = entry
            except (ValueError, KeyError, TypeError):
                break
            kept.append(line)
        # What was cut off must not stay in front of what comes next.
        if kept != lines or not text.endswith("\n"):
            self._path.write_text("\n".join(kept) + "\n", encoding="utf-8")

    def _append(self, entry: Mapping[str, Any]) -> None:
        if self._path is None or self.problem is not None:
            return
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(plain(entry)) + "\n")
        except OSError as error:
            self.problem = f"the journal {self._path} ends early: {error.strerror or error}"

    # -- what is in it ------------------------------------------------------------------------------------------------

    def findings(self, order: Sequence[Operator]) -> dict[Operator, Finding]:
        """Findings that were made before."""
        found = {}
        for node in order:
            entry = self._findings.get(node.name)
            if entry is not None:
                fields = {k: _number(v) for k, v in entry.items() if k not in ("what", "node", "parts")}
                found[node] = Finding(node, parts=list(parts_from(entry["parts"])), **fields)
        return found

    def swaps(self, order: Sequence[Operator]) -> list[Swap]:
        """Swaps that were made before, as far as they follow each other."""
        found: list[Swap] = []
        for node in order:
            entry = self._swaps.get(node.name)
            if entry is None:
                break
            moved = Distance(*(_number(entry["moved"][k]) for k in ("output", "gradient")))
            found.append(Swap(node, moved, entry["status"], entry["message"]))
        return found

    def found(self, finding: Finding) -> None:
        """Write a finding down, unless it is there."""
        if finding.node.name not in self._findings:
            fields = {f.name: getattr(finding, f.name) for f in dataclasses.fields(finding) if f.name != "node"}
            self._append({"what": "finding", "node": finding.node.name, **fields})

    def swapped(self, swap: Swap) -> None:
        """Write a swap down."""
        entry = {"moved": swap.moved, "status": swap.status, "message": swap.message}
        self._append({"what": "swap", "node": swap.node.name, **entry})


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value


def fingerprint(evaluator: Evaluator) -> str:
    """A digest of the graph, its weights and what it is fed."""
    digest = hashlib.blake2b(digest_size=16)

    def add(*parts: object) -> None:
        digest.update(repr(parts).encode())

    def add_array(array: np.ndarray) -> None:
        add(array.dtype.name, array.shape)
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    program = evaluator.program
    numbers = {node: i for i, node in enumerate(program.order)}
    for node in program.order:
        add(type(node).__name__, node.name)
        if isinstance(node, Operator):
            inputs = [None if n is None else (numbers[n.producer], n.index) for n in node.inputs]
            attrs = sorted(program.attrs(node).items()) if node in program.operators else []
            add(node.op.name, inputs, attrs)
        elif isinstance(node, Placeholder):
            add_array(evaluator.feeds[node])
        elif isinstance(node, Variable):
            add_array(node._value)
        elif isinstance(node, Constant) and (node, 0) in program.stored:
            add_array(program.stored[node, 0])
    add([(numbers[node], index) for node, index in evaluator.targets])
    return digest.hexdigest()
