"""Some operators as one ONNX model, written by the bindings of ONNX Runtime: node for node what metaop runs there.

The bindings write for the release that they run beside. For one that lives in an environment of its own this file is
run there as a script, so it must do with Python 3.7; see :func:`main`.
"""

import importlib
import json
import os
import runpy
import sys
from typing import Any, Dict, List

import numpy as np


def build(steps: Any, inputs: Any, constants: Dict[str, np.ndarray], outputs: Any) -> bytes:
    """The model, serialized.

    ``steps`` are lists of operator, attributes, names of inputs (or ``None``) and outputs; an output, like each of
    ``inputs``, is a list of name, dtype and shape. ``constants`` maps names to arrays. ``outputs`` are pairs of the
    name that an output of the model gets, and the one that it has in ``steps``.
    """
    importlib.import_module("metaop.backends.onnxruntime")
    bind = importlib.import_module("metaop.backends.onnxruntime.bindings").bind
    graph = importlib.import_module("metaop.backends.onnxruntime.graph")

    class Lenient(graph.Graph):  # type: ignore[name-defined]
        """A model may be written down although the runtime cannot run it."""

        def no_kernel(self, reason: str) -> None:
            pass

    o = Lenient()
    values = {}
    for name, dtype, shape in inputs:
        values[name] = graph.Value(name, np.dtype(dtype), tuple(shape))
        o.inputs.append(values[name])
    for name, array in constants.items():
        values[name] = o.constant(array, array.dtype)
    for op, attrs, given, made in steps:
        binding = bind.find(op)
        tensors = [None if name is None else values[name] for name in given]
        result = binding.function(o, *tensors, **binding.keywords(attrs))
        for value, (name, dtype, shape) in zip(result if isinstance(result, tuple) else (result,), made):
            values[name] = graph.Value(value.name, np.dtype(dtype), tuple(shape))
    own = []  # type: List[Any]
    taken = set()
    produced = {name for node in o.nodes for name in node.output}
    for _, name in outputs:
        value = values[name]
        if value.name in taken or value.name not in produced:
            value = o.Identity(value)
        taken.add(value.name)
        own.append(value)
    # Under the names that are asked for.
    names = {value.name: name for value, (name, _) in zip(own, outputs)}
    for node in o.nodes:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]
    for value in own:
        value.name = names[value.name]
    content, _ = o.model(own)
    return bytes(content)


def main(arguments: List[str]) -> None:
    """``python chain.py <metaop's folder> <description.json> <constants.npz> <model.onnx>``"""
    root, description, constants, target = arguments
    # What mounts the bindings without running metaop itself, which needs a newer Python.
    runpy.run_path(os.path.join(root, "backends", "isolation", "worker.py"))["_mount"](root)
    decode = importlib.import_module("metaop.backends.isolation.protocol").decode_attrs
    with open(description) as file:
        told = json.load(file)
    steps = [[op, decode(attrs), given, made] for op, attrs, given, made in told["steps"]]
    with np.load(constants) as arrays:
        model = build(steps, told["inputs"], {name: arrays[name] for name in arrays.files}, told["outputs"])
    with open(target, "wb") as file:
        file.write(model)


if __name__ == "__main__":
    main(sys.argv[1:])
