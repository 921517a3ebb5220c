"""Models from elsewhere, made graphs of meta operators."""

from metaop.models.model import Model
from metaop.models.onnx import from_onnx, to_onnx

__all__ = ["Model", "from_onnx", "to_onnx"]
