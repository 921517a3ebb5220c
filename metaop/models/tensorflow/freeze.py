"""From a Keras model or a SavedModel to one TensorFlow graph in which functions are inlined and variables are inputs.

TensorFlow's own way to freeze a function makes variables constants of the graph, which forgets which is which, copies
every weight and ends at 2 GB. Here each becomes a placeholder of its dtype and shape, and its value stays outside.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.util import deprecation

from metaop.errors import ModelError, UsageError

__all__ = ["Frozen", "Weight", "freeze_function", "freeze_keras", "freeze_saved_model"]

#: operators that change a variable
_WRITES = ("Assign", "ResourceScatter", "ResourceApply", "ResourceSparseApply", "ResourceStridedSliceAssign")


@dataclass
class Weight:
    """A variable: its name as users know it, and its value."""

    name: str
    value: np.ndarray
    trainable: bool = False


@dataclass
class Frozen:
    """A graph, its inputs and outputs by the names that users know, and its weights."""

    graph: tf.Graph
    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]
    #: by the name of the placeholder that stands for the variable
    weights: dict[str, Weight]
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
        function = _traced(model, call, specs)
    except Exception as error:  # whatever a layer raises while it is traced
        raise ModelError(f"TensorFlow cannot trace the model {model.name!r}: {_short(error)}") from error
    known = {}
    for weight in model.weights:
        variable = weight if isinstance(weight, tf.Variable) else weight.value
        name = getattr(weight, "path", None) or variable.name.partition(":")[0]
        known[id(variable.handle)] = (name, weight.trainable)
    frozen = freeze_function(function, names, _unique([_layer(t) for t in outputs]), known)
    frozen.name = model.name
    frozen.layers = frozenset([model.name, *(layer.name for layer in model._flatten_layers())])
    return frozen


def _traced(model: Any, call: Any, specs: list[tf.TensorSpec]) -> Any:
    """The function, with recurrent layers written out step by step: the same numbers without a loop.

    That takes as many steps as are known; where they are not, the layers stay as they were.
    """
    layers = [layer for layer in model._flatten_layers() if getattr(layer, "unroll", None) is False]
    try:
        for layer in layers:
            layer.unroll = True
        return tf.function(call, input_signature=specs, autograph=False).get_concrete_function()
    except Exception:
        if not layers:
            raise
    finally:
        for layer in layers:
            layer.unroll = False
    return tf.function(call, input_signature=specs, autograph=False).get_concrete_function()


def freeze_function(
    function: Any, inputs: list[str], outputs: list[str], known: Mapping[int, tuple[str, bool]] | None = None
) -> Frozen:
    """A concrete function, with names for its inputs and outputs.

    ``known`` has the name of a variable, and whether it is trainable, by the identity of its handle; without it
    TensorFlow is asked.
    """
    variables = {id(v.handle): v for v in function.graph.variables}
    handles = {}
    for outside, inside in function.graph.captures:
        variable = variables.get(id(outside))
        if variable is not None:
            given = (known or {}).get(id(outside))
            name, trainable = given or (variable.name.partition(":")[0], known is None and variable.trainable)
            handles[inside.op.name] = Weight(name, variable.numpy(), trainable)
        elif outside.dtype not in (tf.resource, tf.variant):  # a tensor that a layer holds
            handles[inside.op.name] = Weight(inside.op.name, outside.numpy())
    tensors = [t.name for t in (*function.inputs[: len(inputs)], *function.outputs)]
    graph, weights = _graph(function.graph.as_graph_def(), tensors, handles)
    found = [graph.as_graph_element(name) for name in tensors]
    return Frozen(
        graph,
        dict(zip(inputs, found[: len(inputs)], strict=True)),
        dict(zip(outputs, found[len(inputs) :], strict=True)),
        weights,
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
        known = ", ".join(map(repr, sorted(signatures))) or "none"
        raise ModelError(f"the SavedModel {str(folder)!r} has no signature {signature!r}; there are {known}")
    chosen = signatures[signature]
    for what, infos in (("input", chosen.inputs), ("output", chosen.outputs)):
        for name, info in infos.items():
            if info.WhichOneof("encoding") != "name":
                raise ModelError(f"the {what} {name!r} of the SavedModel is no dense tensor")
    try:
        tensors = [info.name for info in (*chosen.inputs.values(), *chosen.outputs.values())]
        definition, values = _loaded(folder, tags, tensors)
        graph, weights = _graph(definition, tensors, _saved_weights(stored, values))
        inputs = {name: graph.as_graph_element(info.name) for name, info in sorted(chosen.inputs.items())}
        outputs = {name: graph.as_graph_element(info.name) for name, info in sorted(chosen.outputs.items())}
    except ModelError:
        raise
    except Exception as error:  # TensorFlow's own, of many kinds
        raise ModelError(f"TensorFlow cannot load the SavedModel {str(folder)!r}: {_short(error)}") from error
    return Frozen(graph, inputs, outputs, weights, folder.name)


def _saved_weights(stored: Any, values: dict[str, np.ndarray]) -> dict[str, Weight]:
    """The variables of a SavedModel: one whose name another one has too is saved with a number behind it."""
    trainable: dict[str, bool] = {}
    for node in stored.object_graph_def.nodes:
        if node.WhichOneof("kind") == "variable":
            name = node.variable.name
            trainable[name] = node.variable.trainable and trainable.get(name, True)
    plain = {name: name if name in trainable else re.sub(r"_\d+$", "", name) for name in values}
    return {name: Weight(plain[name], value, trainable.get(plain[name], False)) for name, value in values.items()}


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


def _loaded(folder: Path, tags: list[str], tensors: list[str]) -> tuple[Any, dict[str, np.ndarray]]:
    """The graph, and the value of each variable by the name of its handle.

    The loader of TensorFlow 1 reads graph and variables only. That of TensorFlow 2 rebuilds Python objects too, and
    fails on optimizers of older releases.
    """
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session, deprecation.silence():
        tf.compat.v1.saved_model.load(session, tags, str(folder))
        definition = _pruned(graph.as_graph_def(), tensors)
        handles = [graph.get_operation_by_name(node.name) for node in definition.node if node.op == "VarHandleOp"]
        reads = {
            op.name: tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=op.get_attr("dtype")) for op in handles
        }
        return definition, session.run(reads)


def _graph(definition: Any, tensors: list[str], weights: Mapping[str, Weight]) -> tuple[tf.Graph, dict[str, Weight]]:
    """The graph without calls of functions and without variables, as far as ``tensors`` need it.

    ``weights`` are by the names of handles; the result has them by the names of placeholders.
    """
    try:
        definition = _pruned(_inlined(definition, tensors), tensors)
        definition, placed = _without_variables(definition, weights)
        return _imported(definition), placed
    except ModelError:
        raise
    except Exception as error:  # TensorFlow's own, of many kinds
        raise ModelError(f"TensorFlow cannot inline the functions of the model: {_short(error)}") from error


def _pruned(definition: Any, tensors: list[str]) -> Any:
    """The graph without what ``tensors`` do not depend on."""
    nodes = {node.name: node for node in definition.node}
    stack, seen = [name.partition(":")[0] for name in tensors], set()
    while stack:
        name = stack.pop()
        if name in nodes and name not in seen:
            seen.add(name)
            stack += [i.removeprefix("^").partition(":")[0] for i in nodes[name].input]
    result = tf.compat.v1.GraphDef(versions=definition.versions, library=definition.library)
    result.node.extend(node for node in definition.node if node.name in seen)
    return result


def _inlined(definition: Any, tensors: list[str]) -> Any:
    """The graph without calls of functions.

    In a graph of its own, not by a concrete function: two SavedModels may have different functions of one name.
    """
    # An implementation for a device, or that it is to be compiled as a whole, would keep a function from being inlined.
    for function in definition.library.function:
        for name in ("api_implements", "_XlaMustCompile", "_noinline"):
            function.attr.pop(name, None)
    for node in [*definition.node, *(n for f in definition.library.function for n in f.node_def)]:
        for name in ("_lower_using_switch_merge", "_XlaMustCompile"):
            node.attr.pop(name, None)
    meta = tf.compat.v1.train.export_meta_graph(graph_def=definition, graph=_imported(definition))
    meta.collection_def["train_op"].node_list.value.extend(tensors)
    config = tf.compat.v1.ConfigProto()
    rewriting = config.graph_options.rewrite_options
    rewriting.min_graph_nodes = -1
    rewriting.optimizers.append("function")
    return tf_optimizer.OptimizeGraph(config, meta)


def _without_variables(definition: Any, weights: Mapping[str, Weight]) -> tuple[Any, dict[str, Weight]]:
    """The graph with a placeholder for each variable that is read, and the weights by the names of these."""
    nodes = {node.name: node for node in definition.node}

    def source(name: str) -> str | None:
        """The handle behind an input."""
        seen = set()
        name = name.partition(":")[0]
        while name not in weights:
            node = nodes.get(name)
            if node is None or node.op != "Identity" or name in seen:
                return None
            seen.add(name)
            name = node.input[0].partition(":")[0]
        return name

    def value(name: str) -> str:
        """The placeholder of the variable behind an input."""
        weight = source(name)
        assert weight is not None
        found = f"{weight}/value"
        if found not in nodes:
            array = weights[weight].value
            nodes[found] = definition.node.add(name=found, op="Placeholder")
            nodes[found].attr["dtype"].type = tf.as_dtype(array.dtype).as_datatype_enum
            nodes[found].attr["shape"].shape.CopyFrom(tf.TensorShape(array.shape).as_proto())
            placed[found] = weights[weight]
        return found

    placed: dict[str, Weight] = {}
    resource = tf.resource.as_datatype_enum
    for node in list(definition.node):
        behind = [source(name) for name in node.input]
        if node.name in weights and node.op == "Placeholder" and node.attr["dtype"].type != resource:
            placed[node.name] = weights[node.name]  # a tensor, not a variable
        elif node.op == "ReadVariableOp" and behind[0] is not None:
            node.op = "Identity"
            node.input[0] = value(node.input[0])
            node.attr["T"].type = node.attr.pop("dtype").type
        elif node.op == "ResourceGather" and behind[0] is not None:
            axis = definition.node.add(name=f"{node.name}/axis", op="Const")
            axis.attr["dtype"].type = tf.int32.as_datatype_enum
            axis.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0, tf.int32))
            node.op = "GatherV2"
            node.input[0] = value(node.input[0])
            node.input.insert(2, axis.name)
            node.attr["Taxis"].type = tf.int32.as_datatype_enum
            node.attr["Tparams"].type = node.attr.pop("dtype").type
            node.attr.pop("validate_indices", None)
        elif node.op.startswith(_WRITES) and any(behind):
            written = weights[next(filter(None, behind))]
            raise ModelError(f"the model changes its variable {written.name!r} while it runs ({node.name!r})")
    return definition, placed


def _imported(definition: Any) -> tf.Graph:
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(definition, name="")
    return graph


def _load_keras(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"no Keras model: {str(path)!r} is {'no file' if path.exists() else 'not there'}")
    if path.suffix != ".keras" or not zipfile.is_zipfile(path):
        raise ModelError(f"no Keras model: {str(path)!r} is no .keras file (for a SavedModel use from_saved_model)")
    try:
        import keras  # it comes with TensorFlow

        return keras.saving.load_model(path, compile=False, safe_mode=True)
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
