"""ONNX models. The package ``onnx`` is loaded when a model is first read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from metaop.errors import MissingFrameworkError
from metaop.models.model import Model

if TYPE_CHECKING:
    import onnx

__all__ = ["from_onnx", "to_onnx"]


def from_onnx(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    constants: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Any] | None = None,
) -> Model:
    """The model in an ONNX file (a path, the file's bytes, or an ``onnx.ModelProto``) as a graph of meta operators.

    Nodes keep their ONNX names. Floating initializers become variables, others constants. What metaop cannot express
    exactly is refused with one :class:`~metaop.errors.ModelError` that lists every such node.

    ``constants`` gives inputs that never change, which are then no inputs of the result, and ``shapes`` says more of
    the shapes of inputs than the file does: a branch (``If``) can be read where these decide it.

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

    return convert(*read(source), constants, shapes)


def to_onnx(
    outputs: Any, path: str | os.PathLike[str] | None = None, *, external_data: bool | None = None
) -> onnx.ModelProto:
    """The graph behind ``outputs`` (a node, a list of nodes, a dict from names to nodes, or a :class:`Model`) as ONNX.

    Given a ``path``, the file is written too, all of it or nothing; with ``external_data``, and in any case above 2 GB,
    weights are put into a second file beside it. Nodes keep their names, variables become initializers, unknown sizes
    symbolic ones, and attributes that are computed while the graph runs stay so. A meta operator that ONNX does not
    have becomes a function of the domain ``metaop``, spelled out in ONNX's own operators; :func:`from_onnx` finds the
    very same operators again. Backends of nodes and control edges are not part of the model.

        mo.to_onnx({"y": y}, "model.onnx")
    """
    try:
        from metaop.models.onnx.export import export
    except ImportError as error:
        raise MissingFrameworkError(
            f"writing ONNX models needs the packages onnx and onnxruntime: pip install 'metaop[onnxruntime]' ({error})"
        ) from None
    return export(outputs, path, external_data)
