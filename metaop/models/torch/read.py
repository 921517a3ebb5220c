"""Exported programs in ``.pt2`` files, from whomever they come.

``torch.export.load`` trusts its file: weights and constants may be pickled, compiled libraries are loaded, sizes are
evaluated as Python, and an operator may be any function below ``torch``. So the file is looked through first, and what
could run code is refused; PyTorch is then given the very bytes that were looked at.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram

from metaop.errors import ModelError

__all__ = ["read"]

#: below the archive's own folder
_MEMBERS = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)|models/model\.json"
    r"|data/(weights|constants)/\w+(\.json)?|data/sample_inputs/model\.pt|extra/.*"
)
_OPERATORS = re.compile(
    r"torch\.ops\.aten\.\w+\.\w+|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|eq|ne|lt|le|gt|ge|and_|or_)"
    r"|torch\.sym_(int|float|max|min|not|ite|sum|sqrt)|math\.(ceil|floor|trunc|sqrt)"
)
_SYMBOL = re.compile(r"[suz]\d+")
_FUNCTION = re.compile(r"Symbol|Integer|Add|Mul|Max|Min|FloorDiv|Mod|PythonMod|CleanDiv|CeilDiv|int_oo")
_EXPRESSION = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.Load),
    *(ast.operator, ast.unaryop, ast.cmpop),
)
_CONTAINERS = {"builtins.tuple", "builtins.list", "builtins.dict", None}
#: arguments that are more than data
_CODE = {"as_graph", "as_custom_obj", "as_operator"}


def read(path: str | os.PathLike[str]) -> ExportedProgram:
    """The program in a file, once nothing in it can run code."""
    where = os.fspath(path)
    try:
        with open(where, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ModelError(f"{where}: {error.strerror or error}") from None
    try:
        _look_through(data)
    except _Unsafe as why:
        raise ModelError(f"{where} is not read: {why}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zipfile.BadZipFile) as error:
        raise ModelError(f"{where} is not an exported program ({type(error).__name__}: {error})") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(io.BytesIO(data))
    except Exception as error:  # whatever a damaged file makes PyTorch raise
        text = " ".join(str(error).split())
        raise ModelError(f"{where}: PyTorch cannot read it ({type(error).__name__}: {text:.300})") from None


class _Unsafe(Exception):
    """What in a file could run code."""


def _look_through(data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [info.filename for info in archive.infolist()]
        if "serialized_exported_program.json" in names:
            raise _Unsafe("it has the format of PyTorch before 2.8, which is pickled; save it again with a newer one")
        if len(set(names)) < len(names):
            raise _Unsafe("it has two members of one name")
        inner = {name.partition("/")[2]: info for name, info in zip(names, archive.infolist(), strict=True)}
        if len({name.partition("/")[0] for name in names}) != 1 or "models/model.json" not in inner:
            raise _Unsafe("it holds no program named 'model'; torch.export.save writes one")
        for name, info in inner.items():
            if not _MEMBERS.fullmatch(name):
                raise _Unsafe(f"its member {name!r} is no part of a plain program")
            if info.compress_type != zipfile.ZIP_STORED:
                raise _Unsafe(f"its member {name!r} is compressed, which PyTorch never does")
        for name, info in inner.items():
            if name.endswith("_config.json"):
                _payloads(json.loads(archive.read(info)))
        _program(json.loads(archive.read(inner["models/model.json"])))
        if sample := inner.get("data/sample_inputs/model.pt"):
            _plain(archive.read(sample))


def _payloads(config: Any) -> None:
    for name, entry in config["config"].items():
        if entry["use_pickle"] is not False or not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"]):
            raise _Unsafe(f"{name!r} is pickled, and unpickling runs whatever the file says")


def _plain(data: bytes) -> None:
    if not data:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.load(io.BytesIO(data), weights_only=True)
    except Exception:
        raise _Unsafe("its sample inputs are pickled objects other than tensors") from None


def _program(program: Any) -> None:
    for key, value in _items(program):
        if key in _CODE and value is not None:
            raise _Unsafe(f"an argument is given {key}")
        if key == "nodes":
            for node in value:
                if not _OPERATORS.fullmatch(node["target"]):
                    raise _Unsafe(f"the operator {node['target']!r} is none of PyTorch's own")
        elif key == "expr_str":
            _expression(value)
        elif key == "range_constraints":
            for symbol in value:
                _expression(symbol)
        elif key in ("in_spec", "out_spec"):
            _containers(json.loads(value)[1])


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every object within, and what it stands for."""
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            yield from found.items()
            stack += found.values()
        elif isinstance(found, list):
            stack += found


def _expression(text: Any) -> None:
    """Sizes are sums and products of symbols; PyTorch evaluates them as Python."""
    try:
        if len(text) > 10_000:
            raise ValueError
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, TypeError, MemoryError):
        raise _Unsafe(f"the size {text!r:.80} is not an expression") from None
    for node in nodes:
        if not _arithmetic(node):
            raise _Unsafe(f"the size {text!r:.80} is more than arithmetic")


def _arithmetic(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return bool(_SYMBOL.fullmatch(node.id) or _FUNCTION.fullmatch(node.id))
    if isinstance(node, ast.Constant):
        # Text names a symbol; SymPy would evaluate any other.
        return isinstance(node.value, bool | int | float) or bool(_SYMBOL.fullmatch(str(node.value)))
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name)
    return isinstance(node, _EXPRESSION) and not isinstance(node, ast.Pow)  # which could be endless


def _containers(spec: Any) -> None:
    """Arguments and results are tuples, lists and dicts; for others PyTorch imports a module that the file names."""
    if spec["type"] not in _CONTAINERS:
        raise _Unsafe(f"its arguments or results are in a {spec['type']!r}")
    context = json.loads(spec["context"]) if isinstance(spec["context"], str) else spec["context"]
    if not (context is None or context == "null" or (isinstance(context, list) and all(map(_key, context)))):
        raise _Unsafe(f"its arguments or results have the keys {context!r:.80}")
    for child in spec["children_spec"]:
        _containers(child)


def _key(value: Any) -> bool:
    return isinstance(value, str | int)
