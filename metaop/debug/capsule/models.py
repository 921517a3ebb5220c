"""The operators of a case as ONNX models, under names that say nothing of where they come from."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metaop.backends.isolation.protocol import encode_attrs
from metaop.debug.capsule import chain
from metaop.debug.capsule.places import Place, failure, plain_environment
from metaop.debug.capsule.source import NotExtracted
from metaop.graph.nodes import Constant, Node, Operator, Placeholder
from metaop.graph.order import execution_order
from metaop.graph.program import Value, value_of

__all__ = ["write_model"]

_ROOT = Path(__file__).resolve().parents[2]


def write_model(path: Path, outputs: Mapping[str, Node], place: Place | None = None) -> None:
    """Write the model of recorded nodes, ``output_0`` ... or ``gradient_0`` ... being its outputs.

    ``place`` is the release of ONNX Runtime that it is for; without one, the one that is installed here.
    """
    described = _describe(outputs)
    if place is not None and place.apart:
        _write_there(path, described, place)
        return
    try:
        path.write_bytes(chain.build(**described))
    except ImportError as error:
        raise NotExtracted(f"writing ONNX takes the packages onnx and onnxruntime ({error})") from None
    except Exception as error:  # bindings of operators that the runtime has not, or not of such types
        raise NotExtracted(" ".join(f"{type(error).__name__}: {error}".split())) from None


def _describe(outputs: Mapping[str, Node]) -> dict[str, Any]:
    names: dict[Value, str] = {}
    inputs, constants, steps = [], {}, []
    for node in execution_order(list(outputs.values())):
        if isinstance(node, Operator):
            made = []
            for index, known in enumerate(node.types):
                names[node, index] = f"v{len(names)}"
                made.append(_typed(names[node, index], known))
            given = [None if n is None else names[value_of(n)] for n in node.inputs]
            steps.append([node.op.name, dict(node.attrs), given, made])
        elif isinstance(node, Placeholder):
            names[node, 0] = node.name
            inputs.append(_typed(node.name, node.type))
        elif isinstance(node, Constant):
            names[node, 0] = f"c{len(names)}"
            constants[names[node, 0]] = node.value
    results = [[name.replace(" ", "_"), names[value_of(node)]] for name, node in outputs.items()]
    return {"steps": steps, "inputs": inputs, "constants": constants, "outputs": results}


def _typed(name: str, known: Any) -> list[Any]:
    if known.dtype.name == "bfloat16":
        raise NotExtracted("ONNX Runtime's Python interface takes no bfloat16")
    return [name, known.dtype.name, list(known.shape)]


def _write_there(path: Path, described: dict[str, Any], place: Place) -> None:
    """Have the release's own environment write the model."""
    told = {
        "steps": [[op, encode_attrs(attrs), given, made] for op, attrs, given, made in described["steps"]],
        "inputs": described["inputs"],
        "outputs": described["outputs"],
    }
    with tempfile.TemporaryDirectory() as folder:
        description, constants = Path(folder, "description.json"), Path(folder, "constants.npz")
        description.write_text(json.dumps(told), encoding="utf-8")
        np.savez(constants, **described["constants"])
        done = subprocess.run(
            [place.python, "-I", "-B", chain.__file__, _ROOT, description, constants, path],
            env=plain_environment(place),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=600.0,
            check=False,
        )
    if done.returncode:
        raise NotExtracted(failure(done.returncode, done.stderr.decode("utf-8", "replace")))
