"""The operators of a case as ONNX models, under names that say nothing of where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from metaop.debug.capsule.case import Case
from metaop.graph.nodes import Node, Operator, Placeholder
from metaop.graph.program import Value
from metaop.models.onnx import to_onnx

__all__ = ["forward_graph", "write_model"]


def forward_graph(case: Case) -> dict[str, Node]:
    """The operators once more, on placeholders ``input_0`` ... of fixed types: a node for each output."""
    nodes: dict[Value, Node] = {}
    for index, value in enumerate(case.inputs):
        known = case.types[value]
        nodes[value] = Placeholder(known.shape, known.dtype, name=f"input_{index}")
    for number, step in enumerate(case.steps):
        inputs = tuple(None if v is None else nodes[v] for v in step.inputs)
        types = tuple(case.types[v] for v in step.outputs)
        operator = Operator(step.op, inputs, step.attrs, types, f"{step.op.name}_{number}")
        nodes.update(zip(step.outputs, operator.results, strict=True))
    return {f"output {i}": nodes[v] for i, v in enumerate(case.outputs)}


def write_model(path: Path, outputs: Mapping[str, Node]) -> None:
    """Write the model that computes these nodes, as outputs ``output_0`` ... or ``gradient_0`` ..."""
    to_onnx({name.replace(" ", "_"): node for name, node in outputs.items()}, path)
