"""The pytest plugin of metaop: ``--metaop-html DIR`` writes the page of each failed ``assert_agree`` there.

A module of its own, for pytest imports its plugins at every start: metaop itself is loaded by the tests that use it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("metaop").addoption(
        "--metaop-html", metavar="DIR", help="Write the report of each failed metaop.testing.assert_agree there."
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    outcome = yield
    folder = item.config.getoption("--metaop-html")
    error = None if call.excinfo is None else call.excinfo.value
    if not folder or not hasattr(error, "verdict") or not hasattr(error, "report"):
        return
    path = Path(folder) / (re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid).strip("-")[:150] + ".html")
    report = outcome.get_result()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        error.report.to_html(path)
    except OSError as problem:
        report.sections.append(("metaop", f"the report cannot be written to {path}: {problem}"))
    else:
        report.sections.append(("metaop", f"the report is in {path}"))
