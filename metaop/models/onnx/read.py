"""From a file to a checked ``ModelProto`` and its tensors as arrays.

The file may come from anywhere: sizes are compared with the bytes that are present before anything is allocated, and
external data is read inside the model's own folder only.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, inliner

from metaop.errors import ModelError
from metaop.models.onnx.marks import is_own
from metaop.models.onnx.order import MOST_NESTED, subgraphs
from metaop.models.onnx.skim import Span, skim
from metaop.types import as_dtype

__all__ = ["DTYPES", "OLDEST_OPSET", "Weights", "dtype_name", "read", "tensor"]

OLDEST_OPSET = 7
#: how many nodes a model may have once its functions are inlined
MOST_NODES = 1_000_000

DTYPES: dict[int, np.dtype] = {
    TensorProto.FLOAT16: np.dtype("float16"),
    TensorProto.BFLOAT16: as_dtype("bfloat16"),
    TensorProto.FLOAT: np.dtype("float32"),
    TensorProto.DOUBLE: np.dtype("float64"),
    TensorProto.INT8: np.dtype("int8"),
    TensorProto.INT16: np.dtype("int16"),
    TensorProto.INT32: np.dtype("int32"),
    TensorProto.INT64: np.dtype("int64"),
    TensorProto.UINT8: np.dtype("uint8"),
    TensorProto.UINT16: np.dtype("uint16"),
    TensorProto.UINT32: np.dtype("uint32"),
    TensorProto.UINT64: np.dtype("uint64"),
    TensorProto.BOOL: np.dtype("bool"),
}

_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.UINT32: "uint64_data",
}


def dtype_name(number: int) -> str:
    """The ONNX name of an element type."""
    return TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else f"number {number}"


def read(source: Any) -> tuple[onnx.ModelProto, Path | None, Weights]:
    """The model, checked as a whole and with its functions inlined; the folder that its external data is in; and what
    it stores.
    """
    folder, weights = None, None
    if isinstance(source, onnx.ModelProto):
        model = source
    else:
        if isinstance(source, bytes | bytearray | memoryview):
            content = bytes(source) if isinstance(source, memoryview) else source
            model, weights = _parsed(content, content)
        elif isinstance(source, str | os.PathLike):
            path = Path(source)
            try:
                with open(path, "rb") as file:
                    if os.path.getsize(path):
                        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                            model, weights = _parsed(mapped, path)
                    else:
                        model = onnx.ModelProto()
            except (OSError, ValueError) as error:
                if isinstance(error, ModelError):
                    raise
                reason = getattr(error, "strerror", None) or error
                raise ModelError(f"the model {str(path)!r} cannot be read: {reason}") from None
            folder = path.parent
        else:
            raise ModelError(f"from_onnx takes a path, bytes or an onnx.ModelProto; got {type(source).__name__}")
    _check(model)
    weights = weights or Weights(model.graph.initializer, [], None)
    if model.graph.sparse_initializer:
        raise ModelError("the model has sparse initializers, which are not supported")
    if model.functions:
        model = _inlined(model)
    return model, folder, weights


class Weights:
    """The initializers of a model. The data of large ones is not in the message but where ``spans`` say."""

    def __init__(self, protos: Any, spans: Sequence[Span | None], source: Any) -> None:
        self.protos = protos
        self.spans = spans
        self.source = source

    def __iter__(self) -> Iterator[tuple[TensorProto, np.ndarray | None]]:
        """Each with the bytes that are its data, or ``None`` where it holds them itself."""
        for index, proto in enumerate(self.protos):
            span = self.spans[index] if self.spans else None
            yield proto, None if span is None else self._bytes(*span)

    def _bytes(self, begin: int, end: int) -> np.ndarray:
        if not isinstance(self.source, Path):
            return np.frombuffer(self.source, np.uint8, end - begin, begin).copy()
        try:
            found = np.fromfile(self.source, np.uint8, end - begin, offset=begin)
        except OSError as error:
            raise ModelError(f"the model {str(self.source)!r} cannot be read: {error.strerror}") from None
        if found.size < end - begin:
            raise ModelError(f"the model {str(self.source)!r} became shorter while it was read")
        return found


def _parsed(content: Any, source: Any) -> tuple[onnx.ModelProto, Weights]:
    """The message without the data of large tensors, and these."""
    skimmed = skim(content)
    spans: list[Span | None] = []
    # What protobuf gets is bytes in any case.
    text, spans = skimmed if skimmed is not None else (bytes(content), [])
    model = onnx.ModelProto()
    try:
        model.ParseFromString(text)
    except (DecodeError, RecursionError, ValueError):
        raise ModelError("this is not an ONNX model, or a damaged one: its bytes cannot be decoded") from None
    if spans and len(spans) != len(model.graph.initializer):
        raise ModelError("this is not an ONNX model, or a damaged one: its initializers cannot be told apart")
    return model, Weights(model.graph.initializer, spans, source)


def _check_text(message: Any) -> None:
    """Names that are not UTF-8 would come as bytes."""
    if isinstance(message, TensorProto):  # whose data would be copied to be passed over
        texts = [("name", message.name), ("doc_string", message.doc_string)]
        texts += [("external_data", text) for e in message.external_data for text in (e.key, e.value)]
        for name, text in texts:
            if isinstance(text, bytes):
                raise ModelError(f"the file is damaged: a {name} is no text ({text[:40]!r})")
        return
    for field, value in message.ListFields():
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        for item in [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value:
            if isinstance(item, bytes):
                raise ModelError(f"the file is damaged: a {field.name} is no text ({item[:40]!r})")
            if not isinstance(item, str):
                _check_text(item)


def _check(model: onnx.ModelProto) -> None:
    _check_text(model)
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("the model has no graph with outputs: the file is empty, damaged or not an ONNX model")
    if model.ir_version < 3:
        raise ModelError(f"the model has IR version {model.ir_version}; 3 and later are read")
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if versions.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"the model imports two versions of the operator set {entry.domain!r}")
    newest = onnx.defs.onnx_opset_version()
    if "" in versions and not OLDEST_OPSET <= versions[""] <= newest:
        raise ModelError(
            f"the model uses opset {versions['']}; this installation reads opsets {OLDEST_OPSET} to {newest}"
        )
    if "" not in versions and any(n.domain in ("", "ai.onnx") for n in model.graph.node):
        raise ModelError("the model does not say which version of the ONNX operator set it uses")


def _calls(nodes: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > MOST_NESTED:
        raise ModelError(f"the model nests graphs more than {MOST_NESTED} deep")
    for node in nodes:
        yield node.domain, node.op_type
        for graph in subgraphs(node):
            yield from _calls(graph.node, depth + 1)


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Local functions inlined; they must not call themselves, nor unfold without end.

    Functions that stand for meta operators, and are called as such only, stay.
    """
    functions: dict[tuple[str, str], Any] = {}
    for function in model.functions:
        key = (function.domain, function.name)
        if key in functions:
            raise ModelError(f"the model defines the function {function.name!r} of {function.domain!r} twice")
        functions[key] = function
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Any, path: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for key in _calls(nodes):
            total += 1
            if key not in functions:
                continue
            if key in path or len(path) > 200:
                raise ModelError(f"the model's function {key[1]!r} of {key[0]!r} calls itself, or nests too deep")
            if key not in sizes:
                sizes[key] = size(functions[key].node, (*path, key))
            total += sizes[key]
        return total

    if size(model.graph.node, ()) > MOST_NODES:
        raise ModelError(f"the model unfolds to more than {MOST_NODES} nodes")
    foreign = {(n.domain, n.op_type) for n in model.graph.node if not is_own(n)}
    for nodes in (*(f.node for f in model.functions), *(g.node for n in model.graph.node for g in subgraphs(n))):
        foreign.update(_calls(nodes))
    unfold = [key for key in functions if key in foreign]
    if not unfold:
        return model
    # Everything but the weights is copied, for the inliner would copy them several times.
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = model.graph
    light.graph.name = graph.name
    light.graph.node.extend(graph.node)
    light.graph.input.extend(graph.input)
    light.graph.output.extend(graph.output)
    for tensor in graph.initializer:
        light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    try:
        return inliner.inline_selected_functions(light, unfold, exclude=False)
    except Exception as error:  # onnx raises many kinds, all of them about the file
        raise ModelError(f"the model's functions cannot be inlined: {_brief(error)}") from None


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def tensor(proto: TensorProto, what: str, folder: Path | None, raw: np.ndarray | None = None) -> np.ndarray:
    """The array that a ``TensorProto`` holds, or would if its bytes ``raw`` had not been read already; nobody else
    holds it.
    """
    dtype = DTYPES.get(proto.data_type)
    if dtype is None:
        raise ModelError(f"{what} has elements of type {dtype_name(proto.data_type)}, which metaop does not have")
    shape = tuple(proto.dims)
    if len(shape) > 32 or any(size < 0 for size in shape):
        raise ModelError(f"{what} has the impossible shape {shape[:40]}")
    if proto.HasField("segment"):
        raise ModelError(f"{what} is stored in segments, which nothing writes and metaop does not read")
    count = math.prod(shape)
    if proto.data_location == TensorProto.EXTERNAL:
        values = _external(proto, count * dtype.itemsize, what, folder).view(_stored(dtype))
    elif raw is not None or proto.HasField("raw_data"):
        found = np.frombuffer(proto.raw_data, np.uint8).copy() if raw is None else raw
        if found.size != count * dtype.itemsize:
            raise ModelError(
                f"{what} of shape {shape} and dtype {dtype.name} needs {count * dtype.itemsize} bytes; "
                f"the file has {found.size}"
            )
        values = found.view(_stored(dtype))
    else:
        field = getattr(proto, _FIELDS.get(proto.data_type, "int32_data"))
        if len(field) != count:
            raise ModelError(f"{what} of shape {shape} needs {count} elements; the file has {len(field)}")
        if proto.data_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16):  # as their bits
            values = np.array(field, np.int32).astype(np.uint16).view(dtype)
        else:
            wide = np.array(field, None if count else dtype)
            values = wide.astype(dtype)
            if dtype.kind in "iu" and not np.array_equal(values, wide):
                raise ModelError(f"{what} holds numbers that do not fit {dtype.name}")
    try:
        return values.astype(dtype, copy=False).reshape(shape)
    except ValueError:
        raise ModelError(f"{what} has the impossible shape {shape}") from None


