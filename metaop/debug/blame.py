"""Who is wrong: the float64 reference and every further framework at hand vote.

Each is given the very inputs and incoming gradients on which the two sides differ. The reference votes against a side
that is further from it than rounding explains, while the other is not; a further framework that agrees with one side
only votes for that side. Where the reference has a vote, half of the further frameworks that have one must be with it
(some share a bug: several drop a NaN in a maximum); where it has none, all must agree. Otherwise nobody is blamed.
Where values are in dispute only they are voted on: their gradients follow from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metaop.backends import Backend, backends, get
from metaop.backends.catalog import CATALOG
from metaop.debug.compare import mean_absolute_distance, number
from metaop.debug.evaluate import Side
from metaop.debug.judge import judge, judge_against
from metaop.debug.local import Call, Local, run_local
from metaop.debug.parts import Part
from metaop.debug.reference import Reference
from metaop.errors import MetaopError, UnsupportedOpError

__all__ = ["Opinion", "blame", "further_backends"]


@dataclass(frozen=True)
class Opinion:
    """What was found about one node: which sides are wrong, and why, in words."""

    wrong: tuple[bool, bool] | None
    reasons: list[str]


def further_backends(sides: tuple[Side, Side]) -> list[Backend]:
    """Every framework of ours that runs in this process and is on neither side; variants of one have no vote."""
    used = {base_name(backend) for side in sides for backend in (side.default, *side.special.values())}
    found = []
    for about in backends().values():
        # The reference is NumPy's; TFLite computes with TensorFlow's converter, and slowly.
        if about.available and about.name in CATALOG and about.name not in used | {"numpy", "tflite"}:
            try:
                backend = get(about.name)
            except MetaopError:
                continue
            if backend.in_process:
                found.append(backend)
    return found


def base_name(backend: Backend) -> str:
    """The framework that a backend is, or is derived from."""
    while hasattr(backend, "base"):
        backend = backend.base
    return backend.name.removeprefix("isolated:").partition("==")[0]


def blame(
    call: Call, sides: tuple[Backend, Backend], voters: Sequence[Backend], seed: int, *, tails: bool = False
) -> Opinion:
    """The opinion on one node."""
    found: list[Local | None] = [None, None]
    incoming: dict | int = seed
    for i, backend in enumerate(sides):
        try:
            found[i], incoming = run_local(call, backend, incoming)
        except UnsupportedOpError as error:
            # What a framework does not offer it does not get wrong.
            return Opinion(None, [str(error)])
        except MetaopError:
            continue
    a, b = found
    if a is None or b is None:
        if a is b:
            return Opinion(None, ["both sides fail"])
        wrong = sides[0 if a is None else 1].spec
        return Opinion((a is None, b is None), [f"{wrong} fails where the other framework gives a result"])
    reference = Reference(call, incoming, seed)  # type: ignore[arg-type]
    if reference.problem is not None:
        return Opinion(None, [f"{call.node.name}: {reference.problem}"])
    parts = [
        judge(w, x, y, reference, i, tails=tails)
        for i, (w, x, y) in enumerate(zip(call.names, a.arrays, b.arrays, strict=True))
    ]
    disputed = [i for i, part in enumerate(parts) if part.kind in ("fault", "tail")]
    disputed = [i for i in disputed if i < len(call.node.types)] or disputed
    if not disputed:
        return _shared(call, sides, (a, b), voters, reference, incoming)  # type: ignore[arg-type]
    votes: list[tuple[bool, bool]] = []
    exact_votes: list[tuple[bool, bool]] = []
    reasons: list[str] = []
    computed = {backend: _compute(call, backend, incoming) for backend in voters}  # type: ignore[arg-type]
    for i in disputed:
        exact = reference.exact[i]
        off = tuple(_off(side.arrays[i], exact, reference, i, parts[i]) for side in (a, b))
        sizes = [number(_error(side.arrays[i], exact)) for side in (a, b)]
        what = f"{parts[i].what} of {call.node.name}"
        text = f"{what}: {sides[0].spec} is off by {sizes[0]} from the float64 reference, {sides[1].spec} by {sizes[1]}"
        worst = parts[i].worst
        if worst is not None and worst.reference is not None:
            place = f" at {list(worst.index)}" if worst.index else ""
            text += f"; at worst {worst.a:.9g} and {worst.b:.9g}{place} where {worst.reference:.9g} is right"
        reasons.append(text)
        if any(off) and not all(off):
            exact_votes.append((off[0], off[1]))
        for backend, local in computed.items():
            vote = None if local is None else _vote(local.arrays[i], (a.arrays[i], b.arrays[i]), reference, i)
            if vote is not None:
                votes.append(vote)
                reasons.append(f"{backend.spec} ({backend.version()}) agrees with {sides[vote[0]].spec} on {what}")
    verdict = _verdict(exact_votes, votes)
    if verdict is not None:
        return Opinion(verdict, reasons)
    all_off = all(_off(side.arrays[i], reference.exact[i], reference, i, parts[i]) for side in (a, b) for i in disputed)
    votes += exact_votes
    if all_off and not votes:
        return Opinion((True, True), [*reasons, "both are further from the reference than rounding explains"])
    reasons.append("the votes do not agree" if votes else "the float64 reference lies between both sides")
    return Opinion(None, reasons)


def _verdict(exact: list[tuple[bool, bool]], further: list[tuple[bool, bool]]) -> tuple[bool, bool] | None:
    """The side that is wrong by the votes of the reference and those of further frameworks, or ``None``."""
    if len(set(exact)) > 1:
        return None
    if not exact:
        return further[0] if len(set(further)) == 1 else None
    return exact[0] if 2 * further.count(exact[0]) >= len(further) else None


def _shared(
    call: Call,
    sides: tuple[Backend, Backend],
    found: tuple[Local, Local],
    voters: Sequence[Backend],
    reference: Reference,
    incoming: dict,
) -> Opinion:
    """The opinion where both sides give the same."""
    reasons = []
    for i, (what, mine) in enumerate(zip(call.names, found[0].arrays, strict=True)):
        if judge_against(what, mine, reference, i).kind != "fault":
            continue
        reasons.append(
            f"{what} of {call.node.name}: both sides agree, and are off by "
            f"{number(_error(mine, reference.exact[i]))} from the float64 reference"
        )
        for backend in voters:
            local = _compute(call, backend, incoming)
            if local is None:
                continue
            if judge_against(what, local.arrays[i], reference, i).kind == "fault":
                reasons.append(f"{backend.spec} ({backend.version()}) is not with the reference either: undecided")
                return Opinion(None, reasons)
            reasons.append(f"{backend.spec} ({backend.version()}) agrees with the reference")
    if reasons:
        return Opinion((True, True), reasons)
    return Opinion(None, [f"at {call.node.name} both sides are as near to the float64 reference as rounding allows"])


def _compute(call: Call, backend: Backend, incoming: dict) -> Local | None:
    try:
        return run_local(call, backend, incoming)[0]
    except MetaopError:
        return None


def _off(mine: np.ndarray, exact: np.ndarray, reference: Reference, index: int, part: Part) -> bool:
    if part.kind == "tail":
        with np.errstate(all="ignore"):
            rounded = exact.astype(mine.dtype)
        return judge("", mine, rounded, reference, index, tails=True).kind in ("fault", "tail")
    return judge_against("", mine, reference, index).kind == "fault"


def _vote(
    other: np.ndarray, sides: tuple[np.ndarray, np.ndarray], reference: Reference, index: int
) -> tuple[bool, bool] | None:
    """Which side a further framework speaks against: the one that it differs from, where it agrees with the other."""
    apart = [judge("", side, other, reference, index).kind == "fault" for side in sides]
    return (apart[0], apart[1]) if any(apart) and not all(apart) else None


def _error(array: np.ndarray, exact: np.ndarray) -> float:
    return mean_absolute_distance(array.astype(np.float64), exact.astype(np.float64))
