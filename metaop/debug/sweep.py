"""The sweep: the meta-operator paper's Algorithm 1, and the verification of what it finds.

All nodes start on A; in reverse order of execution one more node at a time goes to B, so that the inputs of the node
being swapped never change; output and parameter gradients are compared with those of the run before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.debug.blame import blame
from metaop.debug.compare import gradient_distance, mean_absolute_distance
from metaop.debug.evaluate import Evaluator, Outcome, Side, distance, run_local
from metaop.debug.records import Distance, Record, Status, Verification
from metaop.errors import FrameworkError, MetaopError, UnsupportedOpError, UsageError
from metaop.graph.nodes import Node, Operator
from metaop.graph.program import Value
from metaop.graph.trace import Trace

__all__ = ["ProgressCallback", "Sweep", "Thresholds"]

#: called after each swap with the new record, how many are done, and how many there are
ProgressCallback = Callable[[Record, int, int], None]


@dataclass(frozen=True)
class Thresholds:
    """How far a swap may move the output and the gradients before its node is suspect."""

    output: float
    gradient: float


class Sweep:
    """One comparison of two sides."""

    def __init__(self, thresholds: Thresholds, evaluator: Evaluator, sides: tuple[Side, Side]) -> None:
        self.thresholds = thresholds
        self.evaluator = evaluator
        self.sides = sides
        self.order: list[Operator] = evaluator.program.operators[::-1]
        self.records: list[Record] = []
        self.notes: list[str] = []
        # Nodes that one side cannot compute stay on the other throughout: node -> (side that can, why, status)
        self.pinned: dict[Operator, tuple[int, str, Status]] = {}
        for side in sides:
            for node in side.special:
                if node not in self.order:
                    raise UsageError(f"frameworks: {node.name!r} is not an operator that the target depends on")

    def backends(self, first: Callable[[Operator], bool]) -> Callable[[Operator], Backend]:
        """The binding map with the nodes for which ``first`` holds on A and the others on B."""

        def backend_of(node: Operator) -> Backend:
            side = self.pinned[node][0] if node in self.pinned else (0 if first(node) else 1)
            return self.sides[side](node)

        return backend_of

    # -- Algorithm 1 --------------------------------------------------------------------------------------------------

    def run(self, advance: ProgressCallback) -> None:
        """Swap every node, and tell ``advance`` after each."""
        trace, before, grads = self._start()
        swapped: set[Operator] = set()
        for node in self.order:
            if node in self.pinned:
                record, after = self._unable(node), before
            else:
                record, after = self._swap(node, swapped, before, trace, grads)
            before = after
            self.records.append(record)
            if record.message is not None:
                self.notes.append(" ".join(record.message.split()))
            advance(record, len(self.records), len(self.order))

    def _start(self) -> tuple[Trace, Outcome, dict[Value, np.ndarray]]:
        """Everything on A: its values, its results, and the gradient that arrives at each value.

        What A cannot compute stays on B, and is said in the record.
        """
        lost: list[Operator | None] = []
        while True:
            try:
                trace = self.evaluator.trace(self.backends(lambda node: True))
                outcome = Outcome(*self.evaluator.results(trace), 0.0, 0)
                grads = self.evaluator.incoming_gradients(trace)
                trace.settle()
                return trace, outcome, grads
            except (FrameworkError, UnsupportedOpError) as error:
                node, status = self._culprit(error), _status(error)
                if status in ("crash", "timeout") and lost.count(node) < (1 if node else 3):
                    # A worker may have died for reasons of its own; a node is at fault when it happens again there.
                    lost.append(node)
                    continue
                if node is None or node in self.pinned:
                    raise
                self.pinned[node] = (1, str(error), status)

    def _culprit(self, error: MetaopError) -> Operator | None:
        """The node that an exception is about."""
        for node in self.order:
            if getattr(error, "node", None) == node.name:
                return node
        for node in self.order:
            if f"node {node.name!r} " in str(error):
                return node
        return None

    def _unable(self, node: Operator) -> Record:
        """The record of a node that A cannot compute."""
        _, message, status = self.pinned[node]
        moved = self._failed(status)
        return self._record(node, moved, (moved.output, moved.gradient), status, message)

    def _failed(self, status: Status) -> Distance:
        """How far the results move where there are none; ``None`` where there is nothing to compare."""
        delta = None if status == "unsupported" else math.inf
        return Distance(delta, delta if self.evaluator.parameters else None)  # type: ignore[arg-type]

    def _swap(
        self, node: Operator, swapped: set[Operator], before: Outcome, trace: Trace, grads: Mapping[Any, Any]
    ) -> tuple[Record, Outcome]:
        try:
            after = self.evaluator.run(self.backends(lambda n: n not in swapped and n is not node))
            local = self._local(node, trace, grads)
        except MetaopError as error:
            if not isinstance(error, FrameworkError | UnsupportedOpError):
                raise
            status = _status(error)
            self.pinned[node] = (0, str(error), status)
            moved = self._failed(status)
            return self._record(node, moved, (moved.output, moved.gradient), status, str(error)), before
        swapped.add(node)
        moved = distance(before, after)
        return self._record(node, moved, local, "ok", None, after.seconds, after.bytes), after

    def _local(self, node: Operator, trace: Trace, grads: Mapping[Any, Any]) -> tuple[float, float | None]:
        """Both sides on the same inputs and the same incoming gradients."""
        a, b = (run_local(self.evaluator, node, side(node), trace, grads) for side in self.sides)
        output = max((mean_absolute_distance(x, y) for x, y in zip(a.outputs, b.outputs, strict=True)), default=0.0)
        gradient = gradient_distance(a.gradients, b.gradients) if a.gradients else None  # type: ignore[arg-type]
        return output, gradient

    def _record(
        self,
        node: Operator,
        moved: Distance,
        local: tuple[float | None, float | None],
        status: Status,
        message: str | None,
        seconds: float = 0.0,
        size: int = 0,
    ) -> Record:
        score = self._score(moved)
        failed = status not in ("ok", "unsupported")
        return Record(
            node=node.name,
            op=node.op.name,
            output_delta=moved.output,
            gradient_delta=moved.gradient,
            local_output_delta=local[0],
            local_gradient_delta=local[1],
            score=score,
            status=status,
            message=message,
            seconds=seconds,
            bytes=size,
            gradient_kind=(
                self.sides[0](node).gradient_kind(node.op.name),
                self.sides[1](node).gradient_kind(node.op.name),
            ),
            # A NaN that the operators below swallow is wrong all the same.
            suspect=failed or score > 1.0 or math.inf in local,
        )

    def _score(self, moved: Distance) -> float:
        return max(
            (moved.output or 0.0) / self.thresholds.output,
            (moved.gradient or 0.0) / self.thresholds.gradient,
        )

    # -- verification -------------------------------------------------------------------------------------------------

    def verify(self, suspect: Record | Node | str) -> Verification:
        """See :meth:`metaop.DebugSession.verify`."""
        node = self._find(suspect)
        found = self._verify([node])
        if not found:
            alike = [n for n in self.order if n.op is node.op and self._record_of(n).suspect]
            if node in alike and len(alike) > 1:
                together = self._verify(alike)
                return together if together else found
        return found

    def _find(self, suspect: Record | Node | str) -> Operator:
        if isinstance(suspect, Node):
            if suspect.producer in self.order:
                return suspect.producer
            raise UsageError(f"verify: {suspect!r} is no operator of the last run")
        wanted = suspect.node if isinstance(suspect, Record) else suspect
        for node in self.order:
            if node.name == wanted or any(r.name == wanted for r in node.results):
                return node
        raise UsageError(
            f"verify: the last run has no operator named {wanted!r}; it has {', '.join(n.name for n in self.order)}"
        )

    def _record_of(self, node: Operator) -> Record:
        return next(r for r in self.records if r.node == node.name)

    def _verify(self, nodes: list[Operator]) -> Verification:
        chosen = set(nodes)
        lead = self._record_of(nodes[0])
        a, b = (side.label for side in self.sides)
        names = ", ".join(n.name for n in nodes)
        # What failed in the sweep runs on the side that can; the suspects themselves are judged unpinned. That a
        # framework does not offer an operator makes neither side wrong: there the node stays where it is.
        pinned, self.pinned = (
            self.pinned,
            {n: p for n, p in self.pinned.items() if n not in chosen or p[2] == "unsupported"},
        )
        try:
            all_a, fails_a = self._try(lambda n: True)
            all_b, fails_b = self._try(lambda n: False)
            b_repaired, _ = self._try(lambda n: n in chosen)
            a_spoiled, _ = self._try(lambda n: n not in chosen)
        finally:
            self.pinned = pinned
        before = self._apart(all_a, all_b)
        if fails_a and not fails_b:
            # A is the side that fails: the roles are exchanged.
            after, reproduced = self._apart(all_b, a_spoiled), self._apart(all_b, b_repaired)
        else:
            after, reproduced = self._apart(all_a, b_repaired), self._apart(all_a, a_spoiled)
        differed, explained, again = self._score(before) > 1, self._score(after) <= 1, self._score(reproduced) > 1
        evidence = [
            f"all on {a} against all on {b}: {before}",
            f"the same with only {names} on the other side: {after}",
            f"all on {a} with only {names} exchanged: {reproduced}",
        ]
        evidence += [f"{label} alone fails: {e}" for label, e in ((a, fails_a), (b, fails_b)) if e]
        if not differed:
            evidence.append(
                "the frameworks do not differ beyond the thresholds at the target: there is nothing to explain"
            )
        elif not explained:
            evidence.append("rebinding does not remove the difference: other nodes contribute")
        elif not again:
            evidence.append("the exchange alone does not reproduce the difference: other nodes take part in it")
        wrong, reasons = blame(self.evaluator, nodes, self.sides, (fails_a, fails_b))
        return Verification(
            confirmed=differed and explained and again,
            nodes=tuple(n.name for n in nodes),
            op=lead.op,
            before=before,
            after=after,
            reproduced=reproduced,
            blame=wrong,
            evidence=evidence + reasons,
        )

    def _try(self, first: Callable[[Operator], bool]) -> tuple[Outcome | None, str | None]:
        try:
            return self.evaluator.run(self.backends(first)), None
        except (FrameworkError, UnsupportedOpError) as error:
            return None, str(error)

    def _apart(self, a: Outcome | None, b: Outcome | None) -> Distance:
        """A run that failed is infinitely far from one that did not."""
        if a is None or b is None:
            same = a is b
            value = 0.0 if same else math.inf
            return Distance(value, value if self.evaluator.parameters else None)
        return distance(a, b)


def _status(error: MetaopError) -> Status:
    return "unsupported" if isinstance(error, UnsupportedOpError) else getattr(error, "status", "error")
