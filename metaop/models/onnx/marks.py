"""What the exporter notes on a node so that the importer finds the very same operator again.

ONNX stores numbers as float32, and has no operator for some of ours. Notes are entries of ``metadata_props``, which
other tools pass over:

``metaop.attributes``
    the attributes of the meta operator, as JSON, where ONNX's form lost something: all of those of a call to a function
    of the domain ``metaop``, or the numbers that float32 rounded.
``metaop.op``, ``metaop.open``
    of a call to such a function: the meta operator that its body spells out in ONNX's operators, and which attributes
    are computed by the last inputs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from metaop.ops import REGISTRY

__all__ = ["DOMAIN", "dump", "is_own", "load", "mark", "marks", "refine"]

#: the domain of functions that stand for meta operators
DOMAIN = "metaop"
_PREFIX = "metaop."


def mark(node: Any, **notes: str) -> None:
    """Put notes on a ``NodeProto``."""
    for name, text in notes.items():
        node.metadata_props.add(key=_PREFIX + name, value=text)


def marks(node: Any) -> dict[str, str]:
    """The notes on a ``NodeProto``."""
    return {e.key[len(_PREFIX) :]: e.value for e in node.metadata_props if e.key.startswith(_PREFIX)}


def dump(attrs: Mapping[str, Any]) -> str:
    """Attributes as JSON."""
    return json.dumps({k: v.name if isinstance(v, np.dtype) else v for k, v in attrs.items()}, sort_keys=True)


def load(text: str) -> dict[str, Any]:
    """Attributes from JSON; none where the text is damaged."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_own(node: Any) -> bool:
    """Whether a node is a call whose notes say which meta operator it stands for."""
    found = marks(node)
    return node.domain == DOMAIN and found.get("op") in REGISTRY and "attributes" in found


def refine(attrs: Mapping[str, Any], dtype: np.dtype | None, text: str) -> dict[str, Any]:
    """Attributes with the exact numbers that the notes give, where these round to what the node has."""
    exact = load(text)
    kinds = {np.dtype(np.float32)} | ({dtype} if dtype is not None and dtype.kind == "f" else set())
    refined = {}
    for name, found in attrs.items():
        wanted = exact.get(name)
        if isinstance(found, float) and isinstance(wanted, float):
            with np.errstate(over="ignore"):
                if any(float(kind.type(wanted)) == found for kind in kinds):
                    found = wanted
        refined[name] = found
    return refined
