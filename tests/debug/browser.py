"""The browser in which the report page is tested and photographed: the system's own Chromium, without a screen."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FLAGS = (
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium; an error that says how to get one where there is none."""
    script = Path(__file__).resolve().parents[1] / "browser.sh"
    found = subprocess.run([script], capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(found.stderr.strip())
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=FLAGS)
        yield browser
        browser.close()
