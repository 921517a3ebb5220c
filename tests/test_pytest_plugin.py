"""``--metaop-html DIR``: the page of each failed ``assert_agree``, whatever the test is called."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import metaop_pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
#: where metaop is installed with its metadata pytest finds the plugin itself
LOADED = [] if any(e.value == "metaop_pytest" for e in entry_points(group="pytest11")) else ["-p", "metaop_pytest"]

HEADER = """
    import numpy as np
    import pytest
    import metaop as mo
    from metaop.debug.compare import Distance
    from metaop.debug.records import Verification
    from metaop.testing import Disagreement, assert_agree

    def bent():
        w = mo.Variable([1.0, 2.0], name="w")
        mo.derive("numpy", name="numpy-twice", forward={"tanh": lambda x: 2 * np.tanh(x)})
        return mo.reduce_sum(mo.tanh(w, name="bend"), name="loss")

    def disagree():
        # As assert_agree does, but for the verification, which asks every other framework.
        report = mo.DebugSession().run(bent(), frameworks=["numpy", "numpy-twice"])
        apart = Distance(1.0, 1.0)
        raise Disagreement(report, Verification(True, ("bend",), "tanh", apart, apart, apart, "numpy-twice", []))
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """In a process of its own, for NumPy cannot be imported twice in one."""
    pytester.makepyfile(HEADER + tests)
    return pytester.runpytest_subprocess(*LOADED, "-p", "no:cacheprovider", "-p", "no:xdist", *options)


def pages(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_failure_writes_its_page(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    def test_wrong():
        assert_agree(bent(), backends=["numpy", "numpy-twice"])

    def test_right():
        w = mo.Variable([1.0])
        assert_agree(mo.tanh(w), backends=["numpy", "numpy"])

    def test_expected():
        with pytest.raises(AssertionError):
            disagree()

    def test_other_failure():
        assert 1 == 2
    """,
        "--metaop-html=out/pages",
    )
    result.assert_outcomes(passed=2, failed=2)
    (name,) = pages(pytester.path / "out" / "pages")
    assert name == "test_a_failure_writes_its_page.py-test_wrong.html"
    page = (pytester.path / "out" / "pages" / name).read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "numpy-twice" in page
    result.stdout.fnmatch_lines(["*tanh at bend: confirmed*", "*the report is in out*pages*test_wrong.html*"])


def test_without_the_option_nothing_is_written(pytester: pytest.Pytester) -> None:
    result = run(pytester, "\n    def test_wrong():\n        disagree()\n")
    result.assert_outcomes(failed=1)
    assert not list(pytester.path.rglob("*.html"))


def test_names_of_strangers(pytester: pytest.Pytester) -> None:
    """They leave no folder, hit no limit of the file system, and no two write the same page."""
    result = run(
        pytester,
        """
    NAMES = ["../../../evil", "/etc/evil", "<script>alert(1)</script>", "a/b", "a-b", "a b", "\\\\x00", "CON", "..",
             "x" * 300, "x" * 301, "\\u00e9\\u4e2d", "", " ", "a::b"]

    @pytest.mark.parametrize("name", NAMES, ids=NAMES)
    def test_wrong(name):
        disagree()

    class TestThings:
        def test_wrong(self):
            disagree()
    """,
        "--metaop-html=pages",
    )
    result.assert_outcomes(failed=16)
    found = pages(pytester.path / "pages")
    assert len(found) == 16
    assert all(len(name) < 200 and name.isascii() and not name.startswith(".") for name in found)
    assert "test_names_of_strangers.py-TestThings-test_wrong.html" in found
    assert not any("evil" in p.name for p in pytester.path.parent.iterdir())


def test_a_failure_in_a_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    @pytest.fixture
    def agreed():
        disagree()

    def test_wrong(agreed):
        pass
    """,
        "--metaop-html=pages",
    )
    result.assert_outcomes(errors=1)
    assert len(pages(pytester.path / "pages")) == 1


def test_a_folder_that_cannot_be_written(pytester: pytest.Pytester) -> None:
    """The failure stays the failure, and says why there is no page."""
    (pytester.path / "taken").write_text("x")
    result = run(pytester, "\n    def test_wrong():\n        disagree()\n", "--metaop-html=taken")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*tanh at bend: confirmed*", "*the report cannot be written to taken*"])


def test_failures_that_look_alike(pytester: pytest.Pytester) -> None:
    """Another library's error may have a report and a verdict as well."""
    result = run(
        pytester,
        """
    class Other(Exception):
        report = "no report of ours"
        verdict = True

    def test_other():
        raise Other
    """,
        "--metaop-html=pages",
    )
    result.assert_outcomes(failed=1)
    assert "INTERNALERROR" not in str(result.stdout)
    assert not (pytester.path / "pages").exists()


def test_the_plugin_loads_nothing() -> None:
    """It is imported at every start of pytest, wherever metaop is installed."""
    code = (
        "import sys, metaop_pytest; print([m for m in sys.modules if m.split('.')[0] in ('metaop', 'numpy', 'torch')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
    assert metaop_pytest.__doc__
