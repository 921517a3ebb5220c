"""What a run has found so far, on disk: the same command goes on from there.

A journal is a file of JSON lines: a header that says what was compared, then one line per finding of the local check
and one per swap. A last line that was cut off is left out. A disk that is full ends the journal, not the run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
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
        self._findings: dict[str, Finding] = {}
        self._swaps: dict[str, Swap] = {}
        self._path: Path | None = None
        if folder is None:
            return
        header = {"format": _FORMAT, "format_version": _VERSION, **(about or {})}
        self._path = folder / f"{name}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                self._read(self._path, header)
            else:
                self._path.write_bytes(_line(header))
        except OSError as error:
            raise UsageError(f"out: {folder} cannot be written ({error.strerror or error})") from None

    def _read(self, path: Path, header: Mapping[str, Any]) -> None:
        content = path.read_bytes()
        first, *lines = content.splitlines(keepends=True) or [b""]
        if not first.endswith(b"\n") and _line(header).startswith(first):
            # It was interrupted while it began.
            path.write_bytes(_line(header))
            return
        try:
            found = json.loads(first)
        except ValueError:
            found = {}
        wanted = json.loads(_line(header))
        if found != wanted:
            changed = [k for k in wanted if not isinstance(found, dict) or found.get(k) != wanted[k]]
            raise UsageError(
                f"out: {path} is of another run (different: {', '.join(changed)}). Give another folder, or remove it"
            )
        kept = len(first)
        for line in lines:
            try:
                self._take(json.loads(line if line.endswith(b"\n") else b""))
            except (ValueError, KeyError, TypeError, AttributeError):
                break
            kept += len(line)
        if kept < len(content):
            # What was cut off must not stay in front of what comes next; on a full disk there is no room to write.
            os.truncate(path, kept)

    def _take(self, entry: dict[str, Any]) -> None:
        if entry["what"] == "finding":
            self._findings[entry["node"]] = _finding(entry)
        elif entry["what"] == "swap":
            self._swaps[entry["node"]] = _swap(entry)
        else:
            raise ValueError(entry["what"])

    def _append(self, entry: Mapping[str, Any]) -> None:
        if self._path is None or self.problem is not None:
            return
        try:
            with open(self._path, "ab") as file:
                file.write(_line(entry))
        except OSError as error:
            self.problem = f"the journal {self._path} ends early: {error.strerror or error}"

    # -- what is in it ------------------------------------------------------------------------------------------------

    def findings(self, order: Sequence[Operator]) -> dict[Operator, Finding]:
        """Findings that were made before."""
        return {node: replace(self._findings[node.name], node=node) for node in order if node.name in self._findings}

    def swaps(self, order: Sequence[Operator]) -> list[Swap]:
        """Swaps that were made before, as far as they follow each other."""
        known = takewhile(lambda node: node.name in self._swaps, order)
        return [replace(self._swaps[node.name], node=node) for node in known]

    def found(self, finding: Finding) -> None:
        """Write a finding down, unless it is there."""
        if finding.node.name not in self._findings:
            fields = {f.name: getattr(finding, f.name) for f in dataclasses.fields(finding) if f.name != "node"}
            self._append({"what": "finding", "node": finding.node.name, **fields})

    def swapped(self, swap: Swap) -> None:
        """Write a swap down."""
        entry = {"moved": swap.moved, "status": swap.status, "message": swap.message}
        self._append({"what": "swap", "node": swap.node.name, **entry})


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(plain(entry)).encode() + b"\n"


def _finding(entry: Mapping[str, Any]) -> Finding:
    """What was written down; its node is still to be found."""
    fields = {k: _number(v) for k, v in entry.items() if k not in ("what", "node", "parts")}
    return Finding(None, parts=list(parts_from(entry["parts"])), **fields)  # type: ignore[arg-type]


def _swap(entry: Mapping[str, Any]) -> Swap:
    moved = Distance(*(_number(entry["moved"][k]) for k in ("output", "gradient")))
    return Swap(None, moved, entry["status"], entry["message"])  # type: ignore[arg-type]


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
