"""Whether the debug session judges right: public bugs, injected faults, and correct frameworks against each other.

    python -m benchmarks.judgement [--part bugs,faults,clean] [--quick] [--out FILE] [--write FILE]

Every verdict is that of the default session (``mo.DebugSession()``). Verdicts are written to ``--out`` as they come,
one line of JSON each, and the same command goes on after Ctrl-C where it stopped; ``--write`` puts the tables into a
file. What each should have come to is known beforehand, and every one that came to something else is listed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

# One thread: the tensors are small, and threads that wait for each other cost more than they give.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import metaop as mo
from benchmarks.bugs import BUGS, Bug
from benchmarks.conventions import conventions
from benchmarks.debugged import NETWORKS, Network
from benchmarks.faults import KINDS, Fault, Subject, draw, inject

__all__ = ["main"]

PARTS = ("bugs", "faults", "clean")
#: frameworks of which each is compared with every other, with gradients
IN_PROCESS = ("numpy", "torch", "tensorflow", "onnxruntime", "jax")
FAULTS = 300
SEEDS = 5

Row = dict[str, Any]
Case = tuple[str, Callable[[], Row]]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 where everything was judged as it should be or is explained."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judgement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--part", default=",".join(PARTS), help="one or more of " + ", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a few cases of each part, in this process only")
    parser.add_argument("--out", type=Path, help="the verdicts so far; those in it are not computed again")
    parser.add_argument("--write", type=Path, help="a file for the tables")
    options = parser.parse_args(arguments)
    parts = options.part.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"--part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    _single_thread()
    rows = _Rows(options.out)
    try:
        for part in parts:
            for key, judge in _CASES[part](options.quick):
                row = rows.get(part, key, judge)
                if _complaint(part, row):
                    print(f"{part}: {key}: {_complaint(part, row)}", flush=True)
    except KeyboardInterrupt:
        print("ended early; the same command with the same --out goes on from here", file=sys.stderr)
        return 130
    text = "\n".join([*_head(), *itertools.chain.from_iterable(_TABLES[p](rows.of(p)) for p in parts)])
    print(text)
    if options.write is not None:
        options.write.write_text(text + "\n", encoding="utf-8")
    print(json.dumps({part: _summary(part, rows.of(part)) for part in parts}))
    return 0


def _single_thread() -> None:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


class _Rows:
    """Verdicts by part and case, in a file as soon as they are known."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: dict[tuple[str, str], Row] = {}
        self._asked: dict[tuple[str, str], Row] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._rows[row["part"], row["case"]] = row

    def get(self, part: str, key: str, judge: Callable[[], Row]) -> Row:
        """The verdict on a case, from the file or else made now."""
        row = self._rows.get((part, key))
        if row is None:
            start = time.perf_counter()
            row = {"part": part, "case": key, **judge()}
            row["seconds"] = round(time.perf_counter() - start, 2)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    print(json.dumps(row), file=file, flush=True)
        self._rows[part, key] = self._asked[part, key] = row
        return row

    def of(self, part: str) -> list[Row]:
        """All that were asked for."""
        return [row for (name, _), row in self._asked.items() if name == part]


# -- judging -----------------------------------------------------------------------------------------------------------


def _verdict(network: Network, frameworks: Sequence[Any], node: str, wrong: str, *, tails: bool = False) -> Row:
    """What the session says of a network in which ``node`` is wrong on ``wrong``."""
    try:
        with mo.DebugSession(tails=tails, progress=False) as session:
            report = session.run(network.loss, network.feeds, frameworks=frameworks)
            suspects = report.suspects
            found = any(r.node == node for r in suspects)
            first = bool(suspects) and suspects[0].node == node
            verified = session.verify(suspects[0]) if suspects else None
    except mo.MetaopError as error:
        return {"operators": len(network.operators), "found": False, "error": f"{type(error).__name__}: {error}"}
    row: Row = {"operators": len(network.operators), "found": found, "first": first}
    row["suspects"] = [r.node for r in suspects[:3]]
    row["score"] = next((str(float(f"{r.score:.3g}")) for r in suspects if r.node == node), None)
    if verified is not None:
        row["verified"] = bool(verified) and first and verified.nodes == (node,)
        row["scope"] = verified.scope
        row["blame"] = verified.blame
        row["blamed"] = first and verified.blame == wrong
        if not row["verified"] or not row["blamed"]:
            row["evidence"] = verified.evidence
    return row


