"""metaop's own files: ``mo.save`` and ``mo.load``.

A ``.metaop`` file is a safetensors file with the structure as JSON among its metadata; ``docs/format.md`` describes it.
Nothing in a file is executed, and loading builds the graph through the same checks as any other: the file may come
from anywhere.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metaop._version import __version__
from metaop.errors import MetaopError, ModelError, UserError
from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, RandomData, Stored, Variable, weak_constant
from metaop.graph.order import execution_order
from metaop.models.model import Model, as_model
from metaop.ops import REGISTRY
from metaop.types import as_dtype

__all__ = ["FORMAT", "load", "save", "write_atomically"]

FORMAT = 1
_KEY = "metaop"


# -- writing -----------------------------------------------------------------------------------------------------------


def save(outputs: Model | Node | Sequence[Node] | Mapping[str, Node], path: str | os.PathLike[str]) -> None:
    """Write a model (or the graph behind some outputs) to a ``.metaop`` file, as a whole or not at all.

    >>> import tempfile, metaop as mo
    >>> x = mo.Placeholder(shape=(None, 1), dtype="float32", name="x")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mo.save({"y": x * mo.Variable([2.0], name="w")}, folder + "/double.metaop")
    ...     mo.load(folder + "/double.metaop").run({"x": np.float32([[3.0]])})
    {'y': array([[6.]], dtype=float32)}
    """
    from safetensors.numpy import save as pack

    structure, tensors = _describe(as_model(outputs))
    write_atomically(path, pack(tensors, {_KEY: json.dumps(structure, allow_nan=False)}))


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file beside its place and move it there, so that no reader ever sees a part of it."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            # mkstemp makes files that only their owner can read; a model is as public as any new file.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ModelError(f"{str(target)!r} cannot be written: {error.strerror or error}") from None


def _describe(model: Model) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    order = [n for n in execution_order(model.outputs) if not isinstance(n, RandomData)]
    order += [n for n in model.inputs if n not in set(order)]
    numbers = {node: i for i, node in enumerate(order)}
    tensors: dict[str, np.ndarray] = {}

    def value(node: Node | None) -> list[int] | None:
        # Random data are drawn anew by whoever runs the operator.
        return None if node is None or isinstance(node, RandomData) else [numbers[node.producer], node.index]

    nodes = []
    for node in order:
        entry: dict[str, Any] = {"name": node.name}
        if isinstance(node, Placeholder):
            entry |= {"kind": "placeholder", "dtype": None if node.dtype is None else node.dtype.name}
            entry["shape"] = None if node.shape is None else list(node.shape)
        elif isinstance(node, Stored):
            tensors[str(numbers[node])] = node.value
            entry |= {"kind": "variable" if isinstance(node, Variable) else "constant", "dtype": node.value.dtype.name}
            if isinstance(node, Constant) and node.weak:
                entry["weak"] = True
        elif isinstance(node, Operator):
            entry |= {"kind": "operator", "op": node.op.name, "inputs": [value(n) for n in node.inputs]}
            entry["attrs"] = {name: _encode(v) for name, v in node.attrs.items()}
            if node.open:
                entry["open"] = {name: value(n) for name, n in node.open.items()}
            if node.backend:
                entry["backend"] = node.backend
        if node.controls:
            entry["controls"] = [numbers[n] for n in node.controls]
        nodes.append(entry)
    structure = {
        "format": FORMAT,
        "library": __version__,
        "name": model.name,
        "nodes": nodes,
        "inputs": [numbers[n] for n in model.inputs],
        "outputs": [[name, value(n)] for name, n in zip(model.output_names, model.outputs, strict=True)],
    }
    return structure, tensors


def _encode(attribute: Any) -> Any:
    if isinstance(attribute, np.dtype):
        return {"dtype": attribute.name}
    if isinstance(attribute, float) and not math.isfinite(attribute):
        return {"float": repr(attribute)}
    return [_encode(v) for v in attribute] if isinstance(attribute, tuple) else attribute


def _decode(attribute: Any) -> Any:
    if isinstance(attribute, dict):
        if set(attribute) == {"dtype"}:
            return as_dtype(attribute["dtype"])
        if set(attribute) == {"float"}:
            return float(attribute["float"])
        raise ModelError(f"no attribute is written {attribute!r}")
    return tuple(_decode(v) for v in attribute) if isinstance(attribute, list) else attribute


# -- reading -----------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a ``.metaop`` file; see :func:`save`."""
    from safetensors import SafetensorError, safe_open

    where = str(path)
    if not os.path.isfile(where):
        raise ModelError(f"the model {where!r} cannot be read: there is no such file")
    try:
        with safe_open(where, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
            if text is None:
                raise ModelError(f"{where!r} is a safetensors file without a metaop model in it")
            return _Reader(json.loads(text), file).model()
    except OSError as error:
        raise ModelError(f"the model {where!r} cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise ModelError(f"{where!r} is not a metaop model, or a damaged one: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, MetaopError):
            raise
        raise ModelError(
            f"{where!r} is damaged: its structure makes no sense ({type(error).__name__}: {error})"
        ) from None


class _Reader:
    """One file while it is read."""

    def __init__(self, structure: Mapping[str, Any], tensors: Any) -> None:
        version = structure.get("format") if isinstance(structure, dict) else None
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ModelError(f"the file does not say which version of the format it has (got {version!r})")
        if version > FORMAT:
            raise ModelError(
                f"the file has version {version} of the format, written by metaop {structure.get('library')!r}; this "
                f"metaop ({__version__}) reads versions up to {FORMAT}: install a newer one"
            )
        self.structure = structure
        self.tensors = tensors
        self.nodes: list[Node] = []

    def model(self) -> Model:
        entries = self.structure["nodes"]
        for number, entry in enumerate(entries):
            try:
                self.nodes.append(self._node(number, entry))
            except UserError as error:
                raise ModelError(f"node {entry.get('name')!r} of the file: {error}") from None
        for node, entry in zip(self.nodes, entries, strict=True):
            if entry.get("controls"):
                node.run_after(*(self.nodes[_index(n, len(self.nodes))] for n in entry["controls"]))
        outputs: dict[str, Node] = {}
        for name, value in self.structure["outputs"]:
            if not isinstance(name, str) or name in outputs:
                raise ModelError(f"an output has no name, or one that another has too: {name!r}")
            outputs[name] = self._value(value)
        inputs = [self.nodes[_index(n, len(self.nodes))] for n in self.structure["inputs"]]
        for node in inputs:
            if not isinstance(node, Placeholder):
                raise ModelError(f"the input {node.name!r} is not a placeholder")
        try:
            return Model(inputs, outputs, str(self.structure["name"]))  # type: ignore[arg-type]
        except UserError as error:
            raise ModelError(str(error)) from None

    def _node(self, number: int, entry: Mapping[str, Any]) -> Node:
        kind, name = entry["kind"], entry["name"]
        if not isinstance(name, str) or not name:
            raise ModelError(f"node {number} has no name")
        if kind == "placeholder":
            return Placeholder(entry["shape"], entry["dtype"], name=name)
        if kind in ("variable", "constant"):
            as_dtype(entry["dtype"])  # NumPy has bfloat16 once it was asked for
            array = self.tensors.get_tensor(str(number))
            if array.dtype.name != entry["dtype"]:
                raise ModelError(f"it is declared {entry['dtype']}, but its tensor is {array.dtype.name}")
            if kind == "variable":
                return Variable(array, name=name)
            if entry.get("weak"):
                found = weak_constant(array.item())
                found.name = name
                return found
            return Constant(array, name=name)
        if kind != "operator":
            raise ModelError(f"there is no kind of node called {kind!r}")
        if entry["op"] not in REGISTRY:
            raise ModelError(
                f"it is a {entry['op']!r}, which metaop {__version__} does not have; "
                f"the file was written by metaop {self.structure.get('library')!r}"
            )
        inputs = [None if v is None else self._value(v) for v in entry["inputs"]]
        attrs = {key: _decode(v) for key, v in entry["attrs"].items()}
        attrs |= {key: self._value(v) for key, v in entry.get("open", {}).items()}
        made = apply(entry["op"], inputs, attrs, name=name, backend=entry.get("backend"))
        return made[0].producer if isinstance(made, tuple) else made

    def _value(self, value: Any) -> Node:
        number, index = value
        node = self.nodes[_index(number, len(self.nodes))]
        results: Sequence[Node] = getattr(node, "results", (node,))
        return results[_index(index, len(results))]


def _index(number: Any, count: int) -> int:
    # Not through Python's own indexing, which takes -1 and True.
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise ModelError(f"{number!r} is no number of something that stands before it")
    return number
