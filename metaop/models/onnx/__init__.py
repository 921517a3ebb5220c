"""ONNX models. The package ``onnx`` is loaded when a model is first read."""

from __future__ import annotations

import os
from typing import Any

from metaop.errors import MissingFrameworkError
from metaop.models.model import Model

__all__ = ["from_onnx"]


def from_onnx(source: str | os.PathLike[str] | bytes | Any) -> Model:
    """The model in an ONNX file (a path, the file's bytes, or an ``onnx.ModelProto``) as a graph of meta operators.

    Nodes keep their ONNX names. Floating initializers become variables, others constants. What metaop cannot express
    exactly is refused with one :class:`~metaop.errors.ModelError` that lists every such node.

        model = mo.from_onnx("model.onnx")
        model.run({"input": array}, backend="torch")
    """
    try:
        import onnx  # noqa: F401  only to say early and clearly that it is missing
    except ImportError:
        raise MissingFrameworkError(
            "reading ONNX models needs the package onnx: pip install 'metaop[onnxruntime]'"
        ) from None
    from metaop.models.onnx.convert import convert
    from metaop.models.onnx.read import read

    return convert(*read(source))
