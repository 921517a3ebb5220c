"""Delta debugging over the binding map: the smallest set of nodes that makes a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from metaop.debug.compare import Distance
from metaop.debug.evaluate import Outcome
from metaop.debug.verify import Verifier
from metaop.graph.nodes import Operator

__all__ = ["Explanation", "explain", "smallest"]

T = TypeVar("T")


@dataclass(frozen=True)
class Explanation:
    """The nodes that explain the difference of two frameworks; true where they do.

    Rebinding ``nodes`` to A, and no fewer of them, brings all-B back to all-A. ``together`` are the nodes that have to
    be on B, in a graph that is on A otherwise, for the difference to appear: more than ``nodes`` where operators are
    wrong only on what other operators of B give them.
    """

    nodes: tuple[str, ...]
    together: tuple[str, ...]
    before: Distance
    after: Distance
    #: how many whole runs it took
    runs: int

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def __str__(self) -> str:
        if not self.nodes:
            return f"no difference beyond what is accepted: {self.before}"
        text = f"{', '.join(self.nodes)} on the other side: {self.before} becomes {self.after}"
        if self.together != self.nodes:
            text += f"; to bring it about it takes {', '.join(self.together)}"
        return text


def smallest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A part of ``items`` that ``fails``, and of which no element can be left out (Zeller's ddmin).

    >>> smallest(range(20), lambda chosen: {3, 17} <= set(chosen))
    [3, 17]
    """
    chosen, parts = list(items), 2
    while len(chosen) >= 2:
        step = -(-len(chosen) // parts)
        pieces = [chosen[i : i + step] for i in range(0, len(chosen), step)]
        for i, piece in enumerate(pieces):
            rest = [x for j, other in enumerate(pieces) if j != i for x in other]
            if fails(piece):
                chosen, parts = piece, 2
                break
            if len(pieces) > 2 and fails(rest):
                chosen, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(chosen):
                break
            parts = min(2 * parts, len(chosen))
    return chosen


def explain(verifier: Verifier, suspects: Sequence[Operator], *, leave: Sequence[Operator] = ()) -> Explanation:
    """The smallest set of nodes whose rebinding removes the difference; the suspects are tried before all others.

    What the nodes to ``leave`` on A contribute is not explained.
    """
    runs = verifier.runs
    first, _, last, _ = verifier.ends()
    before = runs.apart(first, last)
    count = 2
    if verifier.differ(first, last) <= 1:
        return Explanation((), (), before, before, count)
    kept: dict[frozenset[Operator], Outcome | None] = {}

    def outcome(on_a: frozenset[Operator]) -> Outcome | None:
        if on_a not in kept:
            kept.clear()
            kept[on_a] = runs.run(lambda n: n in on_a)[0]
        return kept[on_a]

    tried: dict[frozenset[Operator], bool] = {}

    def repairs(nodes: Sequence[Operator]) -> bool:
        nonlocal count
        key = frozenset(nodes)
        if key not in tried:
            count += 1
            tried[key] = verifier.differ(first, outcome(key | left)) <= 1
        return tried[key]

    left = frozenset(leave)
    movable = [n for n in runs.order if n not in left and (n not in runs.pinned or runs.pinned[n][2] != "unsupported")]
    everything = frozenset(movable)

    def spoils(nodes: Sequence[Operator]) -> bool:
        nonlocal count
        count += 1
        return verifier.differ(first, outcome((everything - frozenset(nodes)) | left)) > 1

    start = [n for n in suspects if n in everything]
    pinned, runs.pinned = runs.pinned, {n: p for n, p in runs.pinned.items() if p[2] == "unsupported"}
    try:
        nodes = smallest(start if start and repairs(start) else movable, repairs)
        after = runs.apart(first, outcome(frozenset(nodes) | left))
        together = nodes if spoils(nodes) else smallest(movable, spoils)
    finally:
        runs.pinned = pinned
    names = [tuple(n.name for n in runs.order if n in chosen) for chosen in (nodes, together)]
    return Explanation(names[0], names[1], before, after, count)
