"""The README of a capsule, to be pasted into a bug tracker.

Titles, evidence and names of nodes come from models of strangers: they stand in code blocks or are escaped, so that
they are neither markup nor mention anybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metaop.debug.capsule import compare
from metaop.debug.capsule.case import Case, Got
from metaop.debug.capsule.data import literal
from metaop.debug.capsule.places import Place

__all__ = ["Facts", "escaped", "fenced", "readme", "span"]

#: arrays of more elements are not shown
_SHOWN = 32


@dataclass
class Facts:
    """What is known about a capsule when its README is written."""

    case: Case
    places: Sequence[Place]
    got: Sequence[Got]
    scripts: Mapping[str, str]
    versions: Mapping[str, Mapping[str, str]]
    reproduced: bool
    notes: Sequence[str]
    files: Sequence[str]
    #: a script with the data within it, and the place that it is for
    inline: str | None = None
    inline_place: Place | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def escaped(text: str) -> str:
    """One line of plain text that is no markup."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    line = re.sub(r"([\\`*_\[\]<>#|~!&])", r"\\\1", line)
    return line.replace("@", "&#64;")


def span(text: str) -> str:
    """A code span around any text."""
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split()) or " "
    ticks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    gap = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{gap}{line}{gap}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """A code block around any text."""
    text = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def readme(facts: Facts) -> str:
    """The whole text."""
    case = facts.case
    parts = [f"# {escaped(case.title)}", _summary(facts)]
    if not facts.reproduced:
        parts.append("**The scripts in this folder do not reproduce what metaop found;** see the notes at the end.")
    if facts.inline is not None and facts.inline_place is not None:
        parts += [f"A script that shows it, on {_named(facts.inline_place)}:", fenced(facts.inline, "python")]
    parts += ["## Operators", _operators(case), "## Data", _data(case), "## Expected and got", _values(facts)]
    parts += ["All differences, as `python compare.py` prints them:", fenced(_table(facts))]
    parts += ["## To reproduce", _commands(facts)]
    if case.evidence:
        parts += ["## How it was found", fenced("\n".join(map(str, case.evidence)))]
    if facts.notes:
        parts += ["## Notes", fenced("\n".join(facts.notes))]
    return "\n\n".join(parts) + "\n"


def _named(place: Place) -> str:
    name = place.framework
    text = f"{name} {place.version}"
    return text if place.spec.startswith(name) or place.spec.startswith("isolated:") else f"{place.spec} ({text})"


def _summary(facts: Facts) -> str:
    a, b = (_named(p) for p in facts.places)
    ops = ", ".join(f"`{op}`" for op in dict.fromkeys(n.op.name for n in facts.case.nodes))
    first, second = (_plain(g.arrays) for g in facts.got)
    both = [k for k in first if k in second and compare.distances(first[k], second[k])[2]]
    what = " and ".join(both) if len(both) < 4 else f"{len(both)} results"
    lines = [f"{escaped(a)} and {escaped(b)} differ in {what or 'no value'} of {ops} for the same data."]
    if facts.case.blame is not None:
        lines.append(f"A float64 reference speaks against {span(facts.case.blame)}.")
    versions = "; ".join(
        f"{escaped(place.spec)}: "
        + ", ".join(f"{k} {v}" for k, v in sorted(facts.versions.get(place.spec, {}).items()))
        for place in facts.places
        if facts.versions.get(place.spec)
    )
    if versions:
        lines.append(f"Ran on {versions}.")
    return "\n".join(lines)


def _operators(case: Case) -> str:
    names = {v: f"input {i}" for i, v in enumerate(case.inputs)}
    rows = []
    for number, step in enumerate(case.steps):
        given = ", ".join("nothing" if v is None else names[v] for v in step.inputs)
        for value in step.outputs:
            names[value] = f"value {sum(n.startswith('value') for n in names.values())}"
        made = ", ".join(names[v] for v in step.outputs)
        attrs = ", ".join(f"{k}={literal(v)}" for k, v in step.attrs.items())
        node = case.nodes[number].name
        rows.append(
            f"- {made} = `{step.op.name}`({given})" + (f" with {span(attrs)}" if attrs else "") + f"; node {span(node)}"
        )
    for i, value in enumerate(case.outputs):
        rows.append(f"- output {i} is {names[value]}")
    for i, value in enumerate(case.wrt):
        rows.append(f"- gradient {i} is that of {names[value]}")
    rows.append("\nThey mean what ONNX's operators of that name mean; `model.onnx` has them.")
    return "\n".join(rows)


def _data(case: Case) -> str:
    rows = ["| in inputs.npz | dtype | shape | |", "|---|---|---|---|"]
    for name, array in case.data.items():
        about = "the gradient that arrives at output " + name.split()[1] if name.startswith("incoming") else ""
        rows.append(f"| {name} | {array.dtype.name} | {list(array.shape)} | {about} |")
    shown = "\n".join(f"{n} = {_shown(a)}" for n, a in case.data.items() if a.size <= _SHOWN)
    return "\n".join(rows) + (f"\n\n{fenced(shown)}" if shown else "")


def _shown(array: np.ndarray) -> str:
    wide = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    return np.array2string(wide, separator=", ", threshold=_SHOWN, max_line_width=110, floatmode="unique")


def _values(facts: Facts) -> str:
    lines = []
    names = list(facts.case.expected) or sorted({k for g in facts.got for k in g.arrays})
    for name in names:
        sides = [("expected", facts.case.expected.get(name))]
        sides += [(p.spec, g.arrays.get(name)) for p, g in zip(facts.places, facts.got, strict=True)]
        for label, array in sides:
            if array is not None and array.size <= _SHOWN:
                lines.append(f"{name}, {label}: {' '.join(_shown(np.asarray(array)).split())}")
    for place, got in zip(facts.places, facts.got, strict=True):
        if got.failure is not None:
            lines.append(f"{place.spec} fails: {got.failure}")
    text = "`expected` comes from metaop's float64 reference on the same data."
    return text + (f"\n\n{fenced(chr(10).join(lines))}" if lines else "")


def _plain(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays as ``compare.py`` sees them."""
    return {k: a.astype(np.float32) if a.dtype.name == "bfloat16" else a for k, a in arrays.items()}


def _table(facts: Facts) -> str:
    sets = [("expected", _plain({k: np.asarray(v) for k, v in facts.case.expected.items()}))]
    sets += [(f"got_{p.slug}", _plain(g.arrays)) for p, g in zip(facts.places, facts.got, strict=True)]
    return "\n".join(compare.table(compare.each_with_each([(label, arrays) for label, arrays in sets if arrays])))


def _commands(facts: Facts) -> str:
    lines = []
    for place in facts.places:
        if place.spec in facts.scripts:
            script = facts.scripts[place.spec]
            lines += [
                f"pip install -r requirements_{place.slug}.txt  # in an environment of its own",
                f"python {script}",
            ]
    lines.append("python compare.py")
    return f"metaop is not needed. In this folder:\n\n{fenced(chr(10).join(lines), 'sh')}\n\nFiles: " + ", ".join(
        f"`{name}`" for name in sorted(facts.files)
    )
