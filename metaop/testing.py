"""For test suites: an assertion whose failure message is the verdict.

With pytest, ``--metaop-html DIR`` writes the page of each failure there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metaop.debug import DebugReport, DebugSession, Verification
from metaop.errors import UsageError
from metaop.graph import Node

__all__ = ["Disagreement", "assert_agree"]


class Disagreement(AssertionError):
    """Two frameworks disagree; ``report`` and ``verdict`` say where and who is wrong."""

    def __init__(self, report: DebugReport, verdict: Verification) -> None:
        blame = verdict.blame or "undecided"
        super().__init__(f"{report.table(limit=10)}\n\n{verdict}\nto blame: {blame}")
        self.report = report
        self.verdict = verdict


def assert_agree(
    model: Any,
    feeds: Any = None,
    backends: Sequence[Any] = (),
    *,
    gradients: bool = True,
    method: Any = "auto",
    **options: Any,
) -> list[DebugReport]:
    """Assert that each of ``backends`` agrees with the first one, values and gradients, node by node.

    ``model`` is a node, a list of nodes or an imported model; ``feeds`` is one dict, or many: a list of them or a
    folder of ``.npz`` files. ``options`` are those of :class:`metaop.DebugSession`. The error of a failing assertion, a
    :class:`Disagreement`, says which operator it is, whether rebinding it alone explains the difference, and who is
    wrong.

    >>> import metaop as mo
    >>> w = mo.Variable([1.0, -2.0])
    >>> [report.consistent for report in assert_agree(mo.reduce_sum(w * w), backends=["numpy", "numpy"])]
    [True]
    """
    if isinstance(backends, str) or len(backends) < 2:
        raise UsageError(f"backends are two or more, such as ['numpy', 'torch']; got {backends!r}")
    target = model if isinstance(model, Node | list | tuple) else getattr(model, "outputs", model)
    if hasattr(model, "feed_dict") and isinstance(feeds, Mapping):
        feeds = model.feed_dict(feeds, list(target))
    reports = []
    for other in backends[1:]:
        with DebugSession(**{"progress": False, **options}) as session:
            report = session.run(target, feeds, frameworks=[backends[0], other], gradients=gradients, method=method)
            if not report.consistent:
                raise Disagreement(report, session.verify(report.suspects[0]))
            reports.append(report)
    return reports
