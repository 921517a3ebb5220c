"""What a worker process costs: ``python -m benchmarks.isolation``.

One call on small tensors, a large tensor each way, and MobileNetV1 wholly in a worker, each against the same in this
process, in one run. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import metaop as mo
from benchmarks.models import mobilenet
from metaop.backends import Backend, get

MEGABYTES = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.isolation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repetitions, and a small image")
    quick = parser.parse_args(arguments).quick
    sides()
    report = {**small_call(200 if quick else 5000), **large_tensor(3 if quick else 15)}
    report.update(network(64 if quick else 224, 3 if quick else 20))
    for name, value in report.items():
        print(f"{name:<32}{value:>10.3f}")
    print(json.dumps(report))
    return 0


def sides() -> tuple[Backend, Backend]:
    """The same framework in this process and in a worker; a baseline that is itself a worker would prove anything."""
    here, there = get("torch"), get("isolated:torch")
    if not here.in_process or there.in_process or here.version() != there.version():
        raise SystemExit(
            f"nothing to compare: 'torch' ({here.version()}, {'here' if here.in_process else 'in a worker'}) and "
            f"'isolated:torch' ({there.version()}) must be one release, in and out of this process. Install torch here"
        )
    return here, there


def alternating(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median seconds of both, measured in turns so that a busy moment hits both alike."""
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(max(3, rounds // 10)):
        first()
        second()
    for _ in range(rounds):
        for function, kept in zip((first, second), samples, strict=True):
            start = time.perf_counter()
            function()
            kept.append(time.perf_counter() - start)
    return float(np.median(samples[0])), float(np.median(samples[1]))


def in_blocks(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """Median seconds of both, many calls of one and then of the other, in turns.

    The threads of a framework go on spinning for a while after each call. In this process, call by call, they would
    take a processor from the worker, which nobody sees whose network is computed in the worker.
    """
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(4):
        for function, kept in zip((first, second), samples, strict=True):
            for warm in range(-max(2, rounds // 4), rounds):
                start = time.perf_counter()
                function()
                if warm >= 0:
                    kept.append(time.perf_counter() - start)
    return float(np.median(samples[0])), float(np.median(samples[1]))


def small_call(rounds: int) -> dict[str, float]:
    """One addition at [1, 100]."""
    x = mo.Placeholder(shape=(1, 100), dtype="float32")
    y = mo.add(x, mo.Variable(np.ones((1, 100), "float32")))
    here, there = map(mo.Session, sides())
    feed = {x: np.ones((1, 100), "float32")}
    inside, apart = alternating(lambda: here.run(y, feed), lambda: there.run(y, feed), rounds)
    return {"small_call_added_us": (apart - inside) * 1e6, "small_call_in_process_us": inside * 1e6}


def large_tensor(rounds: int) -> dict[str, float]:
    """A tensor of 64 MB: into the worker with an operator that looks at its corner; and fetched from the worker."""
    _, worker = sides()
    side = int((MEGABYTES * 2**20 / 4) ** 0.5)
    data = np.ones((side, side), "float32")
    corner = {"starts": (0, 0), "ends": (1, 1), "axes": None, "steps": None}
    into, out = [], []
    for number in range(-2, rounds):
        start = time.perf_counter()
        worker.call("slice", corner, [worker.from_numpy(data)])
        sent = time.perf_counter() - start
        (held,) = worker.call("negative", {}, [worker.from_numpy(data)])
        start = time.perf_counter()
        worker.to_numpy(held)
        fetched = time.perf_counter() - start
        if number >= 0:
            into.append(sent)
            out.append(fetched)
    size = MEGABYTES * 2**20 / 1e9
    return {
        "into_worker_gb_per_s": size / float(np.median(into)),
        "out_of_worker_gb_per_s": size / float(np.median(out)),
    }


def network(size: int, rounds: int) -> dict[str, float]:
    """MobileNetV1, batch 1, all of it in a worker."""
    model = mobilenet(size=size)
    feed = {model.inputs["x"]: model.feed["x"]}
    here, there = map(mo.Session, sides())
    inside, apart = in_blocks(lambda: here.run(model.output, feed), lambda: there.run(model.output, feed), rounds)
    return {"mobilenet_ratio": apart / inside, "mobilenet_in_process_ms": inside * 1e3}


if __name__ == "__main__":
    sys.exit(main())
