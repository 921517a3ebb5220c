"""DebugSession: run on framework A, swap node after node to B, record how results move, localise, verify."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from metaop.debug.evaluate import Evaluator, Side
from metaop.debug.records import DebugReport, Record, Verification
from metaop.debug.sweep import ProgressCallback, Sweep, Thresholds
from metaop.errors import UsageError
from metaop.graph.nodes import Node

__all__ = ["DebugSession"]


class DebugSession:
    """Finds the operators on which two frameworks disagree.

    A node is suspect where its swap moves the output by more than ``threshold_output`` or the parameter gradients by
    more than ``threshold_gradient``, or where it fails on one framework only. ``progress`` is ``True`` for a bar on
    the terminal, ``None`` for one only where standard error is a terminal, or a function called after each swap.
    ``node.backend`` is not looked at: Algorithm 1 binds every node itself.

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
        threshold_output: float = 1.5e-4,
        threshold_gradient: float = 1.5e-4,
        seed: int = 0,
        progress: bool | ProgressCallback | None = None,
    ) -> None:
        for name, value in (("threshold_output", threshold_output), ("threshold_gradient", threshold_gradient)):
            # Not infinite either: a delta may be, and infinite units of it are no number.
            if not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")):
                raise UsageError(f"{name} is a positive number; got {value!r}")
        self.threshold_output = float(threshold_output)
        self.threshold_gradient = float(threshold_gradient)
        self.seed = seed
        self._progress = progress
        self._last: Sweep | None = None

    def __enter__(self) -> DebugSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the last run."""
        self._last = None

    def run(
        self,
        target: Node | Sequence[Node],
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        frameworks: Sequence[Any],
        gradients: bool = True,
    ) -> DebugReport:
        """Compare two frameworks on ``target``, node by node.

        Of several targets the one that moves furthest counts, and gradients are those of their sum.

        ``frameworks`` are two backend specs; a map from nodes to specs, with ``None`` as the key for all other nodes,
        may stand for one. Gradients are those of every variable that the target depends on.
        """
        if isinstance(frameworks, str) or not isinstance(frameworks, Sequence) or len(frameworks) != 2:
            raise UsageError(f"frameworks are two backends, such as ['tensorflow', 'torch']; got {frameworks!r}")
        targets = [target] if isinstance(target, Node) else list(target) if isinstance(target, Sequence) else []
        if not targets or not all(isinstance(t, Node) for t in targets):
            raise UsageError(f"the target is a node, or a list of nodes; got {target!r}")
        sides = Side(frameworks[0]), Side(frameworks[1])
        sweep = Sweep(
            Thresholds(self.threshold_output, self.threshold_gradient),
            Evaluator(targets, feed_dict, self.seed, gradients),
            sides,
        )
        with _progress(self._progress, len(sweep.order)) as advance:
            sweep.run(advance)
        self._last = sweep
        return DebugReport(
            records=sweep.records,
            frameworks=(sides[0].label, sides[1].label),
            versions=(sides[0].default.version(), sides[1].default.version()),
            target=", ".join(t.name for t in targets),
            parameters=[node.name for node, _ in sweep.evaluator.parameters],
            threshold_output=self.threshold_output,
            threshold_gradient=self.threshold_gradient,
            seed=self.seed,
            notes=sweep.notes,
        )

    def verify(self, suspect: Record | Node | str) -> Verification:
        """Rebind only the suspect and see whether that alone explains the difference; on the frameworks of the last
        run.

        Where the node alone does not suffice, all suspects of the same operator are rebound together.
        """
        if self._last is None:
            raise UsageError("verify follows a run of the same session: call run first")
        return self._last.verify(suspect)


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
        TextColumn("swapping"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(record: Record, done: int, total: int) -> None:
            bar.update(task, completed=done, description=record.node.replace("[", r"\["))

        yield advance
