"""Imports go downward only, and files that run in isolated environments stay within Python 3.6."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import metaop

PACKAGE = Path(metaop.__file__).resolve().parent

#: from the bottom to the top; ``metaop`` itself is the public surface, which only the command line stands upon
LAYERS = (
    ("errors", "_version"),
    ("types",),
    ("ops",),
    ("backends",),
    ("graph",),
    ("debug",),
    ("models",),
    ("testing",),
    ("metaop",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}

FILES = sorted(PACKAGE.rglob("*.py"))
IDS = [str(path.relative_to(PACKAGE)) for path in FILES]

#: run by the session although they stand among files that run in workers
SESSION_SIDE = {
    f"backends/isolation/{name}.py" for name in ("__init__", "backend", "process", "environments", "recipes")
}


def module_name(path: Path) -> str:
    parts = ("metaop", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in FILES}


def layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "metaop"


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Every module of metaop that is imported anywhere in the file, functions and type-checking blocks included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "metaop":
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                base = ".".join(package[: len(package) - node.level + 1] + ([base] if base else []))
            if base.partition(".")[0] != "metaop":
                continue
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole if whole in MODULES else base), node.lineno


def upward(source: str, module: str, is_package: bool) -> list[str]:
    """The imports of a file that lead to a higher layer."""
    own = HEIGHT[layer(module)]
    return [
        f"line {line}: {module} imports {found}"
        for found, line in imports(ast.parse(source), module, is_package)
        if HEIGHT[layer(found)] > own
    ]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_go_downward_only(path: Path) -> None:
    assert layer(module_name(path)) in HEIGHT, "a new part of metaop needs a place in LAYERS"
    assert upward(path.read_text(encoding="utf-8"), module_name(path), path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("metaop.ops.spec", "from metaop.backends import get", 1),
        ("metaop.types", "import metaop.ops.spec", 1),
        ("metaop.types", "import metaop", 1),
        ("metaop.errors", "from metaop import types", 1),
        ("metaop.graph.nodes", "def f():\n    from metaop.debug import DebugSession", 1),
        ("metaop.backends.base", "def f():\n    from metaop.backends.derived import x", 0),
        ("metaop.graph.nodes", "from ..debug import session", 1),
        ("metaop.graph.nodes", "from ..ops import REGISTRY\nfrom . import order", 0),
        ("metaop.debug.session", "import metaop as mo", 1),
        ("metaop.cli.commands", "import metaop as mo", 0),
        ("metaop.graph.nodes", "from metaop import Session", 1),
    ],
)
def test_the_test_of_layers_sees_what_it_should(module: str, source: str, found: int) -> None:
    assert len(upward(source, module, False)) == found


def test_each_layer_is_there() -> None:
    present = {layer(module_name(path)) for path in FILES}
    assert present >= {"errors", "types", "ops", "backends", "graph", "debug", "cli", "metaop"}


def test_only_bindings_import_frameworks() -> None:
    """Outside of ``backends/<framework>`` and ``models`` no file so much as mentions a framework in an import."""
    frameworks = {"torch", "tensorflow", "onnxruntime", "onnx", "jax", "mxnet"}
    for path in FILES:
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] == "models" or (relative.parts[0] == "backends" and len(relative.parts) > 2):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert not {n.partition(".")[0] for n in names} & frameworks, f"{relative}: {names}"


# -- files that run in workers -----------------------------------------------------------------------------------------


def in_workers(path: Path) -> bool:
    relative = path.relative_to(PACKAGE)
    if str(relative) in ("errors.py", "backends/bind.py", "backends/base.py", "backends/resizing.py"):
        return True
    if relative.parts[0] != "backends" or len(relative.parts) != 3 or relative.parts[1] == "numpy":
        return False
    return str(relative) not in SESSION_SIDE


WORKER_FILES = [path for path in FILES if in_workers(path)]
WORKER_IDS = [str(path.relative_to(PACKAGE)) for path in WORKER_FILES]
NEWER_MODULES = {"dataclasses", "contextvars", "graphlib", "tomllib", "zoneinfo"}
NEWER_SUBMODULES = {"importlib.metadata", "importlib.resources", "multiprocessing.shared_memory"}
NEWER_NAMES = {
    "typing": {"Final", "Literal", "Protocol", "TypedDict", "ParamSpec", "TypeAlias", "Annotated", "Self"},
    "functools": {"cache", "cached_property", "singledispatchmethod"},
    "math": {"prod", "comb", "dist", "isqrt", "lcm", "cbrt"},
    "itertools": {"pairwise", "batched"},
    "contextlib": {"nullcontext", "chdir"},
    "time": {"perf_counter_ns", "time_ns", "monotonic_ns"},
}
NEWER_METHODS = {"removeprefix", "removesuffix"}
BUILTIN_GENERICS = {"dict", "frozenset", "list", "set", "tuple", "type"}


def too_new(source: str) -> list[str]:
    """What Python 3.6 would not take."""
    try:
        tree = ast.parse(source, feature_version=(3, 6))
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    found = []
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.ImportFrom):
            if node.module == "__future__":
                found += [f"line {line}: __future__ {a.name}" for a in node.names if a.name == "annotations"]
            names = {a.name for a in node.names}
            if {node.module, *(f"{node.module}.{n}" for n in names)} & (NEWER_MODULES | NEWER_SUBMODULES):
                found.append(f"line {line}: imports {node.module}")
            found += [f"line {line}: {node.module}.{n}" for n in names & NEWER_NAMES.get(node.module or "", set())]
        elif isinstance(node, ast.Import):
            names = {a.name for a in node.names} & (NEWER_MODULES | NEWER_SUBMODULES)
            found += [f"line {line}: imports {n}" for n in names]
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in NEWER_NAMES.get(owner, set()) or node.attr in NEWER_METHODS:
                found.append(f"line {line}: {owner}.{node.attr}")
        elif isinstance(node, ast.arguments) and node.posonlyargs:
            found.append(f"line {node.posonlyargs[0].lineno}: positional-only parameters")
        elif isinstance(node, ast.NamedExpr | ast.Match):
            found.append(f"line {line}: {type(node).__name__}")
        elif isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called == "zip" and any(k.arg == "strict" for k in node.keywords):
                found.append(f"line {line}: zip(strict=)")
            if any(k.arg in ("capture_output", "text") for k in node.keywords):
                found.append(f"line {line}: a keyword of subprocess that came with 3.7")
        for annotation in _annotations(node):
            for part in ast.walk(annotation):
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
                    found.append(f"line {line}: a union written with |")
                generic = part.value if isinstance(part, ast.Subscript) else None
                if isinstance(generic, ast.Name) and generic.id in BUILTIN_GENERICS:
                    found.append(f"line {line}: {generic.id}[...] as an annotation")
    return found


def _annotations(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.FunctionDef):
        given = [*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        return [a for a in [node.returns, *(p.annotation for p in given if p is not None)] if a is not None]
    return [node.annotation] if isinstance(node, ast.AnnAssign) else []


@pytest.mark.parametrize("path", WORKER_FILES, ids=WORKER_IDS)
def test_files_that_run_in_workers_are_python_36(path: Path) -> None:
    assert too_new(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations",
        "if (x := 3):\n    pass",
        "match x:\n    case 1:\n        pass",
        "def f(a, /):\n    pass",
        "def f(a: int | None):\n    pass",
        "def f() -> list[int]:\n    pass",
        "x: dict[str, int] = {}",
        "zip(a, b, strict=True)",
        "from dataclasses import dataclass",
        "import importlib.metadata",
        "from importlib import metadata",
        "from typing import Literal",
        "import math\nmath.prod([1])",
        "'a'.removeprefix('b')",
        "async def f():\n    return [x async for x in y if await z]\nwith (open(a) as b, open(c) as d):\n    pass",
    ],
)
def test_the_test_of_python_36_sees_what_it_should(source: str) -> None:
    assert too_new(source)


def test_what_runs_in_workers_is_found() -> None:
    assert set(WORKER_IDS) >= {
        "errors.py",
        "backends/base.py",
        "backends/bind.py",
        "backends/torch/adapter.py",
        "backends/onnxruntime/graph.py",
        "backends/isolation/worker.py",
        "backends/isolation/protocol.py",
    }
    assert not any(name.startswith("backends/numpy") for name in WORKER_IDS)


@pytest.mark.parametrize("path", WORKER_FILES, ids=WORKER_IDS)
def test_files_that_run_in_workers_import_little_of_metaop(path: Path) -> None:
    module = module_name(path)
    own = ".".join(module.split(".")[:3])
    allowed = {"metaop.errors", "metaop.backends.base", "metaop.backends.bind", "metaop.backends.resizing"}
    # TFLite converts TensorFlow's bindings; gradient rules exist in the session only, and base imports them when asked.
    siblings = {"tflite": "tensorflow", "base": "derived"}
    near = {own, "metaop.backends." + siblings[own.split(".")[-1]]} if own.split(".")[-1] in siblings else {own}
    for found, line in imports(ast.parse(path.read_text(encoding="utf-8")), module, path.name == "__init__.py"):
        package = ".".join(found.split(".")[:3])
        assert found in allowed or package in near, f"line {line}: {module} imports {found}"


def test_base_imports_the_gradient_rules_inside_one_function_only() -> None:
    tree = ast.parse((PACKAGE / "backends/base.py").read_text(encoding="utf-8"))
    inside = [
        node.module
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
    ]
    assert inside == ["metaop.backends.derived"]
