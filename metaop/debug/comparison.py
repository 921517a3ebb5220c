"""One comparison of two sides: the local check, the swaps that its findings call for, and the records of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from metaop.debug.check import Finding, LocalCheck
from metaop.debug.compare import number
from metaop.debug.evaluate import Evaluator, Side
from metaop.debug.journal import Journal
from metaop.debug.records import Record
from metaop.debug.reduce import explain
from metaop.debug.sweep import Runs, Swap
from metaop.debug.verify import Verifier
from metaop.errors import UsageError
from metaop.graph.nodes import Node, Operator

__all__ = ["Comparison", "Method", "Options", "ProgressCallback"]

Method = Literal["auto", "sweep", "local"]
Judge = Literal["noise", "paper"]

#: called after each step with the record as far as it is known, how many steps are done, and how many there are;
#: ``False`` ends the run early
ProgressCallback = Callable[[Record, int, int], bool | None]

#: graphs of at most so many operators are swept as well by ``auto``: their deltas cost little
SHORT = 48
#: of a longer graph, so many suspects are swapped
_CONFIRMED = 8
#: operators are wrong together where the results differ by so many times what rounding explains, ...
_TOGETHER = 16.0
#: ... and it takes no more than so many of them
_FEW = 6


@dataclass(frozen=True)
class Options:
    """What a comparison is asked for."""

    method: Method = "auto"
    judge: Judge = "noise"
    threshold_output: float = 1.5e-4
    threshold_gradient: float = 1.5e-4
    seed: int = 0
    tails: bool = False
    against_reference: bool = True


class Comparison:
    """Findings, swaps and records of two sides on one set of feeds."""

    def __init__(self, evaluator: Evaluator, sides: tuple[Side, Side], options: Options, journal: Journal) -> None:
        self.evaluator = evaluator
        self.sides = sides
        self.options = options
        self.runs = Runs(evaluator, sides)
        self.order: list[Operator] = self.runs.order
        self.notes: list[str] = []
        self.stopped = False
        self._journal = journal
        self._findings: dict[Operator, Finding] = {}
        self._swaps: dict[Operator, Swap] = {}
        self._verifier: Verifier | None = None
        for side in sides:
            for node in side.special:
                if node not in self.order:
                    raise UsageError(f"frameworks: {node.name!r} is not an operator that the target depends on")

    # -- the run ------------------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[tuple[Record, int, int]]:
        """Each record as soon as it is known or known better, how many steps are done, and how many there are."""
        count = len(self.order)
        sweeps = self.sweeps
        total = count * (2 if sweeps else 1)
        done = 0
        check = LocalCheck(
            self.evaluator,
            self.sides,
            seed=self.options.seed,
            against_reference=self.options.against_reference,
            tails=self.options.tails,
        )
        for finding in check.run(self._journal.findings(self.order).get):
            self._findings[finding.node] = finding
            self._journal.found(finding)
            if finding.status != "ok":
                assert finding.failed is not None
                self.runs.pinned[finding.node] = (1 - finding.failed, str(finding.message), finding.status)
            done += 1
            yield self.record(finding.node), done, total
        if sweeps:
            before = self._journal.swaps(self.order)
            for swap in before:
                self._take(swap)
            for swap in self.runs.sweep(len(before)):
                self._take(swap)
                self._journal.swapped(swap)
                yield self.record(swap.node), done + len(self._swaps), total
        elif self.options.method == "auto":
            suspects = sorted((r for r in self.records() if r.suspect), key=lambda r: r.score, reverse=True)
            names = [r.node for r in suspects[:_CONFIRMED]]
            chosen = [n for n in self.order if n.name in names]
            for i, swap in enumerate(self.runs.swap_alone(chosen)):
                self._take(swap)
                yield self.record(swap.node), done + i + 1, total + len(chosen)
        if self.options.judge == "noise" and self.options.method != "local":
            self._look_at_the_whole()

    def _look_at_the_whole(self) -> None:
        """Where no operator is wrong by itself, some may be so together: on what they are given on B."""
        if any(r.suspect for r in self.records()) or all(f.kind == "same" for f in self._findings.values()):
            return
        beyond = self.verifier.differ(*self.verifier.ends()[::2])
        if beyond <= _TOGETHER:
            return
        # Conventions move what comes after them, and that is no fault either.
        free = [n for n, f in self._findings.items() if f.kind == "convention"]
        if free:
            beyond = self.verifier.differ(self.verifier.ends()[0], self.runs.run(lambda n: n in free)[0])
            if beyond <= _TOGETHER:
                self.notes.append(
                    "the results differ, by what the frameworks give as the gradient where there is none (at a kink, a "
                    f"tie or a NaN): {', '.join(n.name for n in free)}"
                )
                return
        found = explain(self.verifier, [], leave=free)
        # One operator that is as good as the other on what it is given is not wrong: the graph magnifies rounding.
        if not 2 <= len(found.together) <= _FEW:
            self.notes.append(
                f"the results differ by {number(beyond)} times what rounding explains, although no operator does by "
                "itself: the graph may be very sensitive to rounding"
            )
            return
        for node in self.order:
            if node.name in found.together:
                self._findings[node] = replace(self._findings[node], kind="fault", score=beyond)
        self.notes.append(f"no operator is wrong by itself, but these are together: {', '.join(found.together)}")

    @property
    def sweeps(self) -> bool:
        """Whether every node is swapped."""
        options = self.options
        if options.method == "auto":
            return options.judge == "paper" or len(self.order) <= SHORT
        return options.method == "sweep"

    def _take(self, swap: Swap) -> None:
        self._swaps[swap.node] = swap
        finding = self._findings.get(swap.node)
        if swap.status != "ok" and finding is not None and finding.status == "ok":
            # It failed only on what the nodes below sent up.
            self._findings[swap.node] = replace(finding, status=swap.status, message=swap.message, failed=1)
            self.runs.pinned[swap.node] = (0, str(swap.message), swap.status)

    # -- records ------------------------------------------------------------------------------------------------------

    def records(self) -> list[Record]:
        """What is known so far, in swap order."""
        return [self.record(node) for node in self.order if node in self._findings]

    def record(self, node: Operator) -> Record:
        """What is known of one node."""
        finding, swap = self._findings[node], self._swaps.get(node)
        failed = finding.status not in ("ok", "unsupported")
        output: float | None = None
        gradient: float | None = None
        local = (finding.largest("output", "delta"), finding.largest("gradient", "delta"))
        if finding.status != "ok":
            none = self.runs.failed(finding.status)
            output, gradient = local = (none.output, none.gradient)
        elif swap is not None:
            output, gradient = swap.moved.output, swap.moved.gradient
        score = math.inf if failed else self._score(finding, output, gradient, local)
        backends = [side(node) for side in self.sides]
        named = {"a": backends[0].spec, "b": backends[1].spec, "both": " and ".join(b.spec for b in backends)}
        wrong = named.get(finding.wrong or "")
        if failed and finding.failed is not None:
            wrong = backends[finding.failed].spec
        return Record(
            node=node.name,
            op=node.op.name,
            output_delta=output,
            gradient_delta=gradient,
            local_output_delta=local[0],
            local_gradient_delta=local[1],
            score=score,
            status=finding.status,
            message=finding.message,
            seconds=finding.seconds,
            bytes=finding.bytes,
            gradient_kind=(backends[0].gradient_kind(node.op.name), backends[1].gradient_kind(node.op.name)),
            suspect=failed or score > 1.0,
            kind="failed" if failed else "unsupported" if finding.status != "ok" else finding.kind,
            output_score=finding.largest("output", "score"),
            gradient_score=finding.largest("gradient", "score"),
            tail_score=finding.largest("output", "tail"),
            wrong=wrong,
            parts=tuple(finding.parts),
        )

    def _score(
        self, finding: Finding, output: float | None, gradient: float | None, local: tuple[float | None, float | None]
    ) -> float:
        options = self.options
        if finding.status == "unsupported":
            return 0.0
        if options.judge == "noise":
            tail = finding.largest("output", "tail") or 0.0
            return max(finding.score, tail if finding.kind == "tail" else 0.0)
        # A NaN that the operators below swallow is wrong all the same.
        if math.inf in local:
            return math.inf
        if options.method == "local":
            output, gradient = local
        return max((output or 0.0) / options.threshold_output, (gradient or 0.0) / options.threshold_gradient)

    def take_notes(self) -> None:
        """Say in words what a reader of the records must not overlook."""
        for record in self.records():
            if record.message is not None:
                self.notes.append(" ".join(record.message.split()))
        if self._journal.problem is not None:
            self.notes.append(self._journal.problem)
        if self.stopped:
            done = len(self._findings)
            self.notes.append(f"the run was ended early, after {done} of {len(self.order)} nodes")

    # -- afterwards ---------------------------------------------------------------------------------------------------

    @property
    def verifier(self) -> Verifier:
        """What verifies nodes of this comparison; runs that it made are kept."""
        if self._verifier is None:
            options = self.options
            self._verifier = Verifier(
                self.runs,
                judge=options.judge,
                thresholds=(options.threshold_output, options.threshold_gradient),
                seed=options.seed,
                tails=options.tails,
            )
        return self._verifier

    def find(self, suspect: Record | Node | str) -> Operator:
        """The operator that is meant."""
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

    def alike(self, node: Operator) -> list[Operator]:
        """The suspects with the same operator, in swap order."""
        suspect = {r.node for r in self.records() if r.suspect}
        return [n for n in self.order if n.op is node.op and n.name in suspect]
