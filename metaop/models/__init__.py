"""Models: brought in from other formats, and kept in metaop's own."""

from metaop.models.model import Model
from metaop.models.onnx import from_onnx, to_onnx
from metaop.models.store import load, save
from metaop.models.tensorflow import from_keras, from_saved_model
from metaop.models.torch import from_torch

__all__ = ["Model", "from_keras", "from_onnx", "from_saved_model", "from_torch", "load", "save", "to_onnx"]
