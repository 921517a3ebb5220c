"""What no mapping expresses, in terms of operators that mappings do: by PyTorch's own decompositions.

Only such operators are taken apart. All others stay what PyTorch runs as one operator.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch.export import ExportedProgram, default_decompositions

from metaop.models.torch.table import TABLE, label

__all__ = ["apart", "decomposable", "origin", "origins"]


def decomposable(refused: Iterable[Any]) -> dict[Any, Any]:
    """Decompositions of the refused operators, and of all that have no mapping: their parts may contain those."""
    asked = set(refused)
    found = {}
    for op, function in default_decompositions().items():
        if op in asked or (isinstance(op, torch._ops.OpOverload) and label(op) not in TABLE):
            found[op] = function
    return found


def apart(program: ExportedProgram, table: dict[Any, Any]) -> ExportedProgram | None:
    """The program with these operators taken apart, or nothing where PyTorch fails to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.run_decompositions(table)
    except Exception:  # a decomposition may raise anything, on sizes that it was not written for
        return None


def origins(program: ExportedProgram) -> dict[str, str]:
    """The operator of each node, by the node's name, for :func:`origin`."""
    return {n.name: label(n.target) for n in program.graph.nodes if n.op == "call_function"}


def origin(node: torch.fx.Node, known: dict[str, str]) -> str | None:
    """The operator that a node was a part of, unless it is that itself."""
    sources = list(node.meta.get("from_node") or ())
    while sources:
        source = sources.pop()
        sources += source.from_node or ()
        if source.name in known and known[source.name] != label(node.target):
            return known[source.name]
    return None
