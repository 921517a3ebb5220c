"""One process of the memory part of ``benchmarks.localize``: prints by how many MB the peak grew."""

from __future__ import annotations

import resource
import sys

import metaop as mo
from benchmarks.localize import faulty, resnet50
from metaop.backends import get
from metaop.debug.evaluate import Evaluator, resident_bytes


def main(what: str, batch: int, size: int) -> None:
    """Run a forward and backward pass, or find a fault."""
    network = resnet50(batch, size)
    small = resnet50(1, 32)
    torch = get("torch")
    evaluator = Evaluator([network.loss], network.feeds, 0, True)
    node = next(n for n in network.operators if n.op.name == "conv2d" and "layer2" in n.name)
    # What is loaded and allocated once does not count.
    Evaluator([small.loss], small.feeds, 0, True).run(lambda n: torch)
    place = next(n for n in small.operators if n.op.name == "conv2d" and "layer2" in n.name)
    sides = ["onnxruntime", {None: "torch", place: faulty(place)}]
    mo.DebugSession(progress=False).run(small.loss, small.feeds, frameworks=sides, method="auto")
    before = resident_bytes()
    if what == "pass":
        evaluator.run(lambda n: torch)
    else:
        sides = ["torch", {None: "torch", node: faulty(node)}]
        report = mo.DebugSession(progress=False).run(network.loss, network.feeds, frameworks=sides, method="auto")
        if [r.node for r in report.suspects[:1]] != [node.name]:
            raise SystemExit(f"the fault at {node.name} was not found:\n{report.table(5)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print((peak - before) / 1e6)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
