"""The pytest plugin of metaop: ``--metaop-html DIR`` writes the page of each failed ``assert_agree`` there.

A module of its own, for pytest imports its plugins at every start: metaop itself is loaded by the tests that use it.
"""

from __future__ import annotations

import hashlib
import re
import sys
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
    # Where it was not imported, it was not raised.
    testing = sys.modules.get("metaop.testing")
    if not folder or testing is None or not isinstance(error, testing.Disagreement):
        return
    path = Path(folder) / _file_name(item.nodeid)
    report = outcome.get_result()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        error.report.to_html(path)
    except OSError as problem:
        report.sections.append(("metaop", f"the report cannot be written to {path}: {problem}"))
    else:
        report.sections.append(("metaop", f"the report is in {path}"))


def _file_name(test: str) -> str:
    """The name of a page; of no two tests the same."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", test.replace("::", "-")).strip("-.")[:150]
    if name != test.replace("::", "-"):
        name += "-" + hashlib.blake2b(test.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return name + ".html"
