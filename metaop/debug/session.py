"""DebugSession: run on framework A, swap node after node to B, record how results move, localise, verify."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from metaop.debug.comparison import Comparison, Judge, Method, Options, ProgressCallback
from metaop.debug.cradle import SizedFeeds, open_feeds
from metaop.debug.cradle.feeds import FeedsSource
from metaop.debug.evaluate import Evaluator, Side
from metaop.debug.journal import Journal, fingerprint
from metaop.debug.many import Many, worst_first
from metaop.debug.records import DebugReport, Record, Verification
from metaop.debug.reduce import Explanation, explain
from metaop.debug.render import graph_data
from metaop.errors import UsageError
from metaop.graph.nodes import Node

__all__ = ["DebugSession"]


class DebugSession:
    """Finds the operators on which two frameworks disagree.

    With ``judge="noise"`` a node is suspect where, on the same inputs and the same random incoming gradients, the
    frameworks differ by more than rounding explains for that operator on those data, where both are that far from the
    float64 reference, or where it fails on one framework only. With ``judge="paper"`` it is suspect where its swap
    moves the output of the whole graph by more than ``threshold_output`` or the parameter gradients by more than
    ``threshold_gradient``; that is the default where a threshold is given. ``tails=True`` also makes suspects of
    results that are wrong only relative to themselves, such as a gelu that is 0 at -6.

    ``progress`` is ``True`` for a bar on the terminal, ``None`` for one only where standard error is a terminal, or a
    function called with the record, how many steps are done and how many there are; ``False`` from it ends the run.
    ``node.backend`` is not looked at: the session binds every node itself.

    >>> import metaop as mo
    >>> w = mo.Variable([1.0, -2.0], name="w")
    >>> loss = mo.reduce_sum(mo.relu(w, name="act"))
    >>> off = mo.derive("numpy", name="numpy-off", forward={"relu": lambda x: 2 * x})
    >>> with mo.DebugSession() as sess:
    ...     report = sess.run(loss, frameworks=["numpy", "numpy-off"])
    ...     verdict = sess.verify(report.suspects[0])
    >>> verdict.nodes, verdict.confirmed, verdict.blame
    (('act',), True, 'numpy-off')
    """

    def __init__(
        self,
        *,
        judge: Judge | None = None,
        threshold_output: float | None = None,
        threshold_gradient: float | None = None,
        tails: bool = False,
        seed: int = 0,
        progress: bool | ProgressCallback | None = None,
    ) -> None:
        given = {"threshold_output": threshold_output, "threshold_gradient": threshold_gradient}
        for name, value in given.items():
            # Not infinite either: a delta may be, and infinite units of it are no number.
            real = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (real and 0 < value < float("inf")):
                raise UsageError(f"{name} is a positive number; got {value!r}")
        if judge is not None and judge not in get_args(Judge):
            raise UsageError(f"judge is 'noise' or 'paper'; got {judge!r}")
        if not isinstance(seed, int) or seed < 0:
            raise UsageError(f"seed is an integer >= 0; got {seed!r}")
        thresholds = any(value is not None for value in given.values())
        self.judge: Judge = judge or ("paper" if thresholds else "noise")
        self.threshold_output = float(threshold_output or _THRESHOLD)
        self.threshold_gradient = float(threshold_gradient or _THRESHOLD)
        self.tails = tails
        self.seed = seed
        self._progress = progress
        self._last: Comparison | None = None
        self._report: DebugReport | None = None

    def __enter__(self) -> DebugSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the last run."""
        self._last = self._report = None

    def run(
        self,
        target: Node | Sequence[Node],
        feed_dict: Mapping[Any, Any] | FeedsSource | None = None,
        *,
        frameworks: Sequence[Any],
        gradients: bool = True,
        method: Method = "auto",
        out: str | os.PathLike[str] | None = None,
    ) -> DebugReport:
        """Compare two frameworks on ``target``, node by node.

        Of several targets the one that moves furthest counts, and gradients are those of their sum.

        ``frameworks`` are two backend specs; a map from nodes to specs, with ``None`` as the key for all other nodes,
        may stand for one. Gradients are those of every variable that the target depends on.

        Every ``method`` begins with the local check: each operator fed the same inputs on both sides, once through
        the graph. ``"local"`` is nothing more. ``"sweep"`` goes on with Algorithm 1, one whole run per operator (of
        which only what can have changed is computed). ``"auto"`` sweeps short graphs, and of longer ones swaps the
        suspects alone.

        ``feed_dict`` may also be many inputs: a list or any iterable of dicts, or a folder of ``.npz`` files. They are
        compared one after the other; the report has the worst of each node, and a row per input.

        ``out`` is a folder in which results are written down as they come; the same call goes on from there.
        """
        if feed_dict is not None and not isinstance(feed_dict, Mapping):
            return self._run_many(target, feed_dict, frameworks, gradients, method, out)
        comparison = self._compare(target, feed_dict, frameworks, gradients, method, out)
        total = len(comparison.order) * (2 if comparison.sweeps else 1)
        try:
            with _progress(self._progress, total) as advance:
                for record, done, count in comparison.steps():
                    if advance(record, done, count) is False:
                        comparison.stopped = True
                        break
        except KeyboardInterrupt:
            # What is known so far stays in ``report``.
            comparison.stopped = True
            comparison.take_notes()
            self._finish(comparison)
            raise
        comparison.take_notes()
        return self._finish(comparison)

    def steps(
        self,
        target: Node | Sequence[Node],
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        frameworks: Sequence[Any],
        gradients: bool = True,
        method: Method = "auto",
        out: str | os.PathLike[str] | None = None,
    ) -> Iterator[Record]:
        """The records of :meth:`run` one by one, for tools that drive the comparison and stop where they like.

        A record comes when the local check has looked at its node, and again when the node was swapped. Afterwards,
        also after a ``break``, :attr:`report` holds what is known.

        >>> import metaop as mo
        >>> w = mo.Variable([1.0, -2.0], name="w")
        >>> off = mo.derive("numpy", name="numpy-twice", forward={"relu": lambda x: 2 * x})
        >>> with mo.DebugSession() as sess:
        ...     for record in sess.steps(mo.reduce_sum(mo.relu(w, name="act")), frameworks=["numpy", "numpy-twice"]):
        ...         if record.suspect:
        ...             break
        ...     sess.report.suspects[0].node
        'act'
        """
        comparison = self._compare(target, feed_dict, frameworks, gradients, method, out)
        ended = False
        try:
            for record, _, _ in comparison.steps():
                yield record
            ended = True
        finally:
            comparison.stopped = not ended
            comparison.take_notes()
            self._finish(comparison)

    @property
    def report(self) -> DebugReport:
        """The report of the last run."""
        if self._report is None:
            raise UsageError("there is no report yet: call run first")
        return self._report

    def verify(self, suspect: Record | Node | str) -> Verification:
        """Rebind only the suspect and see whether that alone explains the difference; on the frameworks of the last
        run.

        Where the node alone does not suffice, all suspects of the same operator are rebound together.
        """
        last = self._last
        if last is None:
            raise UsageError("verify follows a run of the same session: call run first")
        node = last.find(suspect)
        found = last.verifier.verify([node])
        if not found:
            alike = last.alike(node)
            if node in alike and len(alike) > 1:
                together = last.verifier.verify(alike)
                found = together if together else found
        self.report.verifications.append(found)
        return found

    def explain(self) -> Explanation:
        """The smallest set of nodes whose rebinding removes the difference of the last run.

        For several faults at once, and for operators that are wrong only together.

        >>> import metaop as mo
        >>> w = mo.Variable([1.0, -2.0], name="w")
        >>> loss = mo.reduce_sum(mo.exp(mo.relu(w, name="act"), name="grow"))
        >>> forward = {"relu": lambda x: 2 * x, "exp": lambda x: x}
        >>> _ = mo.derive("numpy", name="numpy-worse", forward=forward)
        >>> with mo.DebugSession() as sess:
        ...     report = sess.run(loss, frameworks=["numpy", "numpy-worse"])
        ...     sess.explain().nodes
        ('grow', 'act')
        """
        if self._last is None:
            raise UsageError("explain follows a run of the same session: call run first")
        suspect = {r.node for r in self._last.records() if r.suspect}
        return explain(self._last.verifier, [n for n in self._last.order if n.name in suspect])

    # -- parts of a run -----------------------------------------------------------------------------------------------

    def _compare(
        self,
        target: Node | Sequence[Node],
        feed_dict: Mapping[Any, Any] | None,
        frameworks: Sequence[Any],
        gradients: bool,
        method: Method,
        out: str | os.PathLike[str] | None,
        name: str = "run",
    ) -> Comparison:
        if isinstance(frameworks, str) or not isinstance(frameworks, Sequence) or len(frameworks) != 2:
            raise UsageError(f"frameworks are two backends, such as ['tensorflow', 'torch']; got {frameworks!r}")
        targets = [target] if isinstance(target, Node) else list(target) if isinstance(target, Sequence) else []
        if not targets or not all(isinstance(t, Node) for t in targets):
            raise UsageError(f"the target is a node, or a list of nodes; got {target!r}")
        if method not in get_args(Method):
            raise UsageError(f"method is 'auto', 'sweep' or 'local'; got {method!r}")
        sides = Side(frameworks[0]), Side(frameworks[1])
        options = Options(method, self.judge, self.threshold_output, self.threshold_gradient, self.seed, self.tails)
        evaluator = Evaluator(targets, feed_dict, self.seed, gradients)
        self._last = self._report = None
        return Comparison(evaluator, sides, options, _journal(out, evaluator, sides, options, name))

    def _run_many(
        self,
        target: Node | Sequence[Node],
        source: FeedsSource,
        frameworks: Sequence[Any],
        gradients: bool,
        method: Method,
        out: str | os.PathLike[str] | None,
    ) -> DebugReport:
        feeds, many, stopped = open_feeds(source), Many(), False
        count = len(feeds) if isinstance(feeds, SizedFeeds) else None
        with _progress(self._progress, count or 1) as advance:
            try:
                for number, (name, feed) in enumerate(feeds):
                    comparison = self._compare(target, feed, frameworks, gradients, method, out, f"input-{number}")
                    for _ in comparison.steps():
                        pass
                    comparison.take_notes()
                    many.take(name, comparison)
                    worst = max(comparison.records(), key=lambda r: r.score, default=None)
                    if worst is not None and advance(worst, number + 1, count or number + 1) is False:
                        stopped = True
                        break
            except KeyboardInterrupt:
                if many.worst is not None:
                    self._finish_many(many, stopped=True)
                raise
        return self._finish_many(many, stopped=stopped)

    def _finish_many(self, many: Many, *, stopped: bool) -> DebugReport:
        if many.worst is None:
            raise UsageError("there are no inputs to compare the frameworks on")
        if stopped:
            many.worst.notes.append(f"the run was ended early, after {len(many.rows)} inputs")
        return self._finish(many.worst, many)

    def _finish(self, comparison: Comparison, many: Many | None = None) -> DebugReport:
        sides = comparison.sides
        self._last = comparison
        pair = sides[0].label, sides[1].label
        self._report = DebugReport(
            records=comparison.records() if many is None else many.merged(),
            feeds=None if many is None else worst_first(many.rows),
            statistics=None if many is None else many.statistics,
            inconsistencies=[] if many is None else many.inconsistencies("graph", pair),
            frameworks=(sides[0].label, sides[1].label),
            versions=(sides[0].default.version(), sides[1].default.version()),
            target=", ".join(t.name for t in comparison.evaluator.program.targets),
            parameters=[node.name for node, _ in comparison.evaluator.parameters],
            threshold_output=self.threshold_output,
            threshold_gradient=self.threshold_gradient,
            seed=self.seed,
            notes=comparison.notes,
            judge=self.judge,
            method=comparison.options.method,
            graph=graph_data(comparison.evaluator.program),
            _source=comparison,
        )
        return self._report


_THRESHOLD = 1.5e-4


def _journal(
    out: str | os.PathLike[str] | None, evaluator: Evaluator, sides: tuple[Side, Side], options: Options, name: str
) -> Journal:
    if out is None:
        return Journal()
    about: dict[str, Literal[""] | Any] = {
        "graph and data": fingerprint(evaluator),
        "frameworks": [[side.label, side.default.version()] for side in sides],
        "gradients": [node.name for node, _ in evaluator.parameters],
        "options": vars(options),
    }
    return Journal(Path(out), about, name)


@contextmanager
def _progress(wanted: bool | ProgressCallback | None, total: int) -> Iterator[ProgressCallback]:
    """Yield what is called after each swap."""
    if callable(wanted):
        yield wanted
        return
    if wanted is False:
        yield lambda record, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if wanted is None and not console.is_terminal:
        yield lambda record, done, total: None
        return
    columns = (
        TextColumn("comparing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(record: Record, done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, description=record.node.replace("[", r"\["))

        yield advance
