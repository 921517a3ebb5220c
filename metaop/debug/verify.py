"""Proof: rebinding the suspects, and only them, removes the difference and brings it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from metaop.backends import Backend
from metaop.debug.blame import Opinion, blame, further_backends
from metaop.debug.check import LocalCheck
from metaop.debug.compare import Distance, number
from metaop.debug.evaluate import Outcome
from metaop.debug.local import Call, call_of
from metaop.debug.records import Verification
from metaop.debug.sweep import Runs
from metaop.debug.tremor import Tremor
from metaop.errors import FrameworkError, MetaopError, UnsupportedOpError
from metaop.graph.nodes import Operator
from metaop.graph.trace import Trace, single_step

__all__ = ["Verifier"]

#: what is left after rebinding may be this part of the difference that there was
_LEFT = 0.02


class Verifier:
    """Verifies nodes of one comparison.

    ``judge`` says what is a difference at the target: more than rounding explains (``noise``), or than fixed
    ``thresholds`` (``paper``) for outputs and gradients.
    """

    def __init__(
        self,
        runs: Runs,
        *,
        judge: Literal["noise", "paper"],
        thresholds: tuple[float, float],
        seed: int,
        tails: bool = False,
    ) -> None:
        self.runs = runs
        self._judge = judge
        self._thresholds = thresholds
        self._seed = seed
        self._tails = tails
        self._ends: tuple[Outcome | None, str | None, Outcome | None, str | None] | None = None
        self._tremor: Tremor | None = None
        self._voters: list[Backend] | None = None

    # -- differences at the target ------------------------------------------------------------------------------------

    def differ(self, a: Outcome | None, b: Outcome | None) -> float:
        """The distance of two runs in units of what is accepted: more than 1 is a difference."""
        if a is None or b is None:
            return 0.0 if a is b else float("inf")
        moved = self.runs.apart(a, b)
        if self._judge == "paper":
            return max(moved.output / self._thresholds[0], (moved.gradient or 0.0) / self._thresholds[1])
        if moved.output == 0.0 and not moved.gradient:
            return 0.0
        return self.tremor(a).score(a, b)

    def tremor(self, calm: Outcome) -> Tremor:
        """The noise at the target, measured on the side that computes everything."""
        if self._tremor is None:
            first, fails = self.ends()[:2]
            on_a = first is not None and not fails
            backend_of = self.runs.backends(lambda node: on_a)
            base = first if on_a else self.ends()[2]
            self._tremor = Tremor(self.runs.evaluator, backend_of, base or calm, seed=self._seed)
        return self._tremor

    def ends(self) -> tuple[Outcome | None, str | None, Outcome | None, str | None]:
        """All on A, and all on B, with what fails in the sweep where it can be computed."""
        if self._ends is None:
            pinned, self.runs.pinned = self.runs.pinned, self._lacking()
            try:
                self._ends = (*self.runs.run(lambda n: True), *self.runs.run(lambda n: False))
            finally:
                self.runs.pinned = pinned
        return self._ends

    def _lacking(self) -> dict:
        """That a framework does not offer an operator makes neither side wrong: there the node stays where it is."""
        return {n: p for n, p in self.runs.pinned.items() if p[2] == "unsupported"}

    # -- verification -------------------------------------------------------------------------------------------------

    def verify(self, nodes: Sequence[Operator]) -> Verification:
        """Rebind these nodes together, and say whether that explains the difference, and who is wrong."""
        chosen = set(nodes)
        a, b = (side.label for side in self.runs.sides)
        names = ", ".join(n.name for n in nodes)
        # What failed stays on the side that can; the suspects themselves are judged unpinned.
        pinned = self.runs.pinned
        self.runs.pinned = {n: p for n, p in pinned.items() if n not in chosen or p[2] == "unsupported"}
        others_failed = any(p[2] != "unsupported" for p in self.runs.pinned.values())
        try:
            if others_failed:
                all_a, fails_a = self.runs.run(lambda n: True)
                all_b, fails_b = self.runs.run(lambda n: False)
            else:
                all_a, fails_a, all_b, fails_b = self.ends()
            repaired, _ = self.runs.run(lambda n: n in chosen)
            spoiled, _ = self.runs.run(lambda n: n not in chosen)
        finally:
            self.runs.pinned = pinned
        calm, other = (all_a, (repaired, spoiled)) if not (fails_a and not fails_b) else (all_b, (spoiled, repaired))
        before = self.runs.apart(all_a, all_b)
        after, reproduced = (self.runs.apart(calm, run) for run in other)
        differed = self.differ(all_a, all_b)
        left, again = (self.differ(calm, run) for run in other)
        evidence = [
            f"all on {a} against all on {b}: {self._told(before, differed)}",
            f"the same with only {names} on the other side: {self._told(after, left)}",
            f"all on {a} with only {names} exchanged: {self._told(reproduced, again)}",
        ]
        evidence += [f"{label} alone fails: {e}" for label, e in ((a, fails_a), (b, fails_b)) if e]
        explained = left <= 1 or (self._judge == "noise" and left <= _LEFT * differed)
        confirmed, scope = differed > 1 and explained and again > 1, "target"
        if differed <= 1:
            evidence.append(
                "the frameworks do not differ at the target beyond "
                + ("the thresholds" if self._judge == "paper" else "rounding")
                + ": there is nothing to explain there"
            )
        elif not explained:
            evidence.append("rebinding does not remove the difference: other nodes contribute")
        elif not again > 1:
            evidence.append("the exchange alone does not reproduce the difference: other nodes take part in it")
        opinions = self._opinions(nodes, (fails_a, fails_b))
        reasons = [line for opinion in opinions for line in opinion.reasons]
        wrong = {opinion.wrong for opinion in opinions if opinion.wrong is not None}
        found = wrong.pop() if len(wrong) == 1 else None
        # The operators of A may swallow what those of B pass on.
        swallowed = explained and not again > 1 and found is not None and sum(found) == 1
        if found is not None and (differed <= 1 or swallowed):
            hidden, lines = self._at_the_node(nodes)
            if hidden:
                confirmed, scope = True, "node"
                evidence += lines
        return Verification(
            confirmed=confirmed,
            nodes=tuple(n.name for n in nodes),
            op=nodes[0].op.name,
            before=before,
            after=after,
            reproduced=reproduced,
            blame=self._label(nodes[0], found),
            evidence=evidence + reasons,
            scope=scope,  # type: ignore[arg-type]
        )

    def _told(self, moved: Distance, score: float) -> str:
        if self._judge == "paper" or moved.output == moved.gradient == 0 or score in (0.0, float("inf")):
            return str(moved)
        return f"{moved} ({number(score)} times what rounding explains)"

    def _label(self, node: Operator, wrong: tuple[bool, bool] | None) -> str | None:
        if wrong is None:
            return None
        return " and ".join(side(node).spec for side, off in zip(self.runs.sides, wrong, strict=True) if off)

    # -- at the nodes themselves --------------------------------------------------------------------------------------

    def _opinions(self, nodes: Sequence[Operator], failures: tuple[str | None, str | None]) -> list[Opinion]:
        if bool(failures[0]) != bool(failures[1]):
            wrong = self.runs.sides[0 if failures[0] else 1](nodes[0]).spec
            reason = f"{wrong} fails where the other framework gives a result"
            return [Opinion((bool(failures[0]), bool(failures[1])), [reason])]
        if self._voters is None:
            self._voters = further_backends(self.runs.sides)
        opinions = []
        trace = self._inputs()
        for node in nodes:
            if trace is None:
                opinions.append(Opinion(None, [f"nothing is known of {node.name}: neither side computes its inputs"]))
                continue
            call = call_of(self.runs.evaluator.program, node, self.runs.evaluator.active, trace.values)
            sides = self.runs.sides[0](node), self.runs.sides[1](node)
            opinions.append(blame(call, sides, self._voters, self._seed, tails=self._tails))
        return opinions

    def _at_the_node(self, nodes: Sequence[Operator]) -> tuple[bool, list[str]]:
        """Whether the fault shows at the nodes again, with other incoming gradients than those that found it."""
        trace = self._inputs()
        if trace is None:
            return False, []
        check = LocalCheck(self.runs.evaluator, self.runs.sides, seed=self._seed + 1, tails=self._tails)
        lines = []
        for node in nodes:
            call = call_of(self.runs.evaluator.program, node, self.runs.evaluator.active, trace.values)
            try:
                finding, _ = check.look(call)
            except MetaopError:
                return False, []
            if finding.kind not in ("fault", "tail") and finding.status == "ok":
                return False, []
            lines.append(
                f"other operators hide it there; at {node.name} itself, with other incoming gradients, it shows again: "
                f"{number(finding.score)} times what rounding explains"
                if finding.status == "ok"
                else f"at {node.name} itself it shows again: {finding.message}"
            )
        return True, lines

    def call(self, node: Operator) -> Call | None:
        """What a node is given on A; ``None`` where neither side computes it."""
        trace = self._inputs()
        if trace is None:
            return None
        return call_of(self.runs.evaluator.program, node, self.runs.evaluator.active, trace.values)

    def _inputs(self) -> Trace | None:
        """Every value on A, forward only; of what A cannot compute, on B."""
        evaluator = self.runs.evaluator
        first: Callable[[Operator], bool]
        for first in (lambda n: True, lambda n: False):
            trace = Trace(evaluator.program, evaluator.natives)
            trace.feed(evaluator.feeds)
            backend_of = self.runs.backends(first)
            try:
                steps = [single_step(evaluator.program, n, backend_of(n)) for n in evaluator.program.operators]
                trace.run(steps, check_types=True)
            except (FrameworkError, UnsupportedOpError):
                continue
            trace.settle()
            return trace
        return None
