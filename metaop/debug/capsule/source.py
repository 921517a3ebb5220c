"""Functions taken out of their files, with all that they need, as one piece of Python that stands on its own.

Files are read, not imported: the bindings of an isolated framework could not be. What is written is the source as it
stands, comments and all, with small edits: annotations and metaop's decorators go, metaop's exceptions become built-in
ones, and names that two files both use, or that would hide a built-in, get an underscore.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Edit", "Extraction", "Module", "NotExtracted", "Writer", "edited", "global_names", "plain_edits"]

#: decorators and wrappers that change nothing of what is computed
TRANSPARENT = frozenset(["bind", "where_kernels_exist", "uncompiled", "before", "meta_op"])
#: methods that add to a declaration, and nothing to what is computed
DECLARING = frozenset(["vjp", "samples", "rejects"])
#: what metaop's exceptions become
EXCEPTIONS = {
    "UnsupportedOpError": "NotImplementedError",
    "AttributeValueError": "ValueError",
    "ShapeError": "ValueError",
    "UsageError": "ValueError",
    "UserError": "ValueError",
    "DtypeError": "TypeError",
    "InternalError": "AssertionError",
}
_ROOT = Path(__file__).resolve().parents[2]


class NotExtracted(Exception):
    """Why something cannot be taken out of its file."""


# -- which names are global --------------------------------------------------------------------------------------------


def _bound_in(body: list[ast.stmt]) -> set[str]:
    """The names that a function's or module's own statements bind, without those of nested scopes."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            return
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in body:
        visit(statement)
    return found


def _arguments(args: ast.arguments) -> set[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {a.arg for a in every if a is not None}


def global_names(node: ast.AST) -> list[ast.Name]:
    """The mentions of global and built-in names in a statement or expression, annotations left out."""
    found: list[ast.Name] = []

    def visit(node: ast.AST | None, local: frozenset[str]) -> None:
        if node is None:
            return
        if isinstance(node, ast.Name):
            if node.id not in local:
                found.append(node)
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            inner = node.args
            for part in [*inner.defaults, *inner.kw_defaults, *getattr(node, "decorator_list", [])]:
                visit(part, local)
            inside = local | _arguments(inner)
            if isinstance(node, ast.Lambda):
                visit(node.body, inside)
                return
            for statement in node.body:
                visit(statement, inside | _bound_in(node.body))
        elif isinstance(node, ast.ClassDef):
            for part in [*node.bases, *node.decorator_list]:
                visit(part, local)
            own = frozenset(local | _bound_in(node.body))
            for statement in node.body:
                visit(statement, local if isinstance(statement, ast.FunctionDef) else own)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            seen = set(local)
            for generator in node.generators:
                visit(generator.iter, frozenset(seen))
                seen |= {n.id for n in ast.walk(generator.target) if isinstance(n, ast.Name)}
                for test in generator.ifs:
                    visit(test, frozenset(seen))
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for part in parts:
                visit(part, frozenset(seen))
        elif isinstance(node, ast.AnnAssign):
            visit(node.target, local)
            visit(node.value, local)
        else:
            for child in ast.iter_child_nodes(node):
                visit(child, local)

    visit(node, frozenset())
    return found


# -- text --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    """A place in a text, as line and column, and what is put there."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def _start(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def edited(lines: list[bytes], start: tuple[int, int], end: tuple[int, int], edits: list[Edit]) -> str:
    """The text from ``start`` to ``end``, edited and without the indentation of its first line.

    Columns count bytes, as those of ``ast`` do.
    """
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))

    def at(place: tuple[int, int]) -> int:
        return offsets[place[0] - 1] + place[1]

    whole = b"".join(lines)
    parts, here = [], at(start)
    for edit in sorted(edits, key=lambda e: e.start):
        if at(edit.start) < here:
            continue  # within one that was made already
        parts += [whole[here : at(edit.start)], edit.text.encode()]
        here = at(edit.end)
    parts.append(whole[here : at(end)])
    text = b"".join(parts).decode()
    margin = " " * start[1]
    return "\n".join(line[len(margin) :] if line.startswith(margin) else line for line in text.split("\n"))


