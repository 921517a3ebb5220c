"""Which backends exist: names, aliases, distributions, extras; and how a spec becomes a backend.

Nothing here imports a framework. A spec is ``[isolated:]name[==version][@device]``, for example ``torch``,
``torch@cuda:0`` or ``mxnet==1.6.0``. It runs in this process where the framework, at exactly that version if one is
given, is installed here; otherwise in a worker process in an environment of its own; ``isolated:`` asks for a worker
in any case. Third parties add backends through the entry-point group ``metaop.backends``: an entry point named after
the backend that loads a :class:`~metaop.backends.base.Backend` subclass.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metaop.backends.base import Backend, Variant
from metaop.errors import (
    BackendError,
    FrameworkError,
    InternalError,
    MissingFrameworkError,
    UnknownBackendError,
    UnsupportedOpError,
    UsageError,
)
from metaop.ops import REGISTRY

__all__ = ["BackendInfo", "backends", "canonical", "derive", "get"]


@dataclass(frozen=True)
class Entry:
    """A framework that metaop can bind to."""

    name: str
    module: str
    #: what is imported, and the distributions that bring it, the usual one first
    package: str
    distributions: tuple[str, ...]
    extra: str | None
    aliases: tuple[str, ...] = ()
    #: the framework that an isolated environment has to hold, where it is not the backend itself
    framework: str | None = None
    #: the version to make an environment for where none is asked for
    default_version: str | None = None

    @property
    def environment(self) -> str:
        """The framework whose environments serve this backend."""
        return self.framework or self.name


CATALOG = {
    entry.name: entry
    for entry in (
        Entry("numpy", "metaop.backends.numpy", "numpy", ("numpy",), None, ("np",)),
        Entry("torch", "metaop.backends.torch", "torch", ("torch",), "torch", ("pytorch",)),
        Entry(
            "tensorflow",
            "metaop.backends.tensorflow",
            "tensorflow",
            ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-macos"),
            "tensorflow",
            ("tf",),
        ),
        Entry(
            "tflite",
            "metaop.backends.tflite",
            "tensorflow",
            ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-macos"),
            "tensorflow",
            ("tensorflow-lite", "tf-lite"),
            framework="tensorflow",
        ),
        Entry(
            "onnxruntime",
            "metaop.backends.onnxruntime",
            "onnxruntime",
            ("onnxruntime", "onnxruntime-gpu"),
            "onnxruntime",
            ("ort",),
        ),
        Entry("jax", "metaop.backends.jax", "jax", ("jax",), "jax"),
        Entry("mxnet", "metaop.backends.mxnet", "mxnet", ("mxnet",), "mxnet", ("mx",), default_version="1.9.1"),
    )
}

ISOLATED = "isolated:"
#: set to 1 to have missing environments made when they are first used
CREATE = "METAOP_CREATE_ENVIRONMENTS"

ENTRY_POINTS = "metaop.backends"

_lock = threading.RLock()
_loaded: dict[str, Backend] = {}
_derived: dict[str, Backend] = {}
_checked: set[str] = set()

_SPEC = re.compile(r"(?P<name>[A-Za-z][\w.\-]*?)(==(?P<version>[^@=\s]+))?(@(?P<device>[^@\s]+))?")


@dataclass(frozen=True)
class BackendInfo:
    """One row of ``mo.backends()``."""

    name: str
    version: str | None
    available: bool
    reason: str | None
    aliases: tuple[str, ...] = ()
    #: where it runs: in this ``process``, or in an ``environment`` of its own
    place: str = "process"

    def __bool__(self) -> bool:
        return self.available


def _aliases() -> dict[str, str]:
    return {alias: entry.name for entry in CATALOG.values() for alias in (entry.name, *entry.aliases)}


def _plugins() -> dict[str, importlib.metadata.EntryPoint]:
    return {p.name: p for p in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def parse_spec(spec: str) -> tuple[str, str | None, str | None]:
    """Name (canonical), version and device of a spec without the prefix ``isolated:``."""
    match = _SPEC.fullmatch(spec.strip()) if isinstance(spec, str) else None
    if match is None:
        raise UnknownBackendError(
            f"{spec!r} is not a backend spec; write [isolated:]name[==version][@device], "
            "for example 'torch' or 'torch@cuda:0'"
        )
    name = match["name"]
    if name not in _derived:
        name = _aliases().get(name.lower(), name)
    if name not in _derived and name not in CATALOG and name not in _plugins():
        known = sorted({*_aliases(), *_derived, *_plugins()})
        near = difflib.get_close_matches(match["name"].lower(), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UnknownBackendError(f"unknown backend {match['name']!r}{hint} Known: {', '.join(known)}")
    return name, match["version"], match["device"]


def _split(spec: str) -> tuple[str, bool]:
    """A spec without its prefix, and whether it had it."""
    if isinstance(spec, str) and spec.strip().startswith(ISOLATED):
        return spec.strip()[len(ISOLATED) :], True
    return spec, False


def canonical(spec: str) -> str:
    """The spec with aliases resolved: ``pytorch@cuda:0`` becomes ``torch@cuda:0``; raises for an unknown name.

    >>> canonical("pytorch")
    'torch'
    """
    rest, isolated = _split(spec)
    name, version, device = parse_spec(rest)
    return (
        (ISOLATED if isolated else "") + name + (f"=={version}" if version else "") + (f"@{device}" if device else "")
    )


def installed_version(entry: Entry) -> str | None:
    """The version of the framework installed here, without importing it; ``None`` where it is not."""
    if importlib.util.find_spec(entry.package) is None:
        return None
    for distribution in entry.distributions:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _install_hint(entry: Entry) -> str:
    return f'pip install "metaop[{entry.extra}]"' if entry.extra else f"pip install {entry.distributions[0]}"


def get(spec: str | Backend) -> Backend:
    """The backend of a spec, loaded on first use.

    >>> get("np").name
    'numpy'
    """
    if isinstance(spec, Backend):
        return spec
    found = _loaded.get(spec)
    if found is not None:
        return found
    key = canonical(spec)
    rest, isolated = _split(key)
    name, version, device = parse_spec(rest)
    with _lock:
        if name in _derived:
            if device or version or isolated:
                raise UsageError(f"{name!r} is a derived backend: device, version and place are those of its base")
            return _derived[name]
        if key not in _loaded:
            _loaded[key] = _load(key, name, version, device, isolated)
        return _loaded[key]


def _load(key: str, name: str, version: str | None, device: str | None, isolated: bool) -> Backend:
    if name not in CATALOG:
        if isolated or version:
            raise UsageError(f"{name!r} comes from another package: it runs in this process, at the version installed")
        return _checked_bindings(_plugins()[name].load()(device))
    entry = CATALOG[name]
    installed = installed_version(entry)
    here = installed is not None and (version is None or same_version(version, installed))
    if here and not isolated:
        return _load_here(entry, str(installed), device)
    from metaop.backends.isolation import environments
    from metaop.backends.isolation.backend import IsolatedBackend
    from metaop.backends.isolation.process import Launch

    if here:
        return IsolatedBackend(key, Launch(key, sys.executable, entry.module, device))
    environment = environments.find(entry.environment, version)
    wanted = version or entry.default_version
    if environment is None and wanted is not None and os.environ.get(CREATE, "0") not in ("", "0"):
        environment = environments.create(f"{entry.environment}=={wanted}", report=_say)
    if environment is None:
        raise MissingFrameworkError(_remedies(entry, version, installed))
    launch = Launch(key, environment.interpreter, entry.module, device, environment.process_variables)
    try:
        return IsolatedBackend(key, launch)
    except (BackendError, FrameworkError) as error:  # it does not import, or ends the process that imports it
        name = environment.name
        raise BackendError(
            f'{error}. To make its environment anew: metaop env remove "{name}", then metaop env create "{name}"'
        ) from error


def _say(text: str) -> None:
    print(f"metaop: {text}", file=sys.stderr, flush=True)


def _remedies(entry: Entry, version: str | None, installed: str | None) -> str:
    """What to say where a framework is neither installed here nor in an environment of its own."""
    wanted = f"{entry.name}=={version}" if version else entry.name
    if installed is None:
        lack = f"backend {wanted!r} needs {entry.distributions[0]}, which is not installed here"
        remedy = _install_hint(entry)
    else:
        lack = f"backend {wanted!r} is not the version installed here ({installed})"
        remedy = f'pip install "{entry.distributions[0]}=={version}"'
    make = version or entry.default_version or installed or "VERSION"
    return (
        f"{lack}, and has no environment of its own. Install it here with: {remedy} or beside with: "
        f'metaop env create "{entry.environment}=={make}" (or set {CREATE}=1 to have it made when it is first used)'
    )


def same_version(wanted: str, installed: str) -> bool:
    """Whether both name one release; the local part of what is installed (``2.13.0+cpu``) counts only if asked for."""
    return wanted == installed or wanted == installed.partition("+")[0]


def _load_here(entry: Entry, installed: str, device: str | None) -> Backend:
    try:
        backend_class = importlib.import_module(entry.module).BACKEND
    except ImportError as error:
        raise MissingFrameworkError(
            f"backend {entry.name!r}: {entry.package} {installed} is installed but does not import ({error}). "
            f"Reinstall it with: {_install_hint(entry)}"
        ) from error
    return _checked_bindings(backend_class(device))


def _checked_bindings(backend: Backend) -> Backend:
    """Bindings are checked against the declarations once, where both can be seen."""
    if backend.name not in _checked:
        backend.bindings.check(
            {
                op.name: ([("*" if p.variadic else "") + p.name for p in op.params], list(op.attrs))
                for op in REGISTRY.values()
            }
        )
        _checked.add(backend.name)
    return backend


def derive(
    base: str | Backend,
    *,
    name: str,
    forward: Mapping[str, Callable[..., Any]] | None = None,
    gradient: Mapping[str, Callable[..., Sequence[Any]]] | None = None,
) -> Backend:
    """Register a backend that is ``base`` with some bindings replaced: a fix, a custom kernel or an injected fault.

    ``forward[op]`` takes and returns the base's native tensors, with every attribute as a keyword. ``gradient[op]``
    is ``fn(grad_output, output, *inputs, **attrs)`` and returns a tuple with one gradient (or ``None``) per input. A
    name may be registered again; sessions made before keep the old meaning.

    >>> import metaop as mo
    >>> mo.derive("numpy", name="numpy-off", forward={"relu": lambda x: x}).name
    'numpy-off'
    """
    if not isinstance(name, str) or _SPEC.fullmatch(name) is None or "==" in name or "@" in name:
        raise UsageError(f"derive: {name!r} cannot name a backend; use letters, digits, '-', '_' and '.'")
    if name.lower() in _aliases() or name in _plugins():
        raise UsageError(f"derive: {name!r} is the name of a framework; choose another")
    for kind, given in (("forward", forward or {}), ("gradient", gradient or {})):
        for op, function in given.items():
            if op not in REGISTRY:
                near = difflib.get_close_matches(op, list(REGISTRY), n=1)
                raise UsageError(f"derive: {kind}[{op!r}] names no meta operator" + (f"; {near[0]!r}?" if near else ""))
            if not callable(function):
                raise UsageError(f"derive: {kind}[{op!r}] must be a function; got {function!r}")
    parent = get(base)
    if not parent.in_process:
        raise UsageError(
            f"derive: {parent.spec!r} runs in a process of its own, where functions cannot follow; derive in process"
        )
    variant = Variant(parent, name, forward or {}, gradient or {})
    with _lock:
        _derived[name] = variant
    return variant


def backends() -> dict[str, BackendInfo]:
    """Every known backend by name, with version, availability and, if unavailable, the reason and the remedy.

    >>> import metaop as mo
    >>> mo.backends()["numpy"].available
    True
    """
    from metaop.backends.isolation.environments import environments
    from metaop.backends.isolation.recipes import release

    rows: dict[str, BackendInfo] = {}
    made = sorted(environments(), key=lambda e: release(e.version))
    for entry in CATALOG.values():
        version = installed_version(entry)
        apart = [e for e in made if e.framework == entry.environment]
        if version is not None:
            rows[entry.name] = BackendInfo(entry.name, version, True, None, entry.aliases)
        elif apart:
            rows[entry.name] = BackendInfo(entry.name, apart[-1].version, True, None, entry.aliases, "environment")
        else:
            rows[entry.name] = BackendInfo(entry.name, None, False, _remedies(entry, None, None), entry.aliases)
        for environment in apart:
            spec = f"{entry.name}=={environment.version}"
            rows[spec] = BackendInfo(spec, environment.version, True, None, (), "environment")
    for name, plugin in _plugins().items():
        rows[name] = BackendInfo(name, plugin.dist.version if plugin.dist else None, True, None)
    for name, backend in _derived.items():
        rows[name] = BackendInfo(name, backend.version(), True, None)
    return rows


def support(backend: Backend, op: str) -> tuple[str, str | None]:
    """``native``, ``derived``, ``custom`` or ``forward`` (no gradient exists), or ``unsupported`` with the reason."""
    if op not in REGISTRY:
        raise InternalError(f"no meta operator {op!r}")
    try:
        kind, reason = backend.support(op)
    except UnsupportedOpError as error:
        return "unsupported", str(error)
    if kind != "unsupported" and not REGISTRY[op].differentiable:
        return "forward", None
    return kind, reason
