"""ONNX's own node tests on metaop's backends: ``python -m benchmarks.onnx_suite [--backend numpy]... [-k softmax]``.

Each backend runs in a process of its own. Where the importer computes the whole result (Shape, Constant), no operator
is left for the backend: such a case says nothing about the backend and is counted as *folded*. What is not exactly
expressible is *unsupported*. Where the framework raises instead of computing (no kernel for uint16) the case has
*failed*. A result beyond the case's own tolerance is held against the same model in float64: it is *rounded* if it is
no further from that than rounding explains and the expected result is not either, and *wrong* otherwise, as is any
other difference. What rounding explains is a noise floor measured on the very data: 36 times that in float32, twice in
float16 and bfloat16. Rounded cases are listed one by one, with their figures, and do not count as passed.
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

BACKENDS = ("numpy", "torch", "tensorflow", "tflite", "onnxruntime", "jax")


def cases(pattern: str = "") -> list[Any]:
    """Every node test whose name contains ``pattern``."""
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [c for c in loader.load_model_tests(kind="node") if pattern in c.name]


def run(case: Any, backend: str) -> tuple[str, str]:
    """``passed``, ``folded``, ``rounded``, ``failed``, ``wrong`` or ``unsupported``, and why."""
    import metaop as mo
    from metaop.errors import FrameworkError

    model, status, reason = case.model, "passed", ""
    try:
        graph = mo.from_onnx(model)
    except mo.ModelError as error:
        return "unsupported", _reason(error)
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
        except mo.UserError as error:  # refused as soon as data were known
            return "unsupported", _short(error)
        except FrameworkError as error:
            return "failed", _short(error)
        for name, want, got in zip([o.name for o in model.graph.output], expected, results.values(), strict=True):
            why = _difference(_array(want), got, case.rtol, case.atol)
            if why:
                score = _rounding(model, feeds, name, _array(want), got)
                if score is None or not score <= 1:
                    return "wrong", f"{name}: {why}" + ("" if score is None else f" ({score:.2g} times rounding)")
                status, reason = "rounded", f"{name}: {score:.2g} of what rounding explains; {why}"
    return status, reason


#: How many noise floors correct float32 results are apart at most, as measured over 24 operators and shapes.
FLOORS = 36
#: The same where a single rounding is so large that not many of them may be granted.
FLOORS_COARSE = 2


def _rounding(model: Any, feeds: dict[str, np.ndarray], name: str, want: np.ndarray, got: np.ndarray) -> float | None:
    """How far a result is from that in float64, in units of what rounding explains; ``None`` where that is unknown."""
    import metaop as mo
    from metaop.types import epsilon

    narrow = want.dtype
    coarse = narrow == np.float16 or narrow.name == "bfloat16"
    if narrow != got.dtype or not (coarse or narrow == np.float32) or want.shape != got.shape or not want.size:
        return None
    try:
        exact_model = mo.from_onnx(_widened(model, narrow))
        taken = {node.name for node in exact_model.inputs}
        wide = {n: a.astype(np.float64) if a.dtype == narrow else a for n, a in feeds.items() if n in taken}
        exact = exact_model.run(wide, backend="numpy")[name]
        if exact.shape != got.shape or not all(np.isfinite(a.astype(np.float64)).all() for a in (exact, got, want)):
            return None
        error, expected = np.abs(got.astype(np.float64) - exact), np.abs(want.astype(np.float64) - exact)
        half = epsilon(narrow) / 2
        rng = np.random.default_rng(0)
        moved = []
        for _ in range(4):
            near = {
                n: a * (1 + half * rng.uniform(-1, 1, a.shape)) if feeds[n].dtype == narrow else a
                for n, a in wide.items()
            }
            moved.append(exact_model.run(near, backend="numpy")[name] - exact)
    except mo.MetaopError:
        return None
    spread = np.sqrt(np.mean(np.square(moved), axis=0))
    floor = spread + half * np.abs(exact) + half * np.sqrt(np.mean(np.square(exact)))
    floor = np.maximum(floor, 1e-300)
    # Both must be near: the float64 model is ours, and where it means something else than ONNX does, only the expected
    # result shows it.
    furthest = max(float((error / floor).max()), float((expected / floor).max()))
    return furthest / (FLOORS_COARSE if coarse else FLOORS)


def _widened(model: Any, narrow: np.dtype) -> Any:
    """The model with float64 wherever it has that dtype."""
    from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

    number = helper.np_dtype_to_tensor_dtype(narrow)
    wide = ModelProto()
    wide.CopyFrom(model)
    graph = wide.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == number:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    attributes = [a for node in graph.node for a in node.attribute]
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == number:
            attribute.i = TensorProto.DOUBLE
    for stored in (*graph.initializer, *(a.t for a in attributes if a.type == AttributeProto.TENSOR)):
        if stored.data_type == number:
            values = numpy_helper.to_array(stored).astype(np.float64)
            stored.CopyFrom(numpy_helper.from_array(values, stored.name))
    return wide


def _array(value: Any) -> np.ndarray:
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _difference(want: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> str | None:
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.name == "bfloat16":
        want, got = want.astype(np.float32), got.astype(np.float32)
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
    if done.returncode and not lines:
        raise SystemExit(f"{backend}: the suite did not start")
    if done.returncode and "start" in lines[-1]:
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
        kinds = ("passed", "folded", "rounded", "failed", "wrong", "unsupported")
        print(f"{backend}: {len(results)} cases; " + ", ".join(f"{count[kind]} {kind}" for kind in kinds))
        reasons = Counter(_general(r["why"]) for r in results if r["status"] == "unsupported")
        for reason, number in reasons.most_common():
            print(f"  {number:4} {reason}")
        for r in results:
            if r["status"] in ("wrong", "failed", "rounded"):
                print(f"  {r['status'].upper()} {r['name']}: {r['why']}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(everything, file, indent=1)
    return int(any(r["status"] == "wrong" for results in everything.values() for r in results))


if __name__ == "__main__":
    sys.exit(main())
