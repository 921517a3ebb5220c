"""Models: brought in from other formats, and kept in metaop's own."""

from metaop.models.model import Model
from metaop.models.onnx import from_onnx, to_onnx
from metaop.models.store import load, save

__all__ = ["Model", "from_onnx", "load", "save", "to_onnx"]
