"""Virtual environments for isolated backends: made, listed, removed.

They live under ``METAOP_HOME`` (by default the user's data folder). Making one is atomic: it is built under a
temporary name, while a lock is held, checked by starting a worker in it, and renamed into place at the end; whatever
interrupts that leaves nothing that could be taken for an environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from metaop.backends.isolation.process import Launch, Worker
from metaop.backends.isolation.recipes import Recipe, find_recipe, release
from metaop.errors import BackendError, MetaopError, UsageError

__all__ = ["Environment", "EnvironmentFailure", "create", "environments", "find", "find_interpreter", "home", "remove"]

Report = Callable[[str], None]
_INFO = "metaop-environment.json"


class EnvironmentFailure(BackendError):
    """An environment cannot be made or used; the message says why and what to do."""


@dataclass(frozen=True)
class Environment:
    """A finished environment."""

    framework: str
    version: str
    python: str
    requirements: tuple[str, ...]
    variables: dict[str, str]
    path: Path

    @property
    def name(self) -> str:
        """As in a backend spec: ``mxnet==1.6.0``."""
        return f"{self.framework}=={self.version}"

    @property
    def interpreter(self) -> str:
        """The Python to run in it."""
        return str(self.path / "bin" / "python")

    @property
    def process_variables(self) -> dict[str, str]:
        """What a worker's process environment gets: the recipe's variables, and a way to the programs installed here.

        TensorFlow before 2.2 runs its converter as such a program, which in turn has to find TensorFlow.
        """
        packages = self.path / "lib" / f"python{self.python}" / "site-packages"
        programs = os.pathsep.join([str(packages / "bin"), os.environ.get("PATH", os.defpath)])
        return {**self.variables, "PATH": programs, "PYTHONPATH": str(packages)}

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        return sum(f.stat(follow_symlinks=False).st_size for f in self.path.rglob("*") if not f.is_dir())


def home() -> Path:
    """Where environments live: ``METAOP_HOME``, or the user's data folder."""
    given = os.environ.get("METAOP_HOME")
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("metaop", appauthor=False))


def _root() -> Path:
    return home() / "environments"


def _parse(spec: str) -> tuple[str, str]:
    from metaop.backends.catalog import CATALOG, parse_spec

    wrong = f"an environment is named framework==version, for example mxnet==1.6.0; got {spec!r}"
    if re.fullmatch(r"[^=@:]+==[^=@:]+", spec) is None:
        raise UsageError(wrong)
    name, version, _ = parse_spec(spec)
    entry = CATALOG.get(name)
    if entry is None or version is None:
        raise UsageError(wrong)
    if not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.+!-]*", version):
        raise UsageError(f"{version!r} is not a version")
    return entry.environment, version


def environments() -> list[Environment]:
    """Every finished environment, by name."""
    found = []
    root = _root()
    if root.is_dir():
        for path in sorted(root.iterdir()):
            environment = _read(path)
            if environment is not None:
                found.append(environment)
    return found


