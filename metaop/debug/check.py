"""The local check: every operator fed the same inputs and the same random incoming gradients on both sides.

One forward pass on A, and at each node one call on either side: the whole graph costs as much as a run on A, a run on
B, and the float64 reference. A fault shows at its own node here, whatever the operators after it do with it. Values
are dropped as soon as nobody needs them, so that little more than a forward pass is held in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from metaop.debug.evaluate import Evaluator, Side
from metaop.debug.judge import judge, judge_against
from metaop.debug.local import Call, Held, Local, call_of, run_local
from metaop.debug.parts import Kind, Part, worst_kind
from metaop.debug.records import Status
from metaop.debug.reference import Reference
from metaop.errors import FrameworkError, MetaopError, UnsupportedOpError
from metaop.graph.nodes import Operator
from metaop.graph.program import Value, value_of
from metaop.graph.trace import Trace

__all__ = ["Finding", "LocalCheck", "status_of"]

#: which side is wrong: A, B, both, or undecided
Wrong = Literal["a", "b", "both"] | None


@dataclass(frozen=True)
class Finding:
    """What the local check found at one node."""

    node: Operator
    status: Status = "ok"
    message: str | None = None
    #: the side that failed, where one did
    failed: int | None = None
    kind: Kind = "same"
    score: float = 0.0
    parts: list[Part] = field(default_factory=list)
    wrong: Wrong = None
    seconds: float = 0.0
    bytes: int = 0

    def largest(self, what: Literal["output", "gradient"], of: Literal["delta", "score", "tail"]) -> float | None:
        """The largest number among the outputs, or the gradients; ``None`` where there are none."""
        chosen = [getattr(p, of) for p in self.parts if p.what.startswith("gradient of ") == (what == "gradient")]
        return max((n for n in chosen if n is not None), default=None)


def status_of(error: MetaopError) -> Status:
    """The status of a record whose node raised."""
    return "unsupported" if isinstance(error, UnsupportedOpError) else getattr(error, "status", "error")


class LocalCheck:
    """One pass over the graph; see the module's docstring.

    ``against_reference`` also holds what both sides agree on against the reference, where a shared fault shows.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        sides: tuple[Side, Side],
        *,
        seed: int,
        against_reference: bool = True,
        tails: bool = False,
    ) -> None:
        self.evaluator = evaluator
        self.sides = sides
        self._seed = seed
        self._against_reference = against_reference
        self._tails = tails

    def run(self, known: Callable[[Operator], Finding | None] = lambda node: None) -> Iterator[Finding]:
        """Findings in the order of execution. Of nodes whose finding is ``known`` only the value is computed."""
        program = self.evaluator.program
        trace = Trace(program, self.evaluator.natives)
        trace.feed(self.evaluator.feeds)
        left = Counter(value_of(n) for node in program.operators for n in set(node.inputs) if n is not None)
        for node in program.operators:
            call = call_of(program, node, self.evaluator.active, trace.values)
            before = known(node)
            if before is not None:
                finding, results = before, self._value(call, before)
            else:
                finding, results = self.look(call)
            trace.values.update({(node, i): held for i, held in enumerate(results)})
            for value in {value_of(n) for n in node.inputs if n is not None}:
                left[value] -= 1
                if left[value] == 0 and isinstance(value[0], Operator):
                    del trace.values[value]
            yield finding

    def look(self, call: Call) -> tuple[Finding, list[Held]]:
        """The finding at one node, and its outputs: those of A, or of B where A has none."""
        node = call.node
        results: list[Local] = []
        failures: list[tuple[int, MetaopError]] = []
        incoming: dict[Value, np.ndarray] | int = self._seed
        for number, side in enumerate(self.sides):
            try:
                local, incoming = twice(run_local, call, side(node), incoming)
                results.append(local)
            except (FrameworkError, UnsupportedOpError) as error:
                failures.append((number, error))
        if len(failures) == 2:
            raise failures[0][1]
        if failures:
            (failed, why), (local,) = failures[0], results
            finding = Finding(node, status_of(why), str(why), failed, seconds=local.seconds, bytes=local.bytes)
            return finding, settled(local)
        a, b = results
        assert not isinstance(incoming, int)
        return self._compare(call, a, b, Reference(call, incoming, self._seed)), settled(a)

    def _compare(self, call: Call, a: Local, b: Local, reference: Reference) -> Finding:
        parts: list[Part] = []
        wrong: list[Wrong] = []
        values: list[Wrong] = []
        for i, (what, x, y) in enumerate(zip(call.names, a.arrays, b.arrays, strict=True)):
            part = judge(what, x, y, reference, i, tails=self._tails)
            if part.kind == "fault":
                wrong.append(self._wrong(what, x, y, reference, i))
            elif self._against_reference:
                shared = judge_against(what, x, reference, i)
                if shared.kind == "fault":
                    part, both = shared, "both"
                    wrong.append(both)  # type: ignore[arg-type]
            parts.append(part)
            if i + 1 == len(call.node.types) and wrong:
                # Gradients follow from values: where these are wrong, they decide.
                values = list(wrong)
        wrong = values or wrong
        return Finding(
            call.node,
            message=reference.problem if self._against_reference else None,
            kind=worst_kind([p.kind for p in parts]),
            score=max((p.score for p in parts), default=0.0),
            parts=parts,
            wrong=wrong[0] if wrong and len(set(wrong)) == 1 else None,
            seconds=b.seconds,
            bytes=b.bytes,
        )

    def _wrong(self, what: str, a: np.ndarray, b: np.ndarray, reference: Reference, index: int) -> Wrong:
        off = [judge_against(what, side, reference, index).kind == "fault" for side in (a, b)]
        return "both" if all(off) else "a" if off[0] else "b" if off[1] else None

    def _value(self, call: Call, known: Finding) -> list[Held]:
        """The outputs of a node that was looked at before."""
        side = self.sides[1 if known.failed == 0 else 0]
        forward = Call(call.program, call.node, call.inputs, (), call.held)
        local, _ = twice(run_local, forward, side(call.node), {})
        return settled(local)


def settled(local: Local) -> list[Held]:
    """The outputs, as arrays where they would be lost with a worker."""
    return [
        (array, None) if home is not None and not home.in_process else (tensor, home)
        for array, (tensor, home) in zip(local.arrays, local.tensors, strict=False)
    ]


def twice(compute: Callable[..., tuple[Local, dict]], *arguments: Any) -> tuple[Local, dict]:
    """A worker may have died for reasons of its own; the operator is at fault when it happens again."""
    try:
        return compute(*arguments)
    except FrameworkError as error:
        if error.status not in ("crash", "timeout"):
            raise
        return compute(*arguments)
