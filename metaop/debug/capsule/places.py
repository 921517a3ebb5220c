"""Where a backend's framework lives, and how a script is run there: in a fresh process that knows nothing of metaop."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.backends.base import Variant
from metaop.backends.catalog import CATALOG
from metaop.backends.isolation.backend import IsolatedBackend
from metaop.debug.capsule.data import read

__all__ = ["Place", "Run", "failure", "plain_environment", "run_script"]

#: how long a script may take, in seconds
LIMIT = 600.0
#: what a script is started by: where metaop is installed, it cannot be imported all the same
_START = "import sys, runpy; sys.modules['metaop'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"


@dataclass(frozen=True)
class Place:
    """A framework at a version, and the interpreter that it is installed for."""

    spec: str
    framework: str
    version: str
    python: str
    variables: Mapping[str, str]

    @classmethod
    def of(cls, backend: Backend) -> Place:
        """The place of a backend."""
        base = backend.base if isinstance(backend, Variant) else backend
        if isinstance(base, IsolatedBackend):
            launch = base.worker.launch
            framework = launch.package.rpartition(".")[2]
            return cls(backend.spec, framework, base.version(), launch.python, dict(launch.environment or {}))
        return cls(backend.spec, base.name, base.version(), sys.executable, {})

    @property
    def apart(self) -> bool:
        """Whether it is an environment of its own."""
        return self.python != sys.executable

    @property
    def slug(self) -> str:
        """The spec as a part of a file's name."""
        return re.sub(r"[^A-Za-z0-9.]+", "_", self.spec).strip("_.") or "backend"

    def requirements(self, versions: Mapping[str, str]) -> list[str]:
        """What pip is to install, pinned to what the script ran on."""
        known = versions.get("numpy") or (None if self.apart else np.__version__)
        exact = {"numpy": known} if known else {}
        lines: list[str] = []
        entry = CATALOG.get(self.framework)
        if self.apart and entry is not None:
            from metaop.backends.isolation.recipes import find_recipe

            recipe = find_recipe(entry.environment, self.version)
            given = [r.format(version=self.version.partition("+")[0]) for r in recipe.requirements]
            # Pinned by the recipe, or by what was found there; what is neither stays a range.
            lines = [r for r in given if re.split(r"[<>=]", r)[0] not in ("onnx", *exact)]
        elif entry is not None and self.framework != "numpy":
            name = next((d for d in entry.distributions if _installed(d)), entry.distributions[0])
            exact[name] = self.version.partition("+")[0]
        for package in ("jaxlib", "ml_dtypes"):
            if package in versions and not any(line.startswith(package) for line in lines):
                exact[package] = versions[package]
        return sorted([*lines, *(f"{name}=={version}" for name, version in exact.items())])


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass
class Run:
    """What became of a script: its results as they stand in the file, or why there are none."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    failure: str | None = None


def run_script(place: Place, folder: Path, script: str, result: str) -> Run:
    """Run a script of a folder in a fresh process of its framework's own interpreter."""
    (folder / result).unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [place.python, "-I", "-B", "-c", _START, script],
            cwd=folder,
            env=plain_environment(place),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Run(failure=f"it did not end within {LIMIT:.0f} seconds")
    except OSError as error:
        return Run(failure=f"{place.python} cannot be started: {error.strerror or error}")
    if done.returncode:
        return Run(failure=failure(done.returncode, done.stderr.decode("utf-8", "replace")))
    try:
        arrays = read(folder / result)
        (folder / result).unlink()
    except (OSError, ValueError) as error:
        return Run(failure=f"it wrote no {result}: {error}")
    return Run(arrays, _versions(done.stdout.decode("utf-8", "replace")))


def plain_environment(place: Place) -> dict[str, str]:
    """The variables of a process in that place, without those that change where Python looks for packages."""
    both = {**os.environ, **place.variables}
    return {k: v for k, v in both.items() if not k.startswith("PYTHON")}


def failure(code: int, errors: str) -> str:
    """Why a process failed, in one line, from its exit code and what it wrote."""
    if code < 0:
        return f"it died by {signal.Signals(-code).name}"
    lines = [line for line in errors.splitlines() if line.strip()]
    # What follows the last traceback, for messages go over several lines.
    last = max((i for i, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return " ".join(" ".join(lines[last + 1 :] or lines[-1:]).split()) or f"it ended with code {code}"


def _versions(output: str) -> dict[str, Any]:
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}
