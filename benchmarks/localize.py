"""How long it takes to find the operator: ``python -m benchmarks.localize``.

A fault is planted at one node of a CNN of 200 operators and of a transformer of 12 layers. Three ways to find it are
timed: Algorithm 1 from scratch (one whole run, forward and backward, per operator), the incremental sweep (the same
numbers), and ``method="auto"``. Then the local check is timed on ever deeper networks, beside what
``torch.onnx.verification.verify_onnx_program(compare_intermediates=True)`` takes for the same; and the memory that
localising a ResNet-50 takes is compared with that of one forward and backward pass.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import metaop as mo
from benchmarks import debugged
from benchmarks.debugged import Network
from metaop.debug.evaluate import Evaluator, Outcome, Side, distance
from metaop.graph.nodes import Operator

__all__ = ["main"]

#: the frameworks compared, and into which of them the fault goes
PAIR = ("torch", "onnxruntime")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.localize", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small networks, and no comparison with torch.onnx")
    parser.add_argument("--part", choices=["methods", "depth", "reduction", "memory"], help="only this part")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch (default: 1)")
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(given.threads)
    parts: dict[str, Callable[[bool], dict[str, Any]]] = {
        "methods": methods,
        "depth": depth,
        "reduction": reduction,
        "memory": memory,
    }
    report: dict[str, Any] = {}
    for name, part in parts.items():
        if given.part in (None, name):
            report[name] = part(given.quick)
    print(json.dumps(report))
    return 0


# -- three ways --------------------------------------------------------------------------------------------------------


def networks(quick: bool) -> dict[str, tuple[Network, str]]:
    """The networks, and the node at which the fault is."""
    if quick:
        return {
            "cnn": (debugged.cnn(2, 4, 8, 1), "block1.conv0"),
            "transformer": (debugged.transformer(1, 8, 2, 4, 1), "layer0.gelu"),
        }
    return {
        "cnn": (debugged.cnn(28, 16, 16, 4), "block13.conv1"),
        "transformer": (debugged.transformer(12, 64, 4, 32, 2), "layer6.gelu"),
    }


def faulty(node: Operator, factor: float = 1.01) -> str:
    """PyTorch with the operator scaled."""
    from metaop.backends import get

    def wrong(*inputs: Any, **attrs: Any) -> Any:
        return factor * get("torch").call(node.op.name, attrs, list(inputs))[0]

    mo.derive("torch", name="torch-faulty", forward={node.op.name: wrong})
    return "torch-faulty"


def from_scratch(evaluator: Evaluator, sides: tuple[Side, Side]) -> list[tuple[str, float, float | None]]:
    """Algorithm 1 as it is written."""
    swapped: set[Operator] = set()

    def run() -> Outcome:
        return evaluator.run(lambda node: sides[1](node) if node in swapped else sides[0](node))

    before, found = run(), []
    for node in evaluator.program.operators[::-1]:
        swapped.add(node)
        after = run()
        moved = distance(before, after)
        found.append((node.name, moved.output, moved.gradient))
        before = after
    return found


def methods(quick: bool) -> dict[str, Any]:
    """Seconds of each, on two pairs: with another framework, and with the same one but for the fault."""
    print(f"{'network':<14}{'pair':<26}{'nodes':>6}{'scratch':>10}{'sweep':>10}{'auto':>10}{'sweep x':>9}{'auto x':>8}")
    report: dict[str, Any] = {}
    for name, (network, place) in networks(quick).items():
        node = network.node(place)
        wrong = {None: "torch", node: faulty(node)}
        for pair in (("onnxruntime", wrong), ("torch", wrong)):
            row = _methods(network, place, pair, 1 if quick else 3)
            label = f"{pair[0]} / torch with fault"
            report[f"{name}, {label}"] = row
            print(
                f"{name:<14}{label:<26}{row['nodes']:>6}{row['scratch']:>9.2f}s{row['sweep']:>9.2f}s{row['auto']:>9.2f}s"
                f"{row['scratch'] / row['sweep']:>8.1f}x{row['scratch'] / row['auto']:>7.1f}x"
                f"  rank 1: {', '.join(row['first'])}{'' if row['same'] else '  NUMBERS DIFFER'}"
            )
    return report


def _methods(network: Network, place: str, pair: tuple[Any, Any], rounds: int) -> dict[str, Any]:
    def session(method: Any) -> tuple[float, mo.DebugReport]:
        start = time.perf_counter()
        report = mo.DebugSession(progress=False).run(network.loss, network.feeds, frameworks=list(pair), method=method)
        return time.perf_counter() - start, report

    sides = Side(pair[0]), Side(pair[1])
    evaluator = Evaluator([network.loss], network.feeds, 0, True)
    session("auto")  # kernels are compiled, sessions built, modules imported
    took: dict[str, list[float]] = {"scratch": [], "sweep": [], "auto": []}
    first: list[str] = []
    for _ in range(rounds):
        start = time.perf_counter()
        wanted = from_scratch(evaluator, sides)
        took["scratch"].append(time.perf_counter() - start)
        seconds, swept = session("sweep")
        took["sweep"].append(seconds)
        seconds, found = session("auto")
        took["auto"].append(seconds)
        first = [report.suspects[0].node if report.suspects else "nobody" for report in (swept, found)]
    return {
        "nodes": len(network.operators),
        "place": place,
        "first": first,
        "same": wanted == [(r.node, r.output_delta, r.gradient_delta) for r in swept.records],
        **{name: min(times) for name, times in took.items()},
    }


# -- ever deeper -------------------------------------------------------------------------------------------------------


def depth(quick: bool) -> dict[str, Any]:
    """The local check between PyTorch and ONNX Runtime, on values; and what PyTorch itself offers for that."""
    import torch

    print(f"{'layers':>7}{'nodes':>7}{'local check':>13}{'per layer':>12}{'verify_onnx_program':>22}")
    report = {}
    for layers in (2, 4) if quick else (25, 50, 100, 200):
        module = _mlp(layers)
        x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
        model = mo.from_torch(module, (x,))
        feeds = model.feed_dict({model.inputs[0].name: x.numpy()})

        def check(model: Any = model, feeds: Any = feeds) -> mo.DebugReport:
            session = mo.DebugSession(progress=False)
            return session.run(model.outputs, feeds, frameworks=list(PAIR), gradients=False, method="local")

        found = check()
        if not found.consistent:
            raise SystemExit(f"a correct network is found inconsistent:\n{found}")
        best = min(_seconds(check) for _ in range(1 if quick else 7))
        theirs = None if quick else _seconds(lambda module=module, x=x: _verify(module, x))  # type: ignore[misc]
        report[str(layers)] = {"local": best, "torch_onnx": theirs, "nodes": len(found.records)}
        shown = "-" if theirs is None else f"{theirs:.1f} s"
        print(f"{layers:>7}{len(found.records):>7}{best:>11.3f} s{best / layers * 1e3:>9.2f} ms{shown:>22}", flush=True)
    return report


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _mlp(layers: int) -> Any:
    from torch import nn

    from benchmarks.torch_zoo import seeded

    return seeded(nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(64, 64), nn.ReLU())))).eval()


def _verify(module: Any, x: Any) -> Any:
    import torch

    program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    from torch.onnx import verification

    return verification.verify_onnx_program(program, compare_intermediates=True)


# -- from a model to scripts ------------------------------------------------------------------------------------------


def squared_off(x: Any) -> Any:
    """A relu that is wrong for large numbers; a function that a capsule can write down."""
    import torch

    return torch.where(x > 1.0, x * x, torch.relu(x))


def reduction(quick: bool) -> dict[str, Any]:
    """Seconds from a network with one fault to a capsule whose scripts were run."""
    network = debugged.cnn(2, 4, 8, 1) if quick else debugged.cnn(28, 16, 16, 4)
    node = next(n for n in network.operators if n.op.name == "relu" and n.name != network.operators[0].name)
    mo.derive("torch", name="torch-squared", forward={"relu": squared_off})
    took: list[dict[str, float]] = []
    for _ in range(1 if quick else 3):
        marks = [time.perf_counter()]
        with tempfile.TemporaryDirectory() as folder, mo.DebugSession(progress=False) as session:
            sides = ["onnxruntime", {None: "torch", node: "torch-squared"}]
            report = session.run(network.loss, network.feeds, frameworks=sides)
            marks.append(time.perf_counter())
            verdict = session.verify(report.suspects[0])
            marks.append(time.perf_counter())
            capsule = report.export(folder)
            marks.append(time.perf_counter())
        if not (verdict and verdict.nodes == (node.name,) and capsule):
            raise SystemExit(f"the fault at {node.name} was not reduced: {verdict}\n{capsule}")
        parts = dict(zip(("found", "verified", "exported"), np.diff(marks).tolist(), strict=True))
        took.append({**parts, "all": marks[-1] - marks[0]})
    # The first of them imports the frameworks that vote.
    best = min(took, key=lambda row: row["all"])
    words = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in best.items())
    print(f"{len(network.operators)} operators to a capsule: {words} (the first time {took[0]['all']:.2f} s)")
    return {**best, "first": took[0]["all"], "nodes": len(network.operators)}


# -- memory ------------------------------------------------------------------------------------------------------------


def memory(quick: bool) -> dict[str, Any]:
    """Peak memory of localising a ResNet-50 with a fault, beside that of a forward and backward pass; in MB.

    Each in a process of its own, less what the process held before: frameworks, the model and its import.
    """
    batch, size = (1, 32) if quick else (8, 224)
    found = {}
    for what in ("pass", "localize"):
        command = [sys.executable, "-m", "benchmarks.localize_memory", what, str(batch), str(size)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[what] = float(out.split()[-1])
    ratio = found["localize"] / found["pass"]
    print(
        f"ResNet-50, batch {batch}, {size}x{size}: one pass {found['pass']:.0f} MB, localising {found['localize']:.0f}"
    )
    print(f"ratio {ratio:.2f}")
    return {**found, "ratio": ratio}


def resnet50(batch: int, size: int) -> Network:
    """The network, imported from PyTorch, with a loss."""
    import torch

    from benchmarks import torch_zoo

    module = torch_zoo.seeded(torch_zoo.resnet50()).eval()
    x = np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype(np.float32)
    model = mo.from_torch(module, (torch.from_numpy(x),))
    loss = mo.reduce_mean(mo.square(model.outputs[0], name="squared"), name="loss")
    return Network("resnet50", loss, {model.inputs[0]: x})


if __name__ == "__main__":
    sys.exit(main())