def plain_edits(lines: list[bytes], node: ast.AST) -> list[Edit]:
    """Edits that take annotations away, which old Pythons need not understand."""
    edits = []
    for part in ast.walk(node):
        if isinstance(part, ast.arguments):
            positional = [*part.posonlyargs, *part.args]
            defaults: dict[ast.arg, ast.expr | None] = dict(
                zip(positional[len(positional) - len(part.defaults) :], part.defaults, strict=True)
            )
            defaults.update(zip(part.kwonlyargs, part.kw_defaults, strict=True))
            for arg in [*positional, *part.kwonlyargs, part.vararg, part.kwarg]:
                if arg is not None and arg.annotation is not None:
                    default = defaults.get(arg)
                    end, text = (_end(arg), arg.arg) if default is None else (_start(default), arg.arg + "=")
                    edits.append(Edit(_start(arg), end, text))
        elif isinstance(part, ast.FunctionDef) and part.returns is not None:
            line, column = _start(part.returns)
            before = lines[line - 1][:column].rstrip()
            if not before.endswith(b"->"):
                raise NotExtracted(f"the annotation of what {part.name} returns is on a line of its own")
            edits.append(Edit((line, len(before[:-2].rstrip())), _end(part.returns), ""))
        elif isinstance(part, ast.AnnAssign) and part.value is not None:
            edits.append(Edit(_end(part.target), _end(part.annotation), ""))
    return edits


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass
class Module:
    """One file's top level: which statements define, import and change which names."""

    name: str
    lines: list[bytes]
    tree: ast.Module
    #: numbers that decide which branch of a top-level ``if`` holds
    facts: Mapping[str, Any]
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None, str]] = field(default_factory=dict)
    #: imports of submodules, by the name of the package that they are reached through
    submodules: dict[str, list[str]] = field(default_factory=dict)
    changes: dict[str, list[ast.stmt]] = field(default_factory=dict)
    #: every statement that holds, with the values of the loop variables around it
    statements: list[tuple[ast.stmt, dict[str, Any]]] = field(default_factory=list)

    @classmethod
    def read(cls, name: str, facts: Mapping[str, Any]) -> Module:
        """The module of metaop with this dotted name."""
        path = _ROOT.joinpath(*name.split(".")[1:])
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        text = path.read_bytes()
        module = cls(name, text.splitlines(keepends=True), ast.parse(text), facts)
        module._survey(module.tree.body, {})
        return module

    def _survey(self, body: list[ast.stmt], loop: dict[str, Any]) -> None:
        for node in body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    text = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                    if "." in alias.name and alias.asname is None:
                        text = f"import {bound}"
                    self.imports.setdefault(bound, (alias.name, None, text))
                    if "." in alias.name and alias.asname is None:
                        self.submodules.setdefault(bound, []).append(f"import {alias.name}")
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    text = f"from {node.module} import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
                    self.imports[alias.asname or alias.name] = (str(node.module), alias.name, text)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.definitions.setdefault(node.name, []).append(node)
                self.statements.append((node, loop))
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                        self.changes.setdefault(target.value.id, []).append(node)
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                            self.definitions.setdefault(part.id, []).append(node)
            elif isinstance(node, ast.If):
                holds = self._decide(node.test)
                if holds is not False:
                    self._survey(node.body, loop)
                if holds is not True:
                    self._survey(node.orelse, loop)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                for value in _values(node.iter):
                    self._survey(node.body, {**loop, node.target.id: value})
            elif isinstance(node, ast.Try):
                self._survey(node.body, loop)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self.statements.append((node, loop))
                function = node.value.func
                if isinstance(function, ast.Call):
                    function = function.func
                declares = isinstance(function, ast.Attribute) and function.attr in DECLARING
                if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and not declares:
                    self.changes.setdefault(function.value.id, []).append(node)

    def _decide(self, test: ast.expr) -> bool | None:
        """Whether a condition on versions holds; ``None`` where it is about something else."""
        if not {n.id for n in ast.walk(test) if isinstance(n, ast.Name)} <= set(self.facts):
            return None
        return bool(_evaluate(test, self.facts))


def _evaluate(expression: ast.expr, names: Mapping[str, Any]) -> Any:
    # Our own files, and nothing but comparisons and formatting of constants.
    return eval(compile(ast.Expression(expression), "<metaop>", "eval"), {"__builtins__": {}}, dict(names))


