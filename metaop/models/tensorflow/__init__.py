"""Keras models and SavedModels. TensorFlow is loaded when a model is first read."""

from __future__ import annotations

import os
from typing import Any

from metaop.errors import MissingFrameworkError
from metaop.models.model import Model

__all__ = ["from_keras", "from_saved_model"]


def from_keras(model: Any) -> Model:
    """A Keras model, as it computes in inference, as a graph of meta operators.

    ``model`` is the model itself or the path of a ``.keras`` file. Trainable weights become variables named as in
    Keras, in Keras's layout; other weights become constants. Recurrent layers are written out step by step, for which
    the number of steps must be known. Inputs and outputs keep the model's layout (channels last,
    mostly) and the names of their layers. What metaop cannot express exactly is refused with one
    :class:`~metaop.errors.ModelError` that lists every such operator.

    A file is read by Keras with ``safe_mode=True``: one that holds Python code (a ``Lambda`` layer) is refused. Keras
    still builds whatever layers the file names, so a file from someone you do not trust belongs into a sandbox.

        model = mo.from_keras(keras.applications.MobileNet(weights=None))
        model.run({"input_layer": images}, backend="torch")
    """
    _needs_tensorflow("reading Keras models")
    from metaop.models.tensorflow.convert import convert
    from metaop.models.tensorflow.freeze import freeze_keras

    return convert(freeze_keras(model))


def from_saved_model(path: str | os.PathLike[str], *, signature: str = "serving_default") -> Model:
    """A signature of a TensorFlow SavedModel as a graph of meta operators.

    Weights are named as in the SavedModel; those that it calls trainable become variables, others constants.

    TensorFlow reads the folder: it restores the variables and runs the model's initialisation, so a SavedModel is a
    program, not data. It is run in this process with all that TensorFlow's operators may do, reading and writing
    files among them. A SavedModel from someone you do not trust belongs into a sandbox. Its Python objects (layers,
    optimizers) are not rebuilt.

        model = mo.from_saved_model("folder")
        model.run({"input": array}, backend="onnxruntime")
    """
    _needs_tensorflow("reading SavedModels")
    from metaop.models.tensorflow.convert import convert
    from metaop.models.tensorflow.freeze import freeze_saved_model

    return convert(freeze_saved_model(path, signature))


def _needs_tensorflow(what: str) -> None:
    try:
        import metaop.backends.tensorflow  # noqa: F401  imports TensorFlow without the notes that it writes meanwhile
    except ImportError:
        raise MissingFrameworkError(f"{what} needs TensorFlow: pip install 'metaop[tensorflow]'") from None
