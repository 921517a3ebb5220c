"""The sweep: the meta-operator paper's Algorithm 1.

All nodes start on A; in reverse order of execution one more node at a time goes to B, so that the inputs of the node
being swapped never change; output and parameter gradients are compared with those of the run before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from metaop.backends import Backend
from metaop.debug.check import status_of
from metaop.debug.compare import Distance
from metaop.debug.evaluate import Evaluator, Outcome, Side, distance
from metaop.debug.records import Status
from metaop.debug.state import Change, State
from metaop.errors import FrameworkError, MetaopError, UnsupportedOpError
from metaop.graph.nodes import Operator

__all__ = ["Runs", "Swap"]

#: how often a swap is tried while workers die
_ATTEMPTS = 8


@dataclass(frozen=True)
class Swap:
    """How far the results of the graph moved when a node was swapped."""

    node: Operator
    moved: Distance
    status: Status = "ok"
    message: str | None = None


class Runs:
    """Runs of one graph with some nodes on A and the others on B, each made from one that is kept.

    A node that one side cannot compute is *pinned*: it stays on the other side in every run.
    """

    def __init__(self, evaluator: Evaluator, sides: tuple[Side, Side]) -> None:
        self.evaluator = evaluator
        self.sides = sides
        #: in the order in which they are swapped
        self.order: list[Operator] = evaluator.program.operators[::-1]
        #: node -> the side that can, why the other cannot, and the status that this is
        self.pinned: dict[Operator, tuple[int, str, Status]] = {}

    def backends(self, first: Callable[[Operator], bool]) -> Callable[[Operator], Backend]:
        """The binding map with the nodes for which ``first`` holds on A and the others on B."""

        def backend_of(node: Operator) -> Backend:
            side = self.pinned[node][0] if node in self.pinned else (0 if first(node) else 1)
            return self.sides[side](node)

        return backend_of

    # -- all on A, and what follows from it ---------------------------------------------------------------------------

    def _start(self, first: Callable[[Operator], bool], spare: int) -> State:
        lost: list[Operator | None] = []
        while True:
            try:
                return State(self.evaluator, self.backends(first))
            except (FrameworkError, UnsupportedOpError) as error:
                node, status = self.culprit(error), status_of(error)
                if status in ("crash", "timeout") and lost.count(node) < (3 if node is None else 1):
                    # A worker may have died for reasons of its own; a node is at fault when it happens again there.
                    lost.append(node)
                    continue
                if node is None or node in self.pinned:
                    raise
                self.pinned[node] = (spare, str(error), status)

    def culprit(self, error: MetaopError) -> Operator | None:
        """The node that an exception is about."""
        for node in self.order:
            if getattr(error, "node", None) == node.name:
                return node
        for node in self.order:
            if f"node {node.name!r} " in str(error):
                return node
        return None

    def failed(self, status: Status) -> Distance:
        """How far the results move where there are none; ``None`` where there is nothing to compare."""
        delta = None if status == "unsupported" else math.inf
        return Distance(delta, delta if self.evaluator.parameters else None)  # type: ignore[arg-type]

    def swap_alone(self, nodes: Sequence[Operator]) -> Iterator[Swap]:
        """All on A with only one node on B, for each of some; in whole runs, which hold less memory than a state."""
        before: Outcome | None = None
        for node in nodes:
            if node in self.pinned:
                yield self._unable(node)
                continue
            try:
                if before is None:
                    before = self.evaluator.run(self.backends(lambda n: True))
                after = self.evaluator.run(self.backends(lambda n, node=node: n is not node))  # type: ignore[misc]
                yield Swap(node, distance(before, after))
            except (FrameworkError, UnsupportedOpError) as error:
                status = status_of(error)
                yield Swap(node, self.failed(status), status, str(error))

    def sweep(self, done: int = 0) -> Iterator[Swap]:
        """Algorithm 1; the first ``done`` swaps were made before, and are only made up for."""
        before = set(self.order[:done])
        state = self._start(lambda node: node not in before, 1)
        for node in self.order[done:]:
            if node in self.pinned:
                yield self._unable(node)
                continue
            swap, change = self._try(state, node)
            if change is not None:
                change.commit()
            elif swap.status in ("crash", "timeout"):
                swapped = {n for n, b in state.backends.items() if b is self.sides[1](n)}
                state = self._start(lambda n, swapped=swapped: n not in swapped, 1)  # type: ignore[misc]
            yield swap

    def _try(self, state: State, node: Operator) -> tuple[Swap, Change | None]:
        strikes, lost = 0, False
        for _ in range(_ATTEMPTS):
            try:
                if lost:
                    # What was kept in a worker went with it: from scratch.
                    backends = dict(state.backends)
                    state.__dict__.update(State(self.evaluator, backends.__getitem__).__dict__)
                change = state.change({node: self.sides[1](node)})
                return Swap(node, distance(state.outcome, change.outcome)), change
            except (FrameworkError, UnsupportedOpError) as raised:
                error, status = raised, status_of(raised)
                if status not in ("crash", "timeout"):
                    break
                lost = True
                # A worker may have died for reasons of its own; the operator is at fault when it happens again there.
                strikes += self.culprit(raised) in (node, None)
                if strikes > 1:
                    break
        self.pinned[node] = (0, str(error), status)
        return Swap(node, self.failed(status), status, str(error)), None

    def _unable(self, node: Operator) -> Swap:
        _, message, status = self.pinned[node]
        return Swap(node, self.failed(status), status, message)

    # -- whole runs ---------------------------------------------------------------------------------------------------

    def run(self, first: Callable[[Operator], bool]) -> tuple[Outcome | None, str | None]:
        """A whole run, or why there is none."""
        try:
            return self.evaluator.run(self.backends(first)), None
        except (FrameworkError, UnsupportedOpError) as error:
            return None, str(error)

    def apart(self, a: Outcome | None, b: Outcome | None) -> Distance:
        """How far two runs are apart; one that failed is infinitely far from one that did not."""
        if a is None or b is None:
            value = 0.0 if a is b else math.inf
            return Distance(value, value if self.evaluator.parameters else None)
        return distance(a, b)
