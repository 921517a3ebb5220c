"""Models from elsewhere, made graphs of meta operators."""

from metaop.models.model import Model
from metaop.models.onnx import from_onnx
from metaop.models.torch import from_torch

__all__ = ["Model", "from_onnx", "from_torch"]
