"""For test suites: an assertion whose failure message is the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metaop.debug import DebugReport, DebugSession
from metaop.errors import UsageError
from metaop.graph import Node

__all__ = ["assert_agree"]


def assert_agree(
    target: Node,
    feed_dict: Mapping[Any, Any] | None = None,
    backends: Sequence[Any] = (),
    *,
    gradients: bool = True,
    **options: Any,
) -> list[DebugReport]:
    """Assert that each of ``backends`` agrees with the first one on ``target``, values and gradients, node by node.

    ``options`` are those of :class:`metaop.DebugSession` (thresholds, seed). The error of a failing assertion says
    which operator it is, whether rebinding it alone explains the difference, and who is wrong.

    >>> import metaop as mo
    >>> w = mo.Variable([1.0, -2.0])
    >>> [report.consistent for report in assert_agree(mo.reduce_sum(w * w), backends=["numpy", "numpy"])]
    [True]
    """
    if isinstance(backends, str) or len(backends) < 2:
        raise UsageError(f"backends are two or more, such as ['numpy', 'torch']; got {backends!r}")
    reports = []
    for other in backends[1:]:
        with DebugSession(**{"progress": False, **options}) as session:
            report = session.run(target, feed_dict, frameworks=[backends[0], other], gradients=gradients)
            if not report.consistent:
                verdict = session.verify(report.suspects[0])
                raise AssertionError(f"{report.table(limit=10)}\n\n{verdict}\nto blame: {verdict.blame or 'undecided'}")
            reports.append(report)
    return reports
