"""How to make an environment for each framework at each version: one table.

The first row whose framework and version range fit is used. ``requirements`` are what pip installs, with the version
filled in for ``{version}``; ``pythons`` are the Python versions that work, the best first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from metaop.errors import UsageError

__all__ = ["Recipe", "find_recipe"]


@dataclass(frozen=True)
class Recipe:
    """What an environment needs."""

    framework: str
    #: lowest version, and the first one that is too new; ``None`` for no bound
    least: str | None
    below: str | None
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]
    #: what the worker's process environment gets
    variables: dict[str, str] = field(default_factory=dict)
    #: shown when the environment cannot be used for want of something outside of it
    hint: str = ""


_QUIET_TF = {"TF_CPP_MIN_LOG_LEVEL": "3"}
_NEW = ("3.11", "3.12", "3.10", "3.13")

RECIPES = (
    Recipe("mxnet", "1.6", "1.7", ("3.7", "3.8", "3.9", "3.10", "3.11", "3.6"), ("mxnet=={version}", "numpy<1.24")),
    Recipe(
        "mxnet",
        "1.7",
        "2",
        ("3.8", "3.9", "3.10", "3.11", "3.7", "3.6"),
        ("mxnet=={version}", "numpy<1.24"),
        hint="mxnet 1.9 needs the system library libquadmath (Debian: apt-get install libquadmath0)",
    ),
    Recipe("torch", "1.4", "1.8", ("3.7", "3.8", "3.6"), ("torch=={version}", "numpy<1.20")),
    Recipe("torch", "1.8", "1.13", ("3.8", "3.9", "3.7", "3.10"), ("torch=={version}", "numpy<1.24")),
    Recipe("torch", "1.13", "2.3", ("3.10", "3.9", "3.11", "3.8"), ("torch=={version}", "numpy<2")),
    Recipe("torch", "2.3", None, _NEW, ("torch=={version}", "numpy")),
    Recipe(
        "tensorflow", "2.0", "2.4", ("3.7", "3.6"), ("tensorflow=={version}", "numpy<1.20", "protobuf<3.21"), _QUIET_TF
    ),
    Recipe(
        "tensorflow", "2.4", "2.12", ("3.9", "3.8", "3.7"), ("tensorflow-cpu=={version}", "protobuf<3.21"), _QUIET_TF
    ),
    Recipe("tensorflow", "2.12", None, _NEW, ("tensorflow-cpu=={version}",), _QUIET_TF),
    Recipe(
        "onnxruntime",
        "1.6",
        "1.15",
        ("3.8", "3.9", "3.7"),
        ("onnxruntime=={version}", "onnx<1.14", "numpy<1.24", "protobuf<3.21"),
    ),
    Recipe("onnxruntime", "1.15", "1.19", ("3.11", "3.10", "3.9"), ("onnxruntime=={version}", "onnx<1.17", "numpy<2")),
    Recipe("onnxruntime", "1.19", None, _NEW, ("onnxruntime=={version}", "onnx>=1.16", "numpy")),
    Recipe("jax", "0.4.30", "0.5", ("3.11", "3.10", "3.12"), ("jax=={version}", "jaxlib=={version}", "numpy<2.3")),
    Recipe("jax", "0.5", None, ("3.11", "3.12", "3.13"), ("jax=={version}", "jaxlib=={version}", "numpy")),
    # Its bindings are the references themselves, which need Python 3.10 as metaop does.
    Recipe("numpy", "1.22", "1.23.2", ("3.10",), ("numpy=={version}",)),
    Recipe("numpy", "1.23.2", "1.26", ("3.11", "3.10"), ("numpy=={version}",)),
    Recipe("numpy", "1.26", "2.1", ("3.11", "3.12", "3.10"), ("numpy=={version}",)),
    Recipe("numpy", "2.1", None, _NEW, ("numpy=={version}",)),
)


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without local or pre-release parts: ``2.13.0+cpu`` is ``(2, 13, 0)``."""
    match = re.match(r"\d+(\.\d+)*", version)
    if match is None:
        raise UsageError(f"{version!r} is not a version; write, for example, mxnet==1.6.0")
    return tuple(int(n) for n in match.group().split("."))


def find_recipe(framework: str, version: str) -> Recipe:
    """The recipe for a framework at a version; an error that lists the known ones where there is none."""
    number = release(version)
    for recipe in RECIPES:
        if recipe.framework != framework:
            continue
        if recipe.least is not None and number < release(recipe.least):
            continue
        if recipe.below is not None and number >= release(recipe.below):
            continue
        return recipe
    known = [
        f"{r.framework} {r.least} up to below {r.below}" if r.below else f"{r.framework} {r.least} upward"
        for r in RECIPES
        if r.framework == framework
    ]
    if not known:
        names = ", ".join(dict.fromkeys(r.framework for r in RECIPES))
        raise UsageError(f"there is no recipe for an environment of {framework!r}; there are recipes for {names}")
    raise UsageError(f"there is no recipe for {framework}=={version}; there are recipes for {'; '.join(known)}")