def _read(path: Path) -> Environment | None:
    if path.name.startswith("."):
        return None
    try:
        info = json.loads((path / _INFO).read_text(encoding="utf-8"))
        return Environment(
            info["framework"],
            info["version"],
            info["python"],
            tuple(info["requirements"]),
            dict(info["variables"]),
            path,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find(framework: str, version: str | None = None) -> Environment | None:
    """The environment of a framework at a version; without a version, the newest one there is."""
    fitting = [e for e in environments() if e.framework == framework and version in (None, e.version)]
    return max(fitting, key=lambda e: release(e.version), default=None)


def remove(spec: str) -> Environment:
    """Delete an environment; returns what it was."""
    framework, version = _parse(spec)
    with _locked(framework, version):
        environment = find(framework, version)
        if environment is None:
            known = ", ".join(e.name for e in environments()) or "none"
            raise UsageError(f"there is no environment {framework}=={version}; existing ones: {known}")
        # Renamed first: an interrupted removal must not leave half an environment under its name.
        gone = environment.path.with_name(f".removed-{environment.path.name}-{os.getpid()}")
        environment.path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        return environment


def create(spec: str, *, python: str | None = None, report: Report | None = None) -> Environment:
    """Make the environment of ``framework==version``, or return the one that exists.

    ``python`` is a version such as ``3.7`` or the path of an interpreter; by default the recipe's first one that is
    found here. ``report`` is told what happens. Two processes that ask for the same one at the same time get one
    environment.
    """
    say = report or (lambda text: None)
    framework, version = _parse(spec)
    recipe = find_recipe(framework, version)
    with _locked(framework, version, say) as lock:
        existing = find(framework, version)
        if existing is not None:
            say(f"{existing.name} exists already")
            return existing
        interpreter, number = _choose(recipe, python, f"{framework}=={version}")
        return _build(recipe, framework, version, interpreter, number, say, lock)


def _choose(recipe: Recipe, python: str | None, name: str) -> tuple[str, str]:
    if python is not None and os.sep not in python and re.fullmatch(r"\d+\.\d+(\.\d+)?", python) is None:
        raise UsageError(f"--python takes a version such as 3.7, or the path of an interpreter; got {python!r}")
    wanted = recipe.pythons if python is None else (python,)
    for candidate in wanted:
        found = find_interpreter(candidate)
        if found is not None:
            return found
    if python is not None and os.sep in python:
        raise UsageError(f"{python} is not the path of a Python that starts and has pip and venv")
    raise EnvironmentFailure(
        f"{name} needs Python {' or '.join(wanted)}, and none that has pip and venv was found on PATH or in the "
        "folders of pyenv, uv and conda. "
        f"Install one (for example: uv python install {wanted[0]}), or name one with --python"
    )


def _build(
    recipe: Recipe, framework: str, version: str, interpreter: str, number: str, say: Report, lock: IO[str]
) -> Environment:
    name = f"{framework}=={version}"
    final = _root() / name
    making = _root() / f".making-{name}-{os.getpid()}"
    requirements = tuple(r.format(version=version) for r in recipe.requirements)
    environment = Environment(framework, version, number, requirements, dict(recipe.variables), final)
    try:
        say(f"making {name} with Python {number} ({interpreter})")
        _command([interpreter, "-m", "venv", "--without-pip", str(making)], say, name, lock)
        say(f"installing {', '.join(requirements)}")
        _install(making, interpreter, requirements, say, name, lock)
        say("starting a worker in it")
        _check(environment, making, recipe)
        info = {k: v for k, v in asdict(environment).items() if k != "path"}
        (making / _INFO).write_text(json.dumps(info, indent=1), encoding="utf-8")
        making.rename(final)
    except OSError as error:
        raise EnvironmentFailure(f"{name}: the environment could not be written: {error}") from error
    finally:
        # After success the folder has its final name and there is nothing to remove.
        shutil.rmtree(making, ignore_errors=True)
    say(f"{name} is ready")
    return environment


def _install(
    folder: Path, interpreter: str, requirements: tuple[str, ...], say: Report, name: str, lock: IO[str]
) -> None:
    """Install with the interpreter's own pip: it is at hand, fits that Python, and leaves none in the environment."""
    target = folder / "lib" / f"python{_number(interpreter)}" / "site-packages"
    command = [
        interpreter,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
    ]
    command += [
        "--no-warn-script-location",
        "--ignore-installed",
        "--no-compile",
        "--target",
        str(target),
        *requirements,
    ]
    # Half a framework is left where pip unpacks when it is killed: there, it goes away with the folder.
    scratch = folder / "unpacking"
    scratch.mkdir()
    _command(command, say, name, lock, TMPDIR=str(scratch))
    shutil.rmtree(scratch)


def _check(environment: Environment, folder: Path, recipe: Recipe) -> None:
    from metaop.backends.catalog import CATALOG

    package = next(e.module for e in CATALOG.values() if e.environment == environment.framework)
    worker = Worker(Launch(environment.name, str(folder / "bin" / "python"), package, None, environment.variables))
    try:
        worker.start()
    except MetaopError as error:
        hint = f" ({recipe.hint})" if recipe.hint else ""
        raise EnvironmentFailure(f"{environment.name} was installed but does not work: {error}{hint}") from error
    finally:
        worker.stop()


def _command(command: list[str], say: Report, name: str, lock: IO[str], **extra: str) -> None:
    """Run a command, pass on its progress, and turn a failure into words.

    It holds the lock too: should this process be killed, nobody starts over while the command still writes.
    """
    lines: list[str] = []
    variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**variables, **extra},
        pass_fds=(lock.fileno(),),
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip())
                if line.startswith(("Collecting", "  Downloading", "Downloading", "Installing")):
                    say(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return
    text = "\n".join(lines)
    errors = [line for line in lines if line.startswith("ERROR")] or lines[-3:]
    if re.search(
        r"NewConnectionError|Temporary failure in name resolution|Network is unreachable|ConnectTimeout|ProxyError",
        text,
    ):
        reason = "no package index can be reached: check the network, or pip's index-url"
    elif "No matching distribution" in text or "Could not find a version" in text:
        raise EnvironmentFailure(
            f"{name}: pip finds no such version for this Python; the nearest ones it finds: {_nearest(name, text)}. "
            "Ask for one of these, or for another Python with --python"
        )
    elif "No space left" in text:
        reason = "the disk is full"
    else:
        reason = "pip failed" if "pip" in command else "the environment cannot be made"
    raise EnvironmentFailure(f"{name}: {reason}. {' '.join(errors)[:600]}")


def _nearest(name: str, text: str) -> str:
    """Of the versions that pip lists, those around the one it was asked for."""
    found = re.search(r"from versions: (?!none)([^)]+)", text)
    known = found[1].split(", ") if found else []
    wanted = release(name.partition("==")[2])
    below = [v for v in known if release(v) <= wanted]
    return ", ".join(below[-4:] + known[len(below) :][:4]) or "none"


# -- interpreters -----------------------------------------------------------------------------------------------------


def find_interpreter(wanted: str) -> tuple[str, str] | None:
    """The path and the version of a Python: ``wanted`` is a version such as ``3.7``, or a path."""
    if os.sep in wanted:
        number = _number(wanted)
        return (wanted, number) if number else None
    for candidate in _candidates(wanted):
        if os.access(candidate, os.X_OK) and _number(candidate) == ".".join(wanted.split(".")[:2]):
            return candidate, ".".join(wanted.split(".")[:2])
    return None


def _candidates(version: str) -> Iterator[str]:
    user = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", user / ".pyenv"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", user / ".local" / "share" / "uv" / "python"))
    yield from _globbed(pyenv / "versions", f"{version}*/bin/python")
    yield from _globbed(uv, f"cpython-{version}*/bin/python")
    for conda in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", ".conda"):
        yield from _globbed(user / conda, "bin/python")
        yield from _globbed(user / conda, "envs/*/bin/python")
    # Last, for a version manager's shim of that name may exist without an interpreter behind it.
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield from _globbed(Path(folder or "."), f"python{version}")
        yield from _globbed(Path(folder or "."), "python3")


def _globbed(folder: Path, pattern: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(str(p) for p in folder.glob(pattern))
    return []


def _number(interpreter: str) -> str | None:
    """``major.minor`` of an interpreter that starts and has pip and venv; ``None`` otherwise."""
    code = "import sys, venv, pip; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


# -- the lock ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _locked(framework: str, version: str, say: Report | None = None) -> Iterator[IO[str]]:
    """Hold the lock of one environment; stale half-made ones are removed while it is held."""
    import fcntl

    root = _root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = open(root / f".{framework}=={version}.lock", "w", encoding="ascii")  # noqa: SIM115  closed below
    except OSError as error:
        raise EnvironmentFailure(f"{root} cannot be written: {error}. METAOP_HOME names another place") from error
    with lock:
        waited = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited and say is not None:
                    say(f"waiting for another process that works on {framework}=={version}")
                waited = True
                time.sleep(0.1)
        for stale in [
            *root.glob(f".making-{framework}=={version}-*"),
            *root.glob(f".removed-{framework}=={version}-*"),
        ]:
            shutil.rmtree(stale, ignore_errors=True)
        yield lock
