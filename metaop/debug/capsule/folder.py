"""Writing a capsule: all of it or nothing, and only after its scripts have been run."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metaop.backends import Backend, get
from metaop.debug.capsule import compare, data, models
from metaop.debug.capsule.case import Case, Got, evaluate
from metaop.debug.capsule.places import Place, Run, run_script
from metaop.debug.capsule.readme import Facts, readme
from metaop.debug.capsule.scripts import Script, script_class
from metaop.debug.capsule.source import NotExtracted
from metaop.errors import UsageError

__all__ = ["Capsule", "write_capsule"]

#: what tells a capsule from other folders
_MARK = "versions.json"
_FORMAT = "metaop capsule"
#: longer scripts with their data within them are not put into the README
_INLINE = 4000


@dataclass(frozen=True)
class Capsule:
    """A folder that has been written; its truth value is whether its scripts reproduce the difference."""

    folder: Path
    #: the scripts, by name, those of the two backends first
    scripts: list[str]
    #: whether both ran without metaop, gave the same bits as metaop got, and these differ
    reproduced: bool
    #: what could not be written or did not come out the same
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.reproduced


@dataclass
class _Side:
    """One backend of a capsule."""

    slug: str
    place: Place
    got: Got
    script: Script | None = None
    run: Run | None = None


def write_capsule(case: Case, folder: str | Path) -> Capsule:
    """Write a folder that shows a difference without metaop, and run its scripts to be sure of it.

    The folder gets a README to be pasted into a bug tracker, the data (``inputs.npz``, ``expected.npz``,
    ``got_*.npz``), ``model.onnx``, a script ``run_<backend>.py`` and pinned requirements for each backend, and
    ``compare.py``. It appears as a whole or not at all; an older capsule in its place is replaced, and anything else
    refused.

        capsule = write_capsule(case, "einsum-gradient")
        capsule.reproduced, capsule.notes
    """
    target = Path(folder)
    with _drafted(target) as draft:
        return _write(case, draft, target)


@contextlib.contextmanager
def _drafted(target: Path) -> Iterator[Path]:
    """A folder beside the target that takes its place at the end."""
    _check(target)
    draft = target.absolute().with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
    except OSError as error:
        raise UsageError(f"the capsule cannot be written to {str(target)!r}: {error.strerror or error}") from None
    try:
        yield draft
        _check(target)
        old = None
        if target.exists():
            old = draft.with_name(draft.name + ".old")
            os.rename(target, old)
        try:
            os.rename(draft, target)
        except OSError as error:
            if old is not None:
                os.rename(old, target)
            raise UsageError(f"the capsule cannot be written to {str(target)!r}: {error.strerror or error}") from None
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check(target: Path) -> None:
    """Refuse to replace what is not a capsule."""
    if not target.name or target.name in (".", ".."):
        raise UsageError(f"a capsule is written to a folder of its own; {str(target)!r} names none")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError(f"{str(target)!r} is not a folder; give the capsule another place")
    if not target.exists() or not any(target.iterdir()):
        return
    try:
        found = json.loads((target / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise UsageError(
            f"{str(target)!r} holds other things than a capsule; they are not replaced. Give another folder"
        )


def _write(case: Case, draft: Path, target: Path) -> Capsule:
    notes: list[str] = []
    places = [Place.of(b) for b in case.backends]
    slugs = _slugs(places)
    sides = [_Side(slug, place, evaluate(case, b)) for slug, place, b in zip(slugs, places, case.backends, strict=True)]
    data.write(draft / "inputs.npz", case.data)
    data.write(draft / "expected.npz", case.expected)
    for side in sides:
        data.write(draft / f"got_{side.slug}.npz", side.got.arrays)
    (draft / "compare.py").write_text(Path(compare.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    extra = _reference(case, sides)
    _write_models(case, sides, extra, draft, notes)
    for side, backend in zip([*sides, *extra], [*case.backends, get("numpy")], strict=False):
        _write_script(case, side, backend, draft, notes)
    agree = [_agrees(side, notes) for side in sides]
    for side in extra:
        _agrees(side, notes)
    different = _different(sides, notes)
    written = [s for s in [*sides, *extra] if s.script is not None]
    versions = {s.place.spec: s.run.versions for s in written if s.run is not None and s.run.versions}
    (draft / _MARK).write_text(_versions(sides, versions), encoding="utf-8")
    reproduced = all(agree) and different
    facts = Facts(
        case=case,
        places=[s.place for s in sides],
        got=[s.got for s in sides],
        scripts={s.place.spec: f"run_{s.script.slug}.py" for s in written if s.script is not None},
        versions=versions,
        reproduced=reproduced,
        notes=notes,
        files=[*(p.name for p in draft.iterdir()), "README.md"],
    )
    _choose_inline(case, sides, facts)
    (draft / "README.md").write_text(readme(facts), encoding="utf-8")
    scripts = [f"run_{s.script.slug}.py" for s in written if s.script is not None]
    return Capsule(target, scripts, reproduced, notes)


def _slugs(places: list[Place]) -> list[str]:
    a, b = (p.slug for p in places)
    return [a, b if b != a else f"{b}_2"]


def _reference(case: Case, sides: list[_Side]) -> list[_Side]:
    """The reference on NumPy, unless it is one of the sides; it needs no framework."""
    if any(s.place.framework == "numpy" for s in sides):
        return []
    got = evaluate(case, get("numpy"))
    return [_Side("numpy", Place.of(get("numpy")), got)] if got.failure is None else []


def _write_models(case: Case, sides: list[_Side], extra: list[_Side], draft: Path, notes: list[str]) -> None:
    """``model.onnx`` for everybody, and the models that ONNX Runtime's scripts run: each release has its own."""
    runtimes = [s for s in sides if s.place.framework == "onnxruntime" and s.got.graph is not None]
    for side in runtimes:
        for kind in ("model", "gradient") if case.wrt else ("model",):
            _write_model(draft / f"{kind}_{side.slug}.onnx", kind, side.got.graph, side.place, notes)
    graph = next((s.got.graph for s in [*sides, *extra] if s.got.graph is not None), None)
    if any(s.slug == "onnxruntime" for s in runtimes):
        for kind in ("model", "gradient"):
            if (draft / f"{kind}_onnxruntime.onnx").exists():
                (draft / f"{kind}_onnxruntime.onnx").rename(draft / f"{kind}.onnx")
    elif graph is None:
        notes.append(
            "model.onnx cannot be written: neither backend nor the reference gives a result to take types from"
        )
    else:
        _write_model(draft / "model.onnx", "model", graph, None, notes)