def _bug(bug: Bug) -> Row:
    about = {"wrong": bug.wrong, "right": bug.right, "what": bug.what, "tails": bug.tails}
    if bug.network is None:
        return {**about, "found": False, "unreachable": bug.reason}
    _prepare(bug.wrong)
    return about | _verdict(bug.network(), [bug.right, bug.wrong], "bug", bug.wrong, tails=bug.tails)


def _prepare(spec: str) -> None:
    """Make the environment that a release needs, once."""
    from metaop.backends.isolation import environments

    name, _, version = spec.partition("==")
    if version and mo.backends()[name].version != version:
        environments.create(spec)


def _clean(network: Network, frameworks: Sequence[str], gradients: bool) -> Row:
    with mo.DebugSession(progress=False) as session:
        try:
            report = session.run(network.loss, network.feeds, frameworks=frameworks, gradients=gradients)
        except mo.UnsupportedOpError as error:
            return {"unsupported": str(error)}
    missing = [r.node for r in report.records if r.status == "unsupported"]
    suspects = [{"node": r.node, "op": r.op, "score": str(r.score), "kind": r.kind} for r in report.suspects]
    scores = [r.score for r in report.records]
    return {
        "nodes": len(scores) - len(missing),
        "missing": missing,
        "largest": max(scores),
        "suspects": suspects,
        "notes": [note for note in report.notes if "sensitive" in note],
    }


# -- the cases ---------------------------------------------------------------------------------------------------------


def _bugs(quick: bool) -> Iterator[Case]:
    for bug in BUGS:
        if not quick or "==" not in bug.wrong:
            yield bug.issue, lambda bug=bug: _bug(bug)


def _faults(quick: bool) -> Iterator[Case]:
    names = ("mlp", "lstm") if quick else tuple(NETWORKS)
    subjects = {name: Subject(name) for name in names}
    faults, _ = draw(len(KINDS) if quick else FAULTS, subjects)
    for number, fault in enumerate(faults):
        about = (fault.kind, fault.network, fault.node, fault.framework, fault.other)
        key = f"{number}: {fault.kind} at {fault.network}/{fault.node} on {fault.framework}, against {fault.other}"
        yield key, lambda fault=fault, about=about: _fault(fault, about, subjects[fault.network])


def _fault(fault: Fault, about: tuple[str, ...], subject: Subject) -> Row:
    node = subject.network.node(fault.node)
    faulty = inject(fault, subject)
    row = _verdict(subject.network, [fault.other, {None: fault.framework, node: faulty}], fault.node, faulty.spec)
    return {"kind": about[0], "network": about[1], "op": node.op.name, "framework": about[3], "other": about[4]} | row


def _pairs(quick: bool) -> Iterator[Case]:
    pairs = list(itertools.combinations(IN_PROCESS, 2))
    if quick:
        pairs = [("numpy", "torch"), ("torch", "onnxruntime")]
    for network in conventions(quick):
        for pair in pairs:
            yield _named(network.name, pair), lambda n=network, p=pair: _clean(n, p, True)
    for name, seed in itertools.product(("mlp", "lstm") if quick else NETWORKS, range(1 if quick else SEEDS)):
        network = NETWORKS[name](seed=seed)
        for pair in pairs:
            yield f"{_named(name, pair)}, seed {seed}", lambda n=network, p=pair: _clean(n, p, True)
        for other in () if quick else ("numpy", "torch", "tensorflow"):
            pair = (other, "tflite")
            yield f"{_named(name, pair)}, seed {seed}, values", lambda n=network, p=pair: _clean(n, p, False)


def _named(name: str, pair: tuple[str, str]) -> str:
    return f"{name}: {pair[0]} against {pair[1]}"


_CASES: dict[str, Callable[[bool], Iterator[Case]]] = {"bugs": _bugs, "faults": _faults, "clean": _pairs}


# -- telling -----------------------------------------------------------------------------------------------------------


def _complaint(part: str, row: Row) -> str | None:
    """What is not as it should be, in words."""
    if part == "clean":
        return None if not row.get("suspects") else f"false alarm: {row['suspects']}"
    if "unreachable" in row:
        return str(row["unreachable"])
    if "error" in row:
        return str(row["error"])
    if not row["found"]:
        return "not found"
    if not row["first"]:
        return f"{row['suspects'][0]} comes before it"
    if not row["verified"]:
        return "not verified: " + "; ".join(row["evidence"])
    return None if row["blamed"] else f"blamed on {row['blame']}: " + "; ".join(row["evidence"])


