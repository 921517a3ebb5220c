"""The report as one HTML page: a map of the model, the numbers of a node, a table, and nothing from outside.

The page is filled from a report's plain data, so that it can also be made of a report that was saved as JSON. Names,
messages and values come from models that nobody vouches for. They reach the page in two ways only: escaped into the
markup here, and as JSON that cannot end its element, from which the scripts make text. A content security policy lets
the browser run these scripts and no other, and fetch nothing at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

__all__ = ["embed", "render", "verdict"]

#: They share one scope, so the order is that of use.
_SCRIPTS = ("layout.js", "map.js", "elements.js", "report.js", "table.js", "details.js", "page.js")


def render(data: Mapping[str, Any]) -> str:
    """The whole page for a report's data, as ``DebugReport.to_json`` describes them; keys may be missing.

    >>> page = render({"frameworks": ["torch", "jax"], "versions": ["2.13.0", "0.10.2"], "consistent": True})
    >>> "<title>torch (2.13.0) and jax (0.10.2) agree</title>" in page
    True
    """
    script = '"use strict";\n{\n' + "\n".join(_asset(name) for name in _SCRIPTS) + "}\n"
    css = _asset("page.css")
    sentence = verdict(data)
    headline = str(data.get("headline") or "")
    return Template(_asset("page.html")).substitute(
        policy=f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(css)}; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(sentence),
        verdict=html.escape(sentence),
        outcome="agree" if _consistent(data) else "disagree",
        headline="" if headline == sentence else html.escape(headline),
        metaop=html.escape(str(data.get("metaop") or "")),
        css=css,
        script=script,
        data=_json(data),
    )


def embed(data: Mapping[str, Any], *, height: int = 640) -> str:
    """The page in a frame, for notebooks: it can neither see nor change the page around it.

    >>> embed({}).startswith('<iframe sandbox="allow-scripts"')
    True
    """
    return (
        f'<iframe sandbox="allow-scripts" title="{html.escape(verdict(data))}" '
        f'style="width: 100%; height: {int(height)}px; border: 0; border-radius: 8px" '
        f'srcdoc="{html.escape(render(data))}"></iframe>'
    )


def verdict(data: Mapping[str, Any]) -> str:
    """The finding in one sentence: which operator is wrong on which framework, as far as that is known.

    >>> verdict({"frameworks": ["torch", "onnxruntime"], "versions": ["2.13.0", "1.31.1"],
    ...          "records": [{"node": "conv1", "op": "conv2d", "suspect": True, "wrong": "onnxruntime"}]})
    "torch (2.13.0) and onnxruntime (1.31.1) disagree: conv2d at 'conv1' is wrong on onnxruntime"
    """
    names = [str(name) for name in _list(data.get("frameworks"))] or ["the frameworks"]
    versions = [str(version) for version in _list(data.get("versions"))]
    versions += [""] * len(names)
    pair = " and ".join(f"{n} ({v})" if v else n for n, v in zip(names, versions[: len(names)], strict=True))
    if _consistent(data):
        return f"{pair} agree"
    culprits = _culprits(data)
    if not culprits:
        return str(data.get("headline") or f"{pair} disagree")
    op, node, wrong = culprits[0]
    rest = f", and {len(culprits) - 1} more" if len(culprits) > 1 else ""
    return f"{pair} disagree: {op} at {node!r} is wrong on {wrong}{rest}"


def _culprits(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(operator, node, framework) of every fault whose side is known; what was verified comes first, then the worst."""
    found: dict[str, tuple[str, str, str]] = {}
    for check in _list(data.get("verifications")):
        nodes = [str(node) for node in _list(check.get("nodes"))]
        if check.get("confirmed") and check.get("blame") and nodes:
            found[nodes[0]] = (str(check.get("op")), nodes[0], str(check["blame"]))
    suspects = [r for r in _list(data.get("records")) if r.get("suspect") and r.get("wrong")]
    for record in sorted(suspects, key=lambda r: _size(r.get("score")), reverse=True):
        node = str(record.get("node"))
        found.setdefault(node, (str(record.get("op")), node, str(record["wrong"])))
    return list(found.values())


def _consistent(data: Mapping[str, Any]) -> bool:
    given = data.get("consistent")
    return bool(given) if given is not None else not any(r.get("suspect") for r in _list(data.get("records")))


def _size(value: Any) -> float:
    try:
        size = float(value)
    except (TypeError, ValueError):
        return math.inf  # a suspect without a score failed
    return math.inf if math.isnan(size) else size


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a content security policy calls an inline script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(data: Mapping[str, Any]) -> str:
    """JSON that holds no character which means something to HTML."""
    text = json.dumps(_strict(data), allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
