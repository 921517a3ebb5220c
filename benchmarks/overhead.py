"""How much longer metaop takes than the same computation written by hand in the framework, in ratios.

    python -m benchmarks.overhead [--quick] [--only torch,ort,models] [--threads N]

Chains of 64 equal operators (see ``chains.py``) on each backend at two shapes, and two networks (``models.py``) on
PyTorch, forward and gradients with respect to all parameters. The hand-written networks run forward under
``torch.no_grad()``. Before anything is timed both sides must give the same values. PyTorch and TensorFlow compute in
one thread, unless told otherwise. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np

import metaop as mo
from benchmarks.chains import BY_HAND, CHAINS, LENGTH, SHAPES, by_metaop, data_of
from benchmarks.models import MODELS, Model
from benchmarks.timing import QUICK, Effort, Ratio, compare, geometric_mean
from metaop.backends import canonical
from metaop.errors import BackendError

PARTS = ("torch", "tensorflow", "onnxruntime", "tflite", "models")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, print tables, and print the JSON object last."""
    options = _parser().parse_args(arguments)
    effort = QUICK if options.quick else Effort()
    if options.threads:
        _limit_threads(options.only, options.threads)
    if options.threads != 1:
        effort = dataclasses.replace(effort, clock=time.perf_counter)
    chosen = list(CHAINS) if options.ops is None else options.ops
    length = 4 if options.quick else LENGTH
    report: dict[str, Any] = {"chain": length, "quick": options.quick, "threads": options.threads, "skipped": {}}
    for part in options.only:
        gc.collect()
        try:
            if part == "models":
                report["models"] = models(effort, 64 if options.quick else options.size)
            else:
                report[part] = chains(part, chosen, length, effort)
        except BackendError as error:
            report["skipped"][part] = str(error)
            print(f"{part}: skipped: {error}\n")
    print(_summary(report))
    print(json.dumps(report))
    return 0


def chains(backend: str, ops: Sequence[str], length: int, effort: Effort) -> dict[str, Any]:
    """Ratio per operator and their geometric mean, for each shape."""
    mo.Session(backend=backend)
    found: dict[str, Any] = {}
    for shape in SHAPES:
        title = str(list(shape))
        print(f"{backend} {title}: microseconds per operator, by metaop and by hand, and their ratio")
        ratios: dict[str, float] = {}
        for op in ops:
            x, operands = data_of(CHAINS[op], shape)
            by_hand = BY_HAND[backend](CHAINS[op], x, operands, length)
            if by_hand is None:
                continue
            ours = by_metaop(backend, CHAINS[op], x, operands, length)
            measured = _measured(f"{backend} {op}", lambda f=ours, x=x: f(x), lambda f=by_hand, x=x: f(x), effort)
            ratios[op] = round(measured.ratio, 4)
            print(_row(op, measured, length))
        mean = geometric_mean(ratios.values())
        print(f"  {'geometric mean':16} {'':>10} {'':>10} {mean:8.3f}\n")
        found[title] = {"ops": ratios, "geometric_mean": round(mean, 4)}
    return found


def models(effort: Effort, size: int) -> dict[str, Any]:
    """Ratios of both networks on PyTorch."""
    mo.Session(backend="torch")
    found: dict[str, Any] = {}
    print(f"networks on torch (images of {size} x {size}): microseconds, by metaop and by hand, and their ratio")
    for name, make in MODELS.items():
        model = make(size) if name == "mobilenet" else make()  # type: ignore[operator]
        found[name] = {}
        for what, sides in (("forward", _forward), ("gradient", _gradient)):
            measured = _measured(f"{name} {what}", *sides(model), effort)
            found[name][what] = round(measured.ratio, 4)
            print(_row(f"{name} {what}", measured, 1))
    print()
    for what in ("forward", "gradient"):
        found[f"geometric_mean_{what}"] = round(geometric_mean(found[name][what] for name in MODELS), 4)
    return found


def _forward(model: Model) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    session = mo.Session(backend="torch")
    weights = {k: torch.from_numpy(a) for k, a in {**model.weights, **model.fixed}.items()}
    x, data = model.inputs["x"], model.feed["x"]

    def ours() -> list[np.ndarray]:
        return [session.run(model.output, feed_dict={x: data})]

    def theirs() -> list[np.ndarray]:
        with torch.no_grad():
            return [model.by_hand({"x": torch.from_numpy(data)}, weights).numpy()]

    return ours, theirs


def _gradient(model: Model) -> tuple[Callable[[], Any], Callable[[], Any]]:
    import torch

    session = mo.Session(backend="torch")
    variables = list(model.variables.values())
    fed = {model.inputs[k]: a for k, a in model.feed.items()}
    trained = {k: torch.from_numpy(a).requires_grad_() for k, a in model.weights.items()}
    weights = {**trained, **{k: torch.from_numpy(a) for k, a in model.fixed.items()}}

    def ours() -> list[np.ndarray]:
        return session.gradients(model.loss, variables, feed_dict=fed)

    def theirs() -> list[np.ndarray]:
        loss = model.loss_by_hand({k: torch.from_numpy(a) for k, a in model.feed.items()}, weights)
        return [g.numpy() for g in torch.autograd.grad(loss, list(trained.values()))]

    return ours, theirs


def _measured(what: str, ours: Callable[[], Any], theirs: Callable[[], Any], effort: Effort) -> Ratio:
    """Warm both sides up and refuse to compare times of different computations."""
    for _ in range(2):
        found, expected = ours(), theirs()
    if isinstance(found, np.ndarray):
        found, expected = [found], [expected]
    # Of all results together: a gradient that is zero but for rounding has no scale of its own.
    scale = max(float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)) for b in expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * scale, err_msg=f"{what}: not the same computation")
    return compare(ours, theirs, effort)


def _row(name: str, measured: Ratio, divisor: int) -> str:
    times = (1e6 * seconds / divisor for seconds in (measured.ours, measured.theirs))
    return f"  {name:20} " + " ".join(f"{t:10.2f}" for t in times) + f" {measured.ratio:8.3f}"


def _summary(report: dict[str, Any]) -> str:
    lines = ["geometric means of the ratios"]
    for part in PARTS:
        for title, row in report.get(part, {}).items():
            if part != "models":
                lines.append(f"  {part:12} {title:12} {row['geometric_mean']:8.3f}")
    for name in MODELS:
        for what, ratio in report.get("models", {}).get(name, {}).items():
            lines.append(f"  {name:12} {what:12} {ratio:8.3f}")
    return "\n".join(lines)


def _limit_threads(parts: Sequence[str], threads: int) -> None:
    """On a machine that is not idle, threads that wait for each other would be all that is measured."""
    if {"torch", "models"} & set(parts):
        import torch

        torch.set_num_threads(threads)
    if {"tensorflow", "tflite"} & set(parts):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few rounds, only to see that everything runs")
    parser.add_argument("--only", type=_parts, default=PARTS, metavar="PARTS", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--ops", type=_ops, metavar="OPS", help="chains of these operators only")
    parser.add_argument("--threads", type=int, default=1, help="threads of each framework; 0: what it chooses itself")
    parser.add_argument("--size", type=int, default=224, help="height and width of MobileNet's images")
    return parser


def _parts(text: str) -> tuple[str, ...]:
    given = [name if name == "models" else canonical(name) for name in text.split(",")]
    unknown = [name for name in given if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not measured; choose among {', '.join(PARTS)}")
    return tuple(given)


def _ops(text: str) -> list[str]:
    unknown = [name for name in text.split(",") if name not in CHAINS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} has no chain; choose among {', '.join(CHAINS)}")
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