def _write_model(path: Path, kind: str, graph: Any, place: Place | None, notes: list[str]) -> None:
    prefix = {"model": "output", "gradient": "gradient"}[kind]
    try:
        models.write_model(path, {k: v for k, v in graph.items() if k.startswith(prefix)}, place)
    except NotExtracted as error:
        notes.append(f"{path.name} cannot be written: {error}")


def _write_script(case: Case, side: _Side, backend: Backend, draft: Path, notes: list[str]) -> None:
    """Write a script with its requirements, and run it."""
    slug = side.slug
    try:
        script = script_class(side.place.framework)(case, backend, side.got, slug, side.place.version)
        (draft / f"run_{slug}.py").write_text(script.text(), encoding="utf-8")
    except NotExtracted as error:
        notes.append(f"{side.place.spec}: no script could be written: {error}")
        return
    for name, arrays in script.files.items():
        data.write(draft / name, arrays)
    side.script = script
    side.run = run_script(side.place, draft, f"run_{slug}.py", f"result_{slug}.npz")
    lines = side.place.requirements(side.run.versions)
    (draft / f"requirements_{slug}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _agrees(side: _Side, notes: list[str]) -> bool:
    """Whether a script came to just what metaop got on that backend."""
    if side.run is None:
        return False
    spec, failed, wanted = side.place.spec, side.run.failure, side.got.failure
    if wanted is not None:
        if failed is None:
            notes.append(f"{spec}: metaop got a failure ({wanted}), and the script none")
            return False
        alike = _alike(failed, wanted)
        if not alike:
            notes.append(f"{spec}: metaop got a failure ({wanted}), and the script another one ({failed})")
        return alike
    if failed is not None:
        notes.append(f"{spec}: the script failed: {failed}")
        return False
    mine = {data.file_name(k, a.dtype): data.stored(a) for k, a in side.got.arrays.items()}
    apart = data.differ(mine, side.run.arrays)
    if apart:
        most = max(
            compare.distances(mine[k], side.run.arrays[k])[0] if k in mine and k in side.run.arrays else float("inf")
            for k in apart
        )
        notes.append(
            f"{spec}: the script gave other bits than metaop got, of {', '.join(apart)} (by {most:.3g} at most)"
        )
    return not apart


def _alike(failed: str, wanted: str) -> bool:
    """Whether two failures are one: the same signal, or the same message of the framework."""
    message = failed.partition(": ")[2] or failed
    if failed.startswith("it died by "):
        return failed.rpartition(" ")[2] in wanted
    return message[:60] in wanted


def _different(sides: list[_Side], notes: list[str]) -> bool:
    """Whether the two backends differ at all in what metaop got."""
    a, b = (s.got for s in sides)
    if (a.failure is None) != (b.failure is None):
        return True
    if a.failure is None and data.differ(a.arrays, b.arrays):
        return True
    same = "fail" if a.failure is not None else "give the same"
    notes.append(f"both backends {same}: there is no difference to reproduce")
    return False


def _versions(sides: list[_Side], versions: dict[str, dict[str, str]]) -> str:
    found = {
        "format": _FORMAT,
        "platform": platform.platform(),
        "processor": platform.machine(),
        "backends": {
            s.place.spec: {s.place.framework: s.place.version, **versions.get(s.place.spec, {})} for s in sides
        },
    }
    return json.dumps(found, indent=2) + "\n"


def _choose_inline(case: Case, sides: list[_Side], facts: Facts) -> None:
    """The script of the backend that is blamed, or else of the first one that can be, with the data within it."""
    for side in sorted(sides, key=lambda s: s.place.spec != case.blame):
        if side.script is None or side.script.files:
            continue
        try:
            text = side.script.text(inline=True)
        except NotExtracted:
            continue
        if len(text) <= _INLINE:
            facts.inline, facts.inline_place = text, side.place
            return
