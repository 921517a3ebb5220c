"""Writes ``functional.pyi``, so that type checkers and editors know every ``mo.<operator>``: ``python -m
metaop.graph.stubs``.
"""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import numpy as np

from metaop.ops import REGISTRY, MetaOp
from metaop.ops.spec import _options

__all__ = ["stub_text"]

_HEAD = """# Made by `python -m metaop.graph.stubs` from the declarations in metaop/ops; do not edit.
from collections.abc import Sequence
from typing import Any, Literal

from metaop.graph.nodes import Node

Tensor = Node | float | Sequence[Any] | Any

__all__: list[str]

"""


def _default(value: Any) -> str:
    return repr(value.name if isinstance(value, np.dtype) else value)


def _annotation(annotation: Any) -> str:
    parts = []
    for option in _options(annotation):
        if option is type(None):
            parts.append("None")
        elif typing.get_origin(option) is tuple:
            parts.append(f"Sequence[{typing.get_args(option)[0].__name__}]")
        elif typing.get_origin(option) is typing.Literal:
            parts.append(f"Literal[{', '.join(repr(c) for c in typing.get_args(option))}]")
        else:
            parts.append("Any" if option is np.dtype else option.__name__)
    return " | ".join(parts)


def _signature(op: MetaOp) -> str:
    parts = [
        f"*{p.name}: Tensor" if p.variadic else f"{p.name}: Tensor | None = None" if p.optional else f"{p.name}: Tensor"
        for p in op.params
    ]
    if not op.variadic:
        parts.append("*")
    for attr in op.attrs.values():
        default = "" if attr.required else f" = {_default(attr.default)}"
        parts.append(f"{attr.name}: {_annotation(attr.annotation)}{default}")
    parts += ["name: str | None = None", "backend: str | None = None"]
    single = op.outputs is not None and len(op.outputs) == 1
    returned = (
        "Node"
        if single
        else "tuple[Node, ...]"
        if op.outputs is None
        else f"tuple[{', '.join(['Node'] * len(op.outputs))}]"
    )
    return f"def {op.name}({', '.join(parts)}) -> {returned}: ..."


def stub_text() -> str:
    """The text that ``functional.pyi`` must have."""
    return _HEAD + "\n".join(_signature(op) for op in REGISTRY.values()) + "\n"


if __name__ == "__main__":
    path = Path(__file__).with_name("functional.pyi")
    path.write_text(stub_text(), encoding="utf-8")
    print(path.name, "written:", len(REGISTRY), "operators")
