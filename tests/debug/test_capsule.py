"""Capsules: every script gives the bits that metaop got, and knows nothing of metaop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from metaop.backends import get
from metaop.debug.capsule import Case
from metaop.debug.capsule import data as files
from metaop.debug.capsule.case import evaluate
from metaop.debug.capsule.models import write_model
from metaop.debug.capsule.places import Place
from metaop.debug.capsule.scripts import script_class
from metaop.debug.capsule.source import NotExtracted
from metaop.graph.nodes import Operator, Placeholder
from metaop.ops import REGISTRY
from metaop.types import is_floating
from tests import checks

#: runs many scripts in one process, in which metaop cannot be imported
RUN_ALL = """
import os, runpy, sys, traceback, json
sys.modules["metaop"] = None
failed = {}
for folder in sys.argv[1:]:
    os.chdir(folder)
    try:
        runpy.run_path("run.py", run_name="__main__")
    except Exception as error:
        failed[folder] = traceback.format_exc()
with open("failed.json", "w") as file:
    json.dump(failed, file)
"""


def case_of(sample: checks.Case, spec: str) -> Case:
    """A sample of an operator as a case, with gradients where there are any."""
    op, arrays = sample.op, sample.inputs()
    leaves = [None if a is None else Placeholder(a.shape, a.dtype, name=f"x{i}") for i, a in enumerate(arrays)]
    node = Operator(op, tuple(leaves), sample.attrs, sample.output_types, op.name)
    inputs = {(n, 0): a for n, a in zip(leaves, arrays, strict=True) if n is not None}
    outputs = tuple((node, i) for i in range(len(node.types)))
    incoming = {}
    if op.differentiable:
        grads = checks.incoming_gradients(sample.output_types, 0)
        incoming = {v: g for v, g in zip(outputs, grads, strict=True) if g is not None}
    wrt = tuple(v for v, a in inputs.items() if is_floating(a.dtype)) if incoming else ()
    return Case((node,), {node: sample.attrs}, inputs, outputs, incoming, wrt, (get(spec), get(spec)), {}, None, "", [])


def samples(name: str, spec: str) -> list[checks.Case]:
    op = REGISTRY[name]
    found = [c for c in checks.cases(op, [checks.main_dtype(op)], special=False) if checks.ordinary(c)]
    return found[:1] if spec == "jax" else [found[i] for i in sorted({0, len(found) - 1})]


def write(folder: Path, case: Case, spec: str, slug: str):
    """The script of a case and what it reads; what metaop got."""
    backend = get(spec)
    got = evaluate(case, backend)
    if got.failure is not None:
        return got
    place = Place.of(backend)
    script = script_class(place.framework)(case, backend, got, slug, place.version)
    folder.mkdir()
    text = script.text()
    compile(text, "run.py", "exec")
    (folder / "run.py").write_text(text)
    files.write(folder / "inputs.npz", case.data)
    for name, arrays in script.files.items():
        files.write(folder / name, arrays)
    if place.framework == "onnxruntime":
        for kind, file in (("output", "model_x.onnx"), ("gradient", "gradient_x.onnx")):
            nodes = {k: v for k, v in got.graph.items() if k.startswith(kind)}
            if nodes:
                write_model(folder / file, nodes, place)
    return got


def sweep(spec: str, ops, folder: Path, chosen=samples):
    """What is wrong with the scripts of a backend, and how many operators are right."""
    wanted, wrong = {}, {}
    for name in ops:
        if get(spec).support(name)[0] == "unsupported":
            continue
        for number, sample in enumerate(chosen(name, spec)):
            place = folder / f"{name}-{number}"
            try:
                got = write(place, case_of(sample, spec), spec, "x")
            except (NotExtracted, SyntaxError) as error:
                wrong[place.name] = repr(error)
                continue
            if got.failure is None:
                wanted[place] = got.arrays
    places = list(wanted)
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN_ALL, *map(str, places)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    failed = json.loads((places[-1] / "failed.json").read_text())
    for place, arrays in wanted.items():
        if str(place) in failed:
            wrong[place.name] = failed[str(place)]
            continue
        mine = {files.file_name(k, a.dtype): files.stored(a) for k, a in arrays.items()}
        apart = files.differ(mine, files.read(place / "result_x.npz"))
        if apart:
            wrong[place.name] = f"other bits of {apart}"
    return wrong, {p.name.rpartition("-")[0] for p in wanted} - {n.rpartition("-")[0] for n in wrong}


@pytest.mark.parametrize("spec", ["numpy", "torch", "tensorflow", "onnxruntime", "jax"])
def test_scripts_of_every_operator(spec, tmp_path):
    wrong, right = sweep(spec, checks.OPS, tmp_path)
    assert wrong == {}
    assert len(right) > 150