def _head() -> list[str]:
    versions = ", ".join(f"{n} {mo.backends()[n].version}" for n in IN_PROCESS if mo.backends()[n].available)
    where = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}; {versions}."
    return [
        "# Does the debug session judge right?",
        "",
        "`python -m benchmarks.judgement`, with the default session (`mo.DebugSession()`) throughout.",
        where,
    ]


def _table(*columns: str) -> list[str]:
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _yes(row: Row, what: str) -> str:
    return "yes" if row.get(what) else "no"


def _misses(part: str, rows: Sequence[Row]) -> list[str]:
    """Every case with a complaint, and what it is."""
    missed = [(row["case"], _complaint(part, row)) for row in rows]
    lines = [f"- {case}: {' '.join(str(why).split())}" for case, why in missed if why]
    return ["", "Not as it should be:", "", *lines] if lines else []


def _bug_table(rows: Sequence[Row]) -> list[str]:
    lines = ["", "## Public bugs", ""]
    lines += _table("bug", "wrong", "against", "what", "operators", "found", "rank 1", "verified", "blamed right")
    for row in rows:
        what = row["what"] + (" (`tails=True`)" if row["tails"] else "")
        cells = [_yes(row, f) for f in ("found", "first", "verified", "blamed")]
        if "unreachable" in row:
            cells = ["no", "", "", ""]
        lines.append(_row(row["case"], row["wrong"], row["right"], what, row.get("operators", ""), *cells))
    return lines + _misses("bugs", rows)


def _fault_table(rows: Sequence[Row]) -> list[str]:
    lines = ["", "## Injected faults", ""]
    for column in ("kind", "network", "framework"):
        lines += ["", *_table(column, "faults", "rank 1", "verified", "blamed right")]
        for name in dict.fromkeys(row[column] for row in rows):
            chosen = [row for row in rows if row[column] == name]
            lines.append(_row(name.replace("_", " "), len(chosen), *_counts(chosen)))
    lines += ["", *_table("", "faults", "rank 1", "verified", "blamed right")]
    lines.append(_row("all", len(rows), *(f"{n} ({n / max(1, len(rows)):.1%})" for n in _counts(rows))))
    return lines + _misses("faults", rows)


def _counts(rows: Sequence[Row]) -> list[int]:
    return [sum(bool(row.get(what)) for row in rows) for what in ("first", "verified", "blamed")]


def _clean_table(rows: Sequence[Row]) -> list[str]:
    lines = ["", "## Correct frameworks against each other", ""]
    lines += _table("graph", "comparisons", "nodes compared", "false alarms", "largest score (more than 1 is a fault)")
    for name in dict.fromkeys(row["case"].partition(": ")[0] for row in rows):
        chosen = [row for row in rows if row["case"].startswith(f"{name}: ") and "unsupported" not in row]
        alarms = sum(len(row["suspects"]) for row in chosen)
        largest = max((row["largest"] for row in chosen), default=0.0)
        lines.append(_row(name, len(chosen), sum(row["nodes"] for row in chosen), alarms, f"{largest:.2f}"))
    missing = sorted(
        {f"{row['case'].partition(': ')[2]}: {', '.join(row['missing'])}" for row in rows if row.get("missing")}
    )
    if missing:
        lines += ["", "Nodes that one side does not offer, and that were not compared:", ""]
        lines += [f"- {line}" for line in missing]
    left = [f"- {row['case']}: {' '.join(row['unsupported'].split())}" for row in rows if "unsupported" in row]
    if left:
        lines += ["", "Not compared:", "", *left]
    return lines + _misses("clean", rows)


_TABLES: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "bugs": _bug_table,
    "faults": _fault_table,
    "clean": _clean_table,
}


def _summary(part: str, rows: Sequence[Row]) -> Row:
    if part == "clean":
        done = [row for row in rows if "unsupported" not in row]
        return {
            "comparisons": len(done),
            "nodes": sum(row["nodes"] for row in done),
            "false_alarms": sum(len(row["suspects"]) for row in done),
            "largest_score": max((row["largest"] for row in done), default=0.0),
        }
    first, verified, blamed = _counts(rows)
    found = sum(bool(row["found"]) for row in rows)
    return {"count": len(rows), "found": found, "first": first, "verified": verified, "blamed": blamed}


if __name__ == "__main__":
    sys.exit(main())
