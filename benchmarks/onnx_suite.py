"""ONNX's own node tests on metaop's backends: ``python -m benchmarks.onnx_suite [--backend numpy]... [-k softmax]``.

Each backend runs in a process of its own. A case that needs the value of an input while the graph is built (the shape
of a Reshape) is read once more with its small integer inputs made initializers, and counted as *fixed*. Where the
importer computes the whole result (Shape, Range), no operator is left for the backend: such a case says nothing about
the backend and is counted as *folded*. What is not exactly expressible is *unsupported*. Where the framework raises
instead of computing (no kernel for uint16) the case has *failed*. A result in float16 beyond the case's own tolerance,
which allows hardly more than one unit in the last place, is *rounded* if the expected result is within two units of
what the model gives in float64, and this one at most twice as far from it. Any other difference is *wrong*.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np

BACKENDS = ("numpy", "torch", "tensorflow", "tflite", "onnxruntime")


def cases(pattern: str = "") -> list[Any]:
    """Every node test whose name contains ``pattern``."""
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [c for c in loader.load_model_tests(kind="node") if pattern in c.name]


def run(case: Any, backend: str) -> tuple[str, str]:
    """``passed``, ``fixed``, ``folded``, ``rounded``, ``failed``, ``wrong`` or ``unsupported``, and why."""
    import metaop as mo
    from metaop.errors import FrameworkError

    model, status = case.model, "passed"
    try:
        graph = mo.from_onnx(model)
    except mo.ModelError as error:
        reason = _reason(error)
        if "constant" not in str(error) and "shape" not in str(error):
            return "unsupported", reason
        try:
            graph, status = mo.from_onnx(_fixed(case)), "fixed"
        except mo.ModelError as again:
            return "unsupported", _reason(again)
    if not any(isinstance(node, mo.Operator) for node in graph.nodes):
        status = "folded"
    taken = {node.name for node in graph.inputs}
    for inputs, expected in case.data_sets:
        names = [i.name for i in model.graph.input]
        # Optional inputs at the end may be left out.
        feeds = {n: _array(v) for n, v in zip(names, inputs, strict=False) if n in taken}
        try:
            results = graph.run(feeds, backend=backend)
        except mo.BackendError as error:
            return "unsupported", f"{backend}: {_short(error)}"
        except FrameworkError as error:
            return "failed", _short(error)
        for name, want, got in zip([o.name for o in model.graph.output], expected, results.values(), strict=True):
            why = _difference(_array(want), got, case.rtol, case.atol)
            if why and not _only_rounded(model, feeds, name, _array(want), got):
                return "wrong", f"{name}: {why}"
            status = "rounded" if why else status
    return status, ""


def _only_rounded(model: Any, feeds: dict[str, np.ndarray], name: str, want: np.ndarray, got: np.ndarray) -> bool:
    """Whether a float16 result is about as near to the float64 one as the expected result is, and both are near."""
    import metaop as mo

    if not want.dtype == got.dtype == np.float16 or want.shape != got.shape:
        return False
    wide = {n: a.astype(np.float64) if a.dtype == np.float16 else a for n, a in feeds.items()}
    try:
        exact = mo.from_onnx(_widened(model)).run(wide, backend="numpy")[name]
    except mo.ModelError:
        return False
    # Both: a mapping that is wrong in every precision is near to its own float64 result, and far from the expected one.
    off = np.abs(want - exact).max()
    near = off <= 2 * np.finfo(np.float16).eps * np.abs(exact).max()
    return bool(near and np.abs(got - exact).max() <= 2 * off)


def _widened(model: Any) -> Any:
    """The model with float64 wherever it has float16."""
    from onnx import AttributeProto, ModelProto, TensorProto, numpy_helper

    wide = ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT16:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    attributes = [a for node in graph.node for a in node.attribute]
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
            attribute.i = TensorProto.DOUBLE
    for stored in (*graph.initializer, *(a.t for a in attributes if a.type == AttributeProto.TENSOR)):
        if stored.data_type == TensorProto.FLOAT16:
            values = numpy_helper.to_array(stored).astype(np.float64)
            stored.CopyFrom(numpy_helper.from_array(values, stored.name))
    return wide


def _fixed(case: Any) -> Any:
    """The model with its integer and boolean inputs, scalars, and what Resize takes beside data, as initializers."""
    from onnx import ModelProto, numpy_helper

    model = ModelProto()
    model.CopyFrom(case.model)
    inputs = list(model.graph.input)
    beside = {name for node in model.graph.node if node.op_type in ("Resize", "Upsample") for name in node.input[1:]}
    for info, given in zip(inputs, case.data_sets[0][0], strict=False):
        value = _array(given)
        if value.ndim <= 1 and (value.dtype.kind in "iub" or value.size == 1 or info.name in beside):
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.input.remove(info)
    return model


def _array(value: Any) -> np.ndarray:
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _difference(want: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> str | None:
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        return None if np.array_equal(want, got) else "other values"
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    except AssertionError as error:
        return _short(error)
    return None


def _short(error: Any) -> str:
    return " ".join(str(error).split())[:300]


def _reason(error: Any) -> str:
    if error.unsupported:
        first = error.unsupported[0]
        return f"{first['op']}: {first['why']}"
    return str(error)


def _general(reason: str) -> str:
    """The reason without names and numbers, for grouping."""
    return re.sub(r"'[^']*'|\(inputs:.*|\[[^\]]*\]|\d+", "*", reason)[:110]


def worker(backend: str, pattern: str) -> None:
    """Run the cases, one line of JSON each."""
    for case in cases(pattern):
        print(json.dumps({"name": case.name, "start": True}), flush=True)
        try:
            status, why = run(case, backend)
        except Exception as error:
            status, why = "wrong", f"{type(error).__name__}: {_short(error)}"
        print(json.dumps({"name": case.name, "status": status, "why": why}), flush=True)


def collect(backend: str, pattern: str) -> list[dict[str, str]]:
    """The results of one backend, from a process of its own; the case that takes it down is wrong."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.onnx_suite", "--worker", backend, "-k", pattern]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    results = [line for line in lines if "status" in line]
    if done.returncode and lines and "start" in lines[-1]:
        results.append({"name": lines[-1]["name"], "status": "wrong", "why": f"the process died ({done.returncode})"})
    return results


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", help="may be given several times; all by default")
    parser.add_argument("-k", default="", help="only cases whose name contains this")
    parser.add_argument("--json", help="write every result to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.k)
        return 0
    everything = {}
    for backend in options.backend or BACKENDS:
        results = everything[backend] = collect(backend, options.k)
        count = Counter(r["status"] for r in results)
        kinds = ("passed", "fixed", "folded", "rounded", "failed", "wrong", "unsupported")
        print(f"{backend}: {len(results)} cases; " + ", ".join(f"{count[kind]} {kind}" for kind in kinds))
        reasons = Counter(_general(r["why"]) for r in results if r["status"] == "unsupported")
        for reason, number in reasons.most_common():
            print(f"  {number:4} {reason}")
        for r in results:
            if r["status"] in ("wrong", "failed"):
                print(f"  {r['status'].upper()} {r['name']}: {r['why']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(everything, file, indent=1)
    return int(any(r["status"] == "wrong" for results in everything.values() for r in results))


if __name__ == "__main__":
    sys.exit(main())
