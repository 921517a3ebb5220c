"""``mo.<operator>(...)``: one function per declared meta operator, made from the declaration.

``functional.pyi`` beside this file tells type checkers and editors the same; ``python -m metaop.graph.stubs`` writes
it, and a test keeps it current.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from metaop.errors import UsageError
from metaop.graph.build import apply
from metaop.graph.nodes import Node
from metaop.ops import REGISTRY, MetaOp

__all__: list[str] = []


def _function(op: MetaOp) -> Callable[..., Any]:
    names = [p.name for p in op.params]

    def build(*tensors: Any, name: str | None = None, backend: str | None = None, **attrs: Any) -> Any:
        inputs = list(tensors)
        if op.variadic and len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            inputs = list(inputs[0])
        for position, param in enumerate(names):
            if not op.variadic and param in attrs:
                if position < len(tensors):
                    raise UsageError(f"{op.name}: argument {param!r} is given twice. It is called as {op.signature}")
                inputs += [None] * (position + 1 - len(inputs))
                inputs[position] = attrs.pop(param)
        return apply(op, inputs, attrs, name=name, backend=backend)

    build.__name__ = build.__qualname__ = op.name
    build.__module__ = __name__
    build.__doc__ = f"{op.doc}\n\n``{op.signature}``; ``name`` and ``backend`` are those of the node."
    kind = inspect.Parameter
    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            *(
                kind(p.name, kind.VAR_POSITIONAL)
                if p.variadic
                else kind(p.name, kind.POSITIONAL_OR_KEYWORD, default=None if p.optional else kind.empty)
                for p in op.params
            ),
            *(kind(a.name, kind.KEYWORD_ONLY, default=a.default) for a in op.attrs.values()),
            kind("name", kind.KEYWORD_ONLY, default=None),
            kind("backend", kind.KEYWORD_ONLY, default=None),
        ],
        return_annotation=Node if op.outputs is not None and len(op.outputs) == 1 else tuple[Node, ...],
    )
    return build


for _op in REGISTRY.values():
    globals()[_op.name] = _function(_op)
    __all__.append(_op.name)
