"""Pictures of the report page, for the README: ``python -m docs.screenshots report.json docs/report.png [--dark]``."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from metaop.debug.page import render
from tests.debug.browser import chromium


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the report page of a report that was saved as JSON.")
    parser.add_argument("report", type=Path, help="what `metaop localize --json` or DebugReport.to_json wrote")
    parser.add_argument("picture", type=Path, nargs="?", default=Path("docs/report.png"))
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--full", action="store_true", help="the whole page, not only what a window shows")
    parser.add_argument("--size", default="1440x900", help="of the window (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=2.0, help="pixels per unit (default: %(default)s)")
    args = parser.parse_args()
    width, height = map(int, args.size.split("x"))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page_path = Path(folder) / "report.html"
        page_path.write_text(render(json.loads(args.report.read_text(encoding="utf-8"))), encoding="utf-8")
        page = browser.new_page(
            viewport={"width": width, "height": height},
            device_scale_factor=args.scale,
            color_scheme="dark" if args.dark else "light",
            reduced_motion="reduce",
        )
        page.goto(page_path.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.screenshot(path=args.picture, full_page=args.full)


if __name__ == "__main__":
    main()