def _values(expression: ast.expr) -> list[Any]:
    try:
        return list(ast.literal_eval(expression))
    except ValueError:
        return []


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Extraction:
    """An operator's binding, written down: what to call, and what the framework calls the attributes."""

    #: an expression that is a function
    function: str
    #: from our names to theirs; ``None``: as they are
    names: Mapping[str, str] | None
    compiled: bool = True

    def keywords(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes by the names that the function knows them by."""
        return dict(attrs) if self.names is None else {theirs: attrs[ours] for ours, theirs in self.names.items()}


class Writer:
    """Collects definitions and imports, each once, in an order in which they can be executed."""

    def __init__(self, facts: Mapping[str, Any], reserved: Any = ()) -> None:
        self.facts = dict(facts)
        self.imports: dict[str, None] = {}
        self.pieces: list[str] = []
        self._modules: dict[str, Module] = {}
        #: the name that something has here, by file and name there
        self._names: dict[tuple[str, str], str] = {}
        self._taken: dict[str, Any] = dict.fromkeys(reserved, "reserved")
        self._done: set[Any] = set()

    def text(self) -> str:
        """The definitions, spaced as Python programmers do."""
        found = ""
        for i, piece in enumerate(self.pieces):
            between = "\n" if not any(_is_block(p) for p in self.pieces[max(i - 1, 0) : i + 1]) else "\n\n\n"
            found += (between if i else "") + piece
        return found

    def module(self, name: str) -> Module:
        """A file, read once."""
        if name not in self._modules:
            self._modules[name] = Module.read(name, self.facts)
        return self._modules[name]

    # -- operators ----------------------------------------------------------------------------------------------------

    def binding(self, package: str, op: str) -> Extraction:
        """The binding of an operator in one of the files of a framework's package."""
        folder = _ROOT.joinpath(*package.split(".")[1:])
        for path in sorted(folder.glob("*.py")):
            if path.stem in ("__init__", "adapter", "bindings"):
                continue
            module = self.module(f"{package}.{path.stem}")
            for statement, loop in module.statements:
                found = self._registered(module, statement, loop, op)
                if found is not None:
                    return found
        raise NotExtracted(f"no binding of {op!r} was found in {package}")

    def _registered(self, module: Module, statement: ast.stmt, loop: dict[str, Any], op: str) -> Extraction | None:
        if isinstance(statement, ast.FunctionDef):
            decorators = {d.id for d in statement.decorator_list if isinstance(d, ast.Name)}
            if statement.name != op or "bind" not in decorators:
                return None
            return Extraction(self.define(module, op), None, "uncompiled" not in decorators)
        if not isinstance(statement, ast.Expr):
            return None
        call = statement.value
        assert isinstance(call, ast.Call)
        if isinstance(call.func, ast.Attribute):
            if ast.unparse(call.func) != "bind.rename" or not isinstance(call.args[0], ast.Dict):
                return None
            for key, row in zip(call.args[0].keys, call.args[0].values, strict=True):
                if key is not None and _evaluate(key, loop) == op:
                    return self._row(module, row, loop)
            return None
        if not isinstance(call.func, ast.Name) or not self._is_factory(module, call.func.id):
            return None
        first = call.args[0]
        if not isinstance(first, ast.Constant | ast.Call | ast.Name) or _evaluate(first, loop) != op:
            return None
        owner = (module.name, f"{op}, made")
        if owner not in self._names:
            made = self._expression(module, call, loop)
            self._names[owner] = self._free(op, owner)
            self.pieces.append(f"{self._names[owner]} = {made}")
        return Extraction(self._names[owner], None)

    def _row(self, module: Module, row: ast.expr, loop: dict[str, Any]) -> Extraction:
        names: dict[str, str] = {}
        if isinstance(row, ast.Tuple):
            row, table = row.elts
            if isinstance(table, ast.Name):
                definition = module.definitions[table.id][0]
                assert isinstance(definition, ast.Assign)
                table = definition.value
            names = ast.literal_eval(table)
        text = self._expression(module, row, loop)
        return Extraction(f"({text})" if isinstance(row, ast.Lambda) else text, names)

    def _is_factory(self, module: Module, name: str) -> bool:
        """Whether a function registers another one that it makes."""
        return any(
            isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "bind"
            for definition in module.definitions.get(name, ())
            for part in ast.walk(definition)
        )

    # -- definitions --------------------------------------------------------------------------------------------------

    def define(self, module: Module | str, name: str) -> str:
        """Write down what a file calls by this name, and return what it is called here."""
        if isinstance(module, str):
            module = self.module(module)
        if name in EXCEPTIONS and name not in module.definitions:
            return EXCEPTIONS[name]
        if name not in module.definitions:
            if name in module.imports:
                return self._import(module, name)
            if name in self.facts:
                return self._fact(name)
            if hasattr(builtins, name):
                return name
            raise NotExtracted(f"{module.name} does not say what {name!r} is")
        key = (module.name, name)
        if key in self._names:
            return self._names[key]
        self._names[key] = self._free(name, key)
        for statement in [*module.definitions[name], *module.changes.get(name, [])]:
            if (module.name, statement) not in self._done:
                self._done.add((module.name, statement))
                self.pieces.append(self._statement(module, statement))
        return self._names[key]

    def _fact(self, name: str) -> str:
        if ("", name) not in self._names:
            self._names["", name] = self._free(name, ("", name))
            self.pieces.append(f"{self._names['', name]} = {self.facts[name]!r}")
        return self._names["", name]

    def _import(self, module: Module, name: str) -> str:
        source, attribute, text = module.imports[name]
        if source == "metaop.errors":
            if attribute not in EXCEPTIONS:
                raise NotExtracted(f"{module.name} uses {attribute} of metaop")
            return EXCEPTIONS[attribute]
        if source.partition(".")[0] == "metaop":
            if attribute is None:
                raise NotExtracted(f"{module.name} uses metaop as a module")
            return self.define(source, attribute)
        for further in module.submodules.get(name, ()):
            self.imports[further] = None
        return self.add_import(text, name)

    def add_import(self, text: str, name: str) -> str:
        """Add an import statement that binds ``name``, and return what it is called here."""
        if self._taken.setdefault(name, text) != text:
            raise NotExtracted(f"{name!r} is two things: {self._taken[name]} and {text}")
        self.imports[text] = None
        return name

    def _free(self, name: str, owner: Any) -> str:
        """A name like this one that is neither taken nor that of something built in."""
        while name in self._taken or hasattr(builtins, name):
            name += "_"
        self._taken[name] = owner
        return name

    def add(self, name: str, owner: Any) -> str:
        """Take a name for something that the caller writes."""
        return self._free(name, owner)

    # -- text ---------------------------------------------------------------------------------------------------------

    def _expression(self, module: Module, node: ast.expr, loop: dict[str, Any]) -> str:
        edits = self._edits(module, node, loop)
        return self._rendered(module, node, _start(node), edits)

    def _statement(self, module: Module, node: ast.stmt) -> str:
        start = _start(node)
        kept = []
        for decorator in getattr(node, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not (isinstance(called, ast.Name) and called.id in TRANSPARENT):
                kept.append("@" + self._expression(module, decorator, {}))
        edits = self._edits(module, node, {})
        return "\n".join([*kept, self._rendered(module, node, start, edits)])

    def _rendered(self, module: Module, node: Any, start: tuple[int, int], edits: list[Edit]) -> str:
        return edited(module.lines, start, _end(node), edits)

    def _edits(self, module: Module, node: ast.AST, loop: dict[str, Any]) -> list[Edit]:
        edits = plain_edits(module.lines, node)
        skipped: set[ast.AST] = set()
        for decorator in getattr(node, "decorator_list", []):
            skipped.update(ast.walk(decorator))
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part not in skipped:
                if part.func.id == "where_kernels_exist":
                    edits += [Edit(_start(part), _start(part.args[0]), ""), Edit(_end(part.args[0]), _end(part), "")]
                    skipped.add(part.func)
                elif part.func.id == "bind":
                    edits += [
                        Edit(_start(part), _start(part.args[0]), "return "),
                        Edit(_end(part.args[0]), _end(part), ""),
                    ]
                    skipped.add(part.func)
            elif isinstance(part, ast.Attribute) and (other := _other_binding(part)):
                found = self.binding(module.name.rpartition(".")[0], other)
                edits.append(Edit(_start(part), _end(part), found.function))
                skipped.update(ast.walk(part))
            elif isinstance(part, ast.Call) and loop and not _mentions_more(part, loop):
                edits.append(Edit(_start(part), _end(part), repr(_evaluate(part, loop))))
                skipped.update(ast.walk(part))
        for name in global_names(node):
            if name in skipped:
                continue
            if name.id in loop:
                edits.append(Edit(_start(name), _end(name), repr(loop[name.id])))
                continue
            called = self.define(module, name.id)
            if called != name.id:
                if module.lines[name.lineno - 1][name.col_offset : name.end_col_offset] != name.id.encode():
                    # Before Python 3.12, ast does not say where in an f-string a name stands.
                    raise NotExtracted(f"{name.id!r} stands within a formatted string of {module.name}")
                edits.append(Edit(_start(name), _end(name), called))
        # A definition may have got another name than it had.
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            called = self._names.get((module.name, node.name), node.name)
            if called != node.name:
                word = "def " if isinstance(node, ast.FunctionDef) else "class "
                line = node.lineno
                column = node.col_offset + len(word)
                edits.append(Edit((line, column), (line, column + len(node.name.encode())), called))
        return edits


def _is_block(piece: str) -> bool:
    return piece.startswith(("def ", "class ", "@"))


def _other_binding(node: ast.Attribute) -> str | None:
    """The operator in ``bind.table["operator"].function``."""
    table = node.value
    if node.attr == "function" and isinstance(table, ast.Subscript) and ast.unparse(table.value) == "bind.table":
        return str(ast.literal_eval(table.slice))
    return None


def _mentions_more(node: ast.expr, loop: dict[str, Any]) -> bool:
    """Whether more than loop variables and constants goes into an expression."""
    return not {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} <= set(loop)
