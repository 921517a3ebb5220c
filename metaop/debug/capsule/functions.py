"""Functions that users gave to ``mo.derive``, written down so that they run in a script of their own."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from metaop.debug.capsule.data import array_literal, literal
from metaop.debug.capsule.source import Edit, NotExtracted, Writer, edited, global_names, plain_edits

__all__ = ["write_function"]

#: larger arrays are not written into a script
_MOST = 1000


def write_function(writer: Writer, function: Callable[..., Any], name: str, packages: frozenset[str]) -> str:
    """Write a function down, with all that it refers to; what it is called there.

    It may refer to plain values, small arrays, other such functions, and whatever is importable from ``packages`` or
    the standard library. Anything else is :class:`NotExtracted`, with the reason.
    """
    return _Functions(writer, packages).write(inspect.unwrap(function), name)


class _Functions:
    def __init__(self, writer: Writer, packages: frozenset[str]) -> None:
        self.writer = writer
        self.packages = packages
        self._names: dict[Any, str] = {}

    def write(self, function: Any, name: str) -> str:
        if isinstance(function, functools.partial):
            inner = self.write(inspect.unwrap(function.func), name)
            given = [self._value(a, "an argument") for a in function.args]
            given += [f"{k}={self._value(v, k)}" for k, v in function.keywords.items()]
            return f"{self.writer.add_import('import functools', 'functools')}.partial({', '.join([inner, *given])})"
        imported = self._importable(function)
        if imported is not None:
            return imported
        if not isinstance(function, types.FunctionType):
            raise NotExtracted(f"the function given for {name!r} is {type(function).__name__}, not a Python function")
        if function in self._names:
            return self._names[function]
        lines, node = _source(function, name)
        called = self._names[function] = self.writer.add(name, function)
        scope = _scope(function)
        edits = plain_edits(lines, node)
        for mention in global_names(node):
            if lines[mention.lineno - 1][mention.col_offset : mention.end_col_offset] != mention.id.encode():
                raise NotExtracted(f"{mention.id!r} stands within a formatted string of {name!r}")
            text = self._name(mention.id, scope, name)
            if text != mention.id:
                at = (mention.lineno, mention.col_offset)
                edits.append(Edit(at, (mention.lineno, int(mention.end_col_offset or 0)), text))
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        if isinstance(node, ast.Lambda):
            text = edited(lines, (node.lineno, node.col_offset), end, edits)
            # In parentheses, for it may go over several lines.
            self.writer.pieces.append(f"{called} = ({text})" if "\n" in text else f"{called} = {text}")
            return called
        head = (node.lineno, node.col_offset + len("def "))
        edits.append(Edit(head, (head[0], head[1] + len(node.name.encode())), called))
        self.writer.pieces.append(edited(lines, (node.lineno, node.col_offset), end, edits))
        return called

    def _name(self, name: str, scope: dict[str, Any], where: str) -> str:
        if name not in scope:
            raise NotExtracted(f"{where!r} refers to {name!r}, which has no value")
        value = scope[name]
        if isinstance(value, types.BuiltinFunctionType | type) and value.__module__ == "builtins":
            return name
        return self._value(value, name)

    def _value(self, value: Any, name: str) -> str:
        if isinstance(value, types.ModuleType):
            return self._module(value, name)
        if isinstance(value, types.FunctionType | functools.partial):
            return self.write(inspect.unwrap(value), name)
        if isinstance(value, np.ndarray) and value.size <= _MOST and value.dtype.kind in "biuf":
            self.writer.add_import("import numpy as np", "np")
            return array_literal(value)
        imported = self._importable(value)
        if imported is not None:
            return imported
        try:
            text = literal(value)
        except TypeError as error:
            raise NotExtracted(f"it refers to {name!r}, and {error}") from None
        if "np." in text:
            self.writer.add_import("import numpy as np", "np")
        return text

    def _module(self, module: types.ModuleType, name: str) -> str:
        if not self._allowed(module.__name__):
            raise NotExtracted(f"it refers to the module {module.__name__!r}, which a plain script has not")
        if module.__name__ == name:
            return self.writer.add_import(f"import {name}", name)
        return self.writer.add_import(f"import {module.__name__} as {name}", name)

    def _importable(self, value: Any) -> str | None:
        """The import of something that a package has under its own name."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if not isinstance(module, str) or not isinstance(name, str) or not self._allowed(module):
            return None
        if not name.isidentifier() or getattr(importlib.import_module(module), name, None) is not value:
            return None
        return self.writer.add_import(f"from {module} import {name}", name)

    def _allowed(self, module: str) -> bool:
        package = module.partition(".")[0]
        return package != "__main__" and (package in self.packages or package in sys.stdlib_module_names)


def _scope(function: types.FunctionType) -> dict[str, Any]:
    found = inspect.getclosurevars(function)
    scope = {**found.builtins, **function.__globals__, **found.nonlocals}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            scope.pop(name, None)
    builtin = function.__globals__.get("__builtins__", {})
    return {**(builtin if isinstance(builtin, dict) else vars(builtin)), **scope}


def _source(function: types.FunctionType, name: str) -> tuple[list[bytes], Any]:
    """The lines of the file, and the node of the function in it."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        text = ""
    if not text:
        raise NotExtracted(f"the source of the function given for {name!r} is not available")
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        named = getattr(node, "name", "<lambda>") == code.co_name
        if named and first == code.co_firstlineno and _parameters(node) == _code_parameters(code):
            found.append(node)
    if len(found) > 1:
        found = [n for n in found if _compiled(n) == (code.co_code, _plain_constants(code))]
    if len(found) != 1:
        raise NotExtracted(f"the source of the function given for {name!r} cannot be told from others on its line")
    if getattr(found[0], "decorator_list", []):
        raise NotExtracted(f"the function given for {name!r} is decorated")
    return text.encode().splitlines(keepends=True), found[0]


def _parameters(node: Any) -> list[str]:
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *([a.vararg] if a.vararg else []), *([a.kwarg] if a.kwarg else [])]
    return [p.arg for p in every]


def _code_parameters(code: types.CodeType) -> list[str]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return list(code.co_varnames[:count])


def _plain_constants(code: types.CodeType) -> tuple[Any, ...]:
    return tuple(repr(c) for c in code.co_consts if not isinstance(c, types.CodeType))


def _compiled(node: Any) -> tuple[bytes, tuple[Any, ...]] | None:
    """The byte code of a lambda, to tell it from others; ``None`` for what is not one."""
    if not isinstance(node, ast.Lambda):
        return None
    outer = compile(ast.Expression(node), "<lambda>", "eval")
    inner = next(c for c in outer.co_consts if isinstance(c, types.CodeType))
    return inner.co_code, _plain_constants(inner)
