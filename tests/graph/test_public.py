"""The public surface: what is exported is pinned, documented, and its examples are true."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import metaop as mo
from metaop.graph import functional, stubs
from metaop.ops import REGISTRY

ROOT = Path(mo.__file__).resolve().parents[1]

NAMES = [
    "Backend",
    "BackendError",
    "BackendInfo",
    "Constant",
    "DebugReport",
    "DebugSession",
    "FeedError",
    "FrameworkError",
    "GradientError",
    "GraphError",
    "InternalError",
    "MetaOp",
    "MetaopError",
    "Model",
    "ModelError",
    "Node",
    "Operator",
    "Placeholder",
    "Record",
    "Session",
    "UserError",
    "Variable",
    "Verification",
    "__version__",
    "apply",
    "backends",
    "derive",
    "errors",
    "from_keras",
    "from_onnx",
    "from_saved_model",
    "from_torch",
    "graph",
    "load",
    "ops",
    "save",
    "to_onnx",
]

#: packages that need more than NumPy
NAMES_OF_FRAMEWORKS = ("torch", "tensorflow", "tflite", "onnxruntime", "jax", "mxnet")
FRAMEWORKS = tuple(f"metaop.backends.{name}" for name in NAMES_OF_FRAMEWORKS)
OTHERS = ("metaop.cli", "metaop.__main__", "metaop.models", "metaop.testing")


def modules() -> list[str]:
    """Every module of metaop that needs NumPy only."""
    found = ["metaop"]

    def walk(package: ModuleType) -> None:
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if info.name.startswith(FRAMEWORKS + OTHERS):
                continue
            found.append(info.name)
            if info.ispkg:
                walk(importlib.import_module(info.name))

    walk(mo)
    return found


def test_what_is_exported_is_pinned() -> None:
    assert sorted(set(mo.__all__) - set(REGISTRY)) == NAMES
    assert set(REGISTRY) <= set(mo.__all__)
    assert len(set(mo.__all__)) == len(mo.__all__)


def test_everything_exported_is_there() -> None:
    for name in mo.__all__:
        assert hasattr(mo, name), name


def test_nothing_else_is_public() -> None:
    modules_and_annotations = {"annotations", "debug", "types", "cli", "models", "testing", "TYPE_CHECKING"}
    # Names with an @ are pytest's: it rewrites the assertions of distributions that bring a plugin.
    public = {name for name in vars(mo) if not name.startswith(("_", "@"))}
    assert public - set(mo.__all__) <= modules_and_annotations


def test_operators_do_not_hide_other_names() -> None:
    assert not set(REGISTRY) & set(NAMES)
    assert sorted(functional.__all__) == sorted(REGISTRY)


def test_ops_and_backends_are_packages_and_tables() -> None:
    assert mo.ops()["conv2d"] is REGISTRY["conv2d"]
    with pytest.raises(TypeError):
        mo.ops()["mine"] = None
    assert set(mo.backends()) >= {"numpy", "torch", "tensorflow", "onnxruntime", "jax"}
    row = mo.backends()["numpy"]
    assert (row.name, row.available, row.reason, bool(row)) == ("numpy", True, None, True)
    from metaop.backends import get
    from metaop.ops import REGISTRY as same

    assert same is REGISTRY
    assert get("numpy").name == "numpy"


def test_version() -> None:
    assert mo.__version__.count(".") == 2


def test_the_package_is_typed() -> None:
    assert (ROOT / "metaop" / "py.typed").exists()


def test_the_stub_of_the_operators_is_current() -> None:
    written = Path(functional.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert written == stubs.stub_text(), "run python -m metaop.graph.stubs"


@pytest.mark.parametrize("name", REGISTRY)
def test_an_operators_function_shows_what_was_declared(name: str) -> None:
    op, function = REGISTRY[name], getattr(mo, name)
    assert function.__name__ == name
    assert op.doc in function.__doc__
    parameters = inspect.signature(function).parameters
    tensors, attributes = [p.name for p in op.params], list(op.attrs)
    assert list(parameters) == [*tensors, *attributes, "name", "backend"]
    for attribute in [*attributes, "name", "backend"]:
        assert parameters[attribute].kind is inspect.Parameter.KEYWORD_ONLY
    for attribute in op.attrs.values():
        shown = parameters[attribute.name].default
        assert shown is attribute.default if attribute.required else shown == attribute.default


# -- documentation -----------------------------------------------------------------------------------------------------


def undocumented(thing: Any, name: str) -> list[str]:
    """What of a public thing, and of its public members, has no docstring."""
    lacking = [] if inspect.getdoc(thing) else [name]
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if member.startswith("_"):
                continue
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            if (callable(value) or isinstance(value, property)) and not inspect.getdoc(getattr(thing, member)):
                lacking.append(f"{name}.{member}")
    return lacking


def test_everything_public_is_documented() -> None:
    lacking = [gap for name in mo.__all__ if name != "__version__" for gap in undocumented(getattr(mo, name), name)]
    lacking += [gap for name in mo.errors.__all__ for gap in undocumented(getattr(mo.errors, name), name)]
    assert lacking == []


def test_every_module_and_all_that_it_offers_is_documented() -> None:
    lacking = []
    for name in modules():
        module = importlib.import_module(name)
        if not module.__doc__:
            lacking.append(name)
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                lacking += undocumented(thing, f"{name}.{public}")
    assert lacking == []


# -- examples ----------------------------------------------------------------------------------------------------------

RUN_DOCTESTS = """
import doctest, importlib, sys
attempted = failed = 0
for name in sys.argv[1:]:
    result = doctest.testmod(importlib.import_module(name))
    attempted, failed = attempted + result.attempted, failed + result.failed
print("examples:", attempted)
sys.exit(failed > 0)
"""


def test_examples_in_docstrings_are_true() -> None:
    # In a process of its own, for examples show names that are numbered from 1.
    done = subprocess.run(
        [sys.executable, "-c", RUN_DOCTESTS, *modules()],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.rpartition("examples: ")[2]) > 40