def _stored(dtype: np.dtype) -> np.dtype:
    if dtype.kind == "V":  # bfloat16, of which NumPy knows no byte orders; machines that run frameworks have this one
        return dtype
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("<")


def _external(proto: TensorProto, size: int, what: str, folder: Path | None) -> np.ndarray:
    if folder is None:
        raise ModelError(f"{what} is stored in another file: give the model's path, not its content")
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    parts = location.replace("\\", "/").split("/")
    if (
        not location
        or "\0" in location
        or os.path.isabs(location)
        or parts[0] == ""
        or ".." in parts
        or ":" in location
    ):
        raise ModelError(f"{what} is stored in {location!r}: external data is read inside the model's folder only")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath([root, path]) != root:
        raise ModelError(f"{what} is stored in {location!r}, which leads out of the model's folder")
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", size))
    except ValueError:
        raise ModelError(f"{what}: offset and length of its external data are not numbers") from None
    if offset < 0 or length != size:
        raise ModelError(f"{what} needs {size} bytes; its external data is said to be {length} at {offset}")
    if not os.path.isfile(path):
        raise ModelError(f"{what} is stored in {location!r}, which does not exist beside the model")
    if offset + size > os.path.getsize(path):
        raise ModelError(f"{what} is stored in {location!r}, which ends before byte {offset + size}")
    try:
        content = np.fromfile(path, np.uint8, size, offset=offset)
    except OSError as error:
        raise ModelError(f"{what} is stored in {location!r}, which cannot be read: {error.strerror}") from None
    if content.size != size:
        raise ModelError(f"{what} is stored in {location!r}, which ends too early")
    return content
