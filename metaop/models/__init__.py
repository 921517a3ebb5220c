"""Models from elsewhere, made graphs of meta operators."""

from metaop.models.model import Model
from metaop.models.onnx import from_onnx
from metaop.models.tensorflow import from_keras, from_saved_model

__all__ = ["Model", "from_keras", "from_onnx", "from_saved_model"]
