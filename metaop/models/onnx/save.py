"""Writing ONNX files: all or nothing, and beside them the data of models that are too large for one message."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx

from metaop.errors import ModelError

__all__ = ["save"]

#: protobuf refuses messages of 2 GiB; what is not data is small
LARGEST = (1 << 31) - (1 << 26)
#: smaller arrays stay in the model
LEAST_EXTERNAL = 1024
_ALIGNMENT = 4096


def save(
    model: onnx.ModelProto,
    arrays: Mapping[str, np.ndarray],
    path: str | os.PathLike[str] | None,
    external: bool | None,
) -> onnx.ModelProto:
    """Put the arrays into the initializers of their names, or beside the file, and write the file."""
    total = sum(a.nbytes for a in arrays.values())
    if external is None:
        external = total > LARGEST
    if external and path is None:
        raise ModelError(f"the weights ({total} bytes) can be stored beside a file only: give a path")
    if not external and total > LARGEST:
        raise ModelError(f"the weights ({total} bytes) exceed what one ONNX file holds: use external_data=True")
    if path is None:
        for tensor in model.graph.initializer:
            tensor.raw_data = _bytes(arrays[tensor.name])
        return model
    target = Path(path)
    try:
        if external:
            beside = target.with_name(target.name + ".data")
            _replace(beside, lambda file: _store(model, arrays, beside.name, file))
        else:
            for tensor in model.graph.initializer:
                tensor.raw_data = _bytes(arrays[tensor.name])
        content = model.SerializeToString()
        _replace(target, lambda file: file.write(content))
    except OSError as error:
        raise ModelError(f"the model cannot be written to {str(target)!r}: {error.strerror or error}") from None
    return model


def _store(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], location: str, file: BinaryIO) -> None:
    for tensor in model.graph.initializer:
        array = arrays[tensor.name]
        if array.nbytes < LEAST_EXTERNAL:
            tensor.raw_data = _bytes(array)
            continue
        file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
        entries = {"location": location, "offset": file.tell(), "length": array.nbytes}
        file.write(_little(array).data)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))


def _replace(path: Path, write: Callable[[Any], Any]) -> None:
    """Write a file beside the one meant and put it in its place, so that no half of a file is ever seen."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _little(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))


def _bytes(array: np.ndarray) -> bytes:
    return _little(array).tobytes()
