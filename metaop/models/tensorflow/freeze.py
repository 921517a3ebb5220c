"""From a Keras model or a SavedModel to one TensorFlow graph whose functions are inlined and whose variables are
constants that still say which variable they were.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.util import deprecation

from metaop.errors import ModelError, UsageError

__all__ = ["Frozen", "freeze_keras", "freeze_saved_model"]


@dataclass
class Frozen:
    """A graph, its inputs and outputs by the names that users know, and its weights."""

    graph: tf.Graph
    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]
    #: from the name of a Const operator to the name of the weight that it was, and whether that is trainable
    weights: dict[str, tuple[str, bool]] = field(default_factory=dict)
    name: str = "model"
    #: the names of layers, which scopes are named after
    layers: frozenset[str] = frozenset()


def freeze_keras(model: Any) -> Frozen:
    """A Keras model, or the ``.keras`` file of that path, in inference."""
    if isinstance(model, str | os.PathLike):
        model = _load_keras(Path(model))
    try:
        inputs, outputs = list(model.inputs), list(model.outputs)
    except (AttributeError, TypeError, ValueError):
        raise ModelError(
            f"from_keras takes a Keras model that knows its inputs and outputs (a Sequential with an Input, or a "
            f"functional model), or the path of a .keras file; got {type(model).__name__}. A subclassed model can be "
            "wrapped: keras.Model(x, model(x)) with x = keras.Input(...)"
        ) from None
    if any(isinstance(getattr(w, "value", None), tf.Variable) for w in model.weights):
        pass
    elif any(not isinstance(w, tf.Variable) for w in model.weights):
        raise ModelError(
            "the weights of the model are not TensorFlow's: Keras runs on another backend here. Start Python with "
            "KERAS_BACKEND=tensorflow, or save the model as a .keras file and load it there"
        )
    names = _unique([_layer(t) for t in inputs])
    specs = [tf.TensorSpec(t.shape, t.dtype, name=f"input_{i}") for i, t in enumerate(inputs)]
    structure = getattr(model, "_inputs_struct", None)

    def call(*tensors: tf.Tensor) -> list[tf.Tensor]:
        # Keras knows a model's inputs as whatever structure it was built with.
        given = list(tensors) if len(tensors) > 1 else tensors[0]
        if isinstance(structure, Mapping | list | tuple):
            given = tf.nest.pack_sequence_as(structure, tensors)
        return list(tf.nest.flatten(model(given, training=False)))

    try:
        function = tf.function(call, input_signature=specs, autograph=False).get_concrete_function()
    except Exception as error:  # whatever a layer raises while it is traced
        raise ModelError(f"TensorFlow cannot trace the model {model.name!r}: {_short(error)}") from error
    kept = {}
    for weight in model.weights:
        variable = weight if isinstance(weight, tf.Variable) else weight.value
        kept[id(variable.handle)] = (getattr(weight, "path", None) or weight.name.partition(":")[0], weight.trainable)
    weights = {}
    for outside, inside in function.graph.captures:
        if outside.dtype == tf.resource:
            found = kept.get(id(outside))
            if found is not None:
                weights[inside.op.name] = found
    graph = _inlined(function)
    return Frozen(
        graph.graph,
        dict(zip(names, graph.inputs, strict=True)),
        dict(zip(_unique([_layer(t) for t in outputs]), graph.outputs, strict=True)),
        weights,
        model.name,
        frozenset([model.name, *(layer.name for layer in model._flatten_layers())]),
    )


def freeze_saved_model(path: Any, signature: str) -> Frozen:
    """A signature of the SavedModel in that folder."""
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"from_saved_model takes the path of a folder; got {type(path).__name__}")
    folder = Path(path)
    stored = _stored(folder)
    tags = list(stored.meta_info_def.tags)
    signatures = {name: s for name, s in stored.signature_def.items() if s.outputs and not name.startswith("__")}
    if signature not in signatures:
        known = ", ".join(map(repr, signatures)) or "none"
        raise ModelError(f"the SavedModel {str(folder)!r} has no signature {signature!r}; there are {known}")
    chosen = signatures[signature]
    for what, infos in (("input", chosen.inputs), ("output", chosen.outputs)):
        for name, info in infos.items():
            if info.WhichOneof("encoding") != "name":
                raise ModelError(f"the {what} {name!r} of the SavedModel is no dense tensor")
    try:
        definition = _constants(folder, tags, [i.name.partition(":")[0] for i in chosen.outputs.values()])

        def imported() -> None:
            tf.graph_util.import_graph_def(definition, name="")

        whole = tf.compat.v1.wrap_function(imported, [])
        named = {key: [(k, whole.graph.as_graph_element(i.name)) for k, i in sorted(infos.items())] for key, infos in
                 (("inputs", chosen.inputs), ("outputs", chosen.outputs))}
        function = whole.prune([t for _, t in named["inputs"]], [t for _, t in named["outputs"]])
        graph = _inlined(function)
    except Exception as error:  # TensorFlow's own, of many kinds
        raise ModelError(f"TensorFlow cannot load the SavedModel {str(folder)!r}: {_short(error)}") from error
    weights = {
        node.variable.name: (node.variable.name, node.variable.trainable)
        for node in stored.object_graph_def.nodes
        if node.WhichOneof("kind") == "variable"
    }
    return Frozen(
        graph.graph,
        dict(zip([k for k, _ in named["inputs"]], graph.inputs, strict=True)),
        dict(zip([k for k, _ in named["outputs"]], graph.outputs, strict=True)),
        weights,
        folder.name,
    )


def _stored(folder: Path) -> Any:
    """The graph in the folder, and what is said of it."""
    file = folder / "saved_model.pb"
    if not folder.is_dir():
        raise ModelError(f"no SavedModel: {str(folder)!r} is {'no folder' if folder.exists() else 'not there'}")
    if not file.is_file():
        raise ModelError(f"no SavedModel: the folder {str(folder)!r} has no file saved_model.pb")
    try:
        found = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except (DecodeError, OSError) as error:
        raise ModelError(f"no SavedModel: {str(file)!r} cannot be read ({_short(error)})") from None
    for graph in found.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return graph
    tags = [list(graph.meta_info_def.tags) for graph in found.meta_graphs]
    raise ModelError(f"the SavedModel {str(folder)!r} has no graph with the tag 'serve'; there are {tags}")


def _constants(folder: Path, tags: list[str], outputs: list[str]) -> Any:
    """The graph with constants for variables, each under the variable's name.

    The loader of TensorFlow 1 reads graph and variables only. That of TensorFlow 2 rebuilds Python objects too, and fails
    on optimizers of older releases.
    """
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session, deprecation.silence():
        tf.compat.v1.saved_model.load(session, tags, str(folder))
        return tf.compat.v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), outputs)


def _inlined(function: Any) -> Any:
    try:
        return convert_variables_to_constants_v2(function, lower_control_flow=False)
    except Exception as error:  # among others ValueError: weights beyond 2 GB do not fit a graph
        raise ModelError(f"TensorFlow cannot freeze the model: {_short(error)}") from error


def _load_keras(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"no Keras model: {str(path)!r} is {'no file' if path.exists() else 'not there'}")
    if path.suffix != ".keras" or not zipfile.is_zipfile(path):
        raise ModelError(f"no Keras model: {str(path)!r} is no .keras file (for a SavedModel use from_saved_model)")
    try:
        return tf.keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # whatever Keras makes of a damaged file
        raise ModelError(f"Keras cannot load {str(path)!r}: {_short(error)}") from error


def _layer(tensor: Any) -> str:
    """The name of the layer that a symbolic tensor of Keras comes from."""
    history = getattr(tensor, "_keras_history", None)
    operation = getattr(history, "operation", None) or getattr(history, "layer", None)
    return str(getattr(operation, "name", None) or tensor.name)


def _unique(names: list[str]) -> list[str]:
    result: list[str] = []
    for name in names:
        found, number = name, 2
        while found in result:
            found, number = f"{name}_{number}", number + 1
        result.append(found)
    return result


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:300] + " ..."
