"""The meta-operator paper's tables, figures and cases, on the paper's own versions, beside the paper's own numbers.

``python -m benchmarks.paper`` makes the environments of TensorFlow 2.0.0 (with TFLite), PyTorch 1.7.1 and MXNet 1.6.0
if they do not exist yet, computes everything, and prints Markdown; ``--write FILE`` also writes it. The frameworks
run in workers, so that what is timed as "metaop" includes a round trip to another process, which the paper's
in-process tool did not have.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import metaop as mo
from benchmarks.timing import geometric_mean
from metaop.backends import get, support
from metaop.backends.isolation import environments
from metaop.debug.compare import mean_absolute_distance
from metaop.errors import MetaopError

VERSIONS = {
    "tensorflow": "tensorflow==2.0.0",
    "tflite": "tflite==2.0.0",
    "torch": "torch==1.7.1",
    "mxnet": "mxnet==1.6.0",
}
PAIRS = [("tensorflow", "torch"), ("tflite", "tensorflow"), ("tensorflow", "mxnet")]
REPEATS = 200


@dataclass(frozen=True)
class Row:
    """One operator of the paper: how it is called here, and what the paper reports."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    attrs: dict[str, Any]
    #: check marks of table 1: TensorFlow, TFLite, PyTorch, MXNet
    marks: str
    #: table 2, in the order of PAIRS; table 3, TensorFlow against PyTorch and against MXNet
    forward: tuple[str, str, str]
    gradient: tuple[str, str]
    positive: bool = False


V, C, R, S = (1, 100), (100, 1), (1, 100, 1, 1), (100,)
ROWS = [
    Row("add", (V, V), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("multiply", (V, V), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("matmul", (V, C), {}, "yyyy", ("0", "7.37e-6", "2.54e-6"), ("3.77e-8", "0")),
    Row("sigmoid", (V,), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("log", (V,), {}, "yyyy", ("4.32e-9", "4.62e-9", "4.62e-9"), ("0", "0"), positive=True),
    Row("exp", (V,), {}, "yyyy", ("1.22e-6", "7.38e-6", "7.38e-6"), ("1.22e-6", "7.38e-6")),
    Row("negative", (V,), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("inv", (V,), {}, "yyyy", ("0", "-", "0"), ("0", "4.02e-9"), positive=True),
    Row("div", (V, V), {}, "yyyy", ("1.25e-8", "-", "1.25e-8"), ("1.10e-8", "9.94e-8"), positive=True),
    Row("square", (V,), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("transpose", (V,), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("reshape", (V,), {"shape": (10, 10)}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("reduce_sum", (V,), {}, "yy--", ("-", "1.22e-4", "-"), ("-", "-")),
    Row("reduce_mean", (V,), {}, "yy--", ("-", "9.54e-7", "-"), ("-", "-")),
    Row("softmax", (V,), {}, "yyyy", ("1.24e-11", "8.96e-10", "9.87e-9"), ("7.39e-19", "2.22e-8")),
    Row("relu", (V,), {}, "yyyy", ("0", "0", "0"), ("0", "0")),
    Row("batch_norm", (R, S, S, S, S), {}, "yyy-", ("1.15e-4", "0", "-"), ("1.02e-8", "-"), positive=True),
    Row("conv2d", (R, (8, 100, 1, 1)), {}, "y-y-", ("8.91e-5", "-", "-"), ("0", "-")),
    Row(
        "einsum",
        ((1, 1, 5, 3), (1, 1, 3, 2)),
        {"equation": "bnij,bnjc->bnic"},
        "y--y",
        ("-", "-", "9.82e-8"),
        ("-", "0.745"),
    ),
    Row("dropout", (V,), {}, "y-yy", ("-", "-", "-"), ("-", "-")),
]

# Figure 9 of the paper: three heads of five positions and one feature.
QUERY = [
    [1.17109962, 0.37565252, 0.82949107, 0.29293999, -0.61608501],
    [1.75082922, -0.13850867, 1.59422947, -0.09395125, 1.56230319],
    [0.43450781, 1.77360748, 0.94412398, 1.90139302, 1.55708293],
]
KEY = [
    [0.25439725, 0.96581968, -0.32869229, 2.16545762, 2.07900606],
    [2.301548, 1.85931635, 1.24133237, 0.40015171, -0.060046],
    [0.93944128, 0.8107018, 0.70168201, 1.36959909, 0.34947845],
]
VALUE = [
    [1.25536117, 0.22812862, 0.3383442, 0.88289629, 0.91486589],
    [1.58969553, 1.33733386, 0.14963483, -1.44493619, 2.6568602],
    [1.86181002, 0.31700891, 1.25405337, -0.68810828, 0.63587646],
]
VALUE_GRADIENT = {
    "tensorflow": [
        [0.23091541, 0.5312316, 0.11665206, 2.1648228, 1.9563781],
        [2.9955711, 1.381076, 0.46807754, 0.10732592, 0.04794922],
        [1.035875, 0.97952074, 0.93420273, 1.2487628, 0.8016389],
    ],
    "mxnet": [
        [0.68662703, 0.79202116, 0.69883525, 1.4509143, 1.3716023],
        [2.0841556, 1.208312, 0.7005228, 0.51207346, 0.49493614],
        [1.0247087, 0.8674304, 0.7563526, 1.8527048, 0.49880356],
    ],
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and print everything."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("--write", metavar="FILE", help="also write the Markdown there")
    parser.add_argument("--skip-mobilenet", action="store_true", help="leave out the second case, which takes longest")
    options = parser.parse_args(arguments)
    for spec in ("tensorflow==2.0.0", "torch==1.7.1", "mxnet==1.6.0"):
        environments.create(spec, report=lambda text: print(text, file=sys.stderr, flush=True))
    parts = [f"# The meta-operator paper, reproduced\n\n{__doc__.splitlines()[0]}\n"]
    steps: list[Callable[[], str]] = [operators, distances, overhead, attention_case]
    if not options.skip_mobilenet:
        steps.append(mobilenet_case)
    for step in steps:
        print(f"{step.__name__} ...", file=sys.stderr, flush=True)
        parts.append(step())
        print(parts[-1], flush=True)
    if options.write:
        Path(options.write).write_text("\n".join(parts), encoding="utf-8")
    return 0


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


# -- tables 1 to 3 ----------------------------------------------------------------------------------------------------


def operators() -> str:
    """Table 1: which framework computes which operator."""
    rows = []
    for row in ROWS:
        cells = [row.op]
        for mark, spec in zip(row.marks, VERSIONS.values(), strict=True):
            kind, _ = support(get(spec), row.op)
            cells.append(f"{kind} ({'yes' if mark == 'y' else 'no'})")
        rows.append(cells)
    head = ["operator", *(f"{s} (paper)" for s in VERSIONS.values())]
    return "## Table 1: operators\n\n" + _table(head, rows)


def _build(row: Row, rng: np.random.Generator) -> tuple[mo.Node, list[mo.Node]]:
    """One operator on random variables."""
    arrays = [
        (rng.uniform(0.1, 2.0, s) if row.positive else rng.standard_normal(s)).astype("float32") for s in row.shapes
    ]
    inputs: list[mo.Node] = [mo.Variable(a) for a in arrays]
    return mo.apply(row.op, inputs, row.attrs), inputs


def _outcome(backend: str, node: mo.Node, inputs: list[mo.Node], gradient: bool) -> list[np.ndarray] | None:
    session = mo.Session(VERSIONS[backend])
    try:
        value = session.run(node)
        if not gradient:
            return [value]
        incoming = np.random.default_rng(1).standard_normal(value.shape).astype("float32")
        return session.gradients(node, inputs, grad_output=incoming)
    except MetaopError:
        return None


def distances() -> str:
    """Tables 2 and 3: mean absolute distances of single operators, forward and gradient."""
    forward, gradient = [], []
    for row in ROWS:
        node, inputs = _build(row, np.random.default_rng(0))
        cells = [row.op]
        for (a, b), paper in zip(PAIRS, row.forward, strict=True):
            cells.append(f"{_distance(row, a, b, node, inputs, False)} ({paper})")
        forward.append(cells)
        cells = [row.op]
        for (a, b), paper in zip((PAIRS[0], PAIRS[2]), row.gradient, strict=True):
            cells.append(f"{_distance(row, a, b, node, inputs, True)} ({paper})")
        gradient.append(cells)
    head = [f"{a} / {b} (paper)" for a, b in PAIRS]
    return (
        "## Table 2: MAD of values\n\n"
        + _table(["operator", *head], forward)
        + "\n## Table 3: MAD of gradients, random incoming gradient\n\n"
        + _table(["operator", head[0], head[2]], gradient)
    )


def _distance(row: Row, a: str, b: str, node: mo.Node, inputs: list[mo.Node], gradient: bool) -> str:
    x, y = (_outcome(side, node, inputs, gradient) for side in (a, b))
    if x is None or y is None:
        return "-"
    return f"{np.mean([mean_absolute_distance(p, q) for p, q in zip(x, y, strict=True)]):.3g}"


# -- figures 5 to 8 ---------------------------------------------------------------------------------------------------


def overhead() -> str:
    """Figures 5 to 8: time and memory of one operator through metaop, against the bare framework in its own process."""
    lines, json_rows = [], {}
    for name, paper in (
        ("torch", "1.7x"),
        ("mxnet", "5.81x"),
        ("tensorflow", "not given"),
        ("tflite", "4.70 s, 8.42 MiB per add"),
    ):
        bare = _bare(name)
        ratios, extra, memory = [], [], []
        for row in ROWS:
            seconds = bare.get(row.op)
            if seconds is None:
                continue
            node, _ = _build(row, np.random.default_rng(0))
            mine, grown = _through_metaop(VERSIONS[name], node)
            ratios.append(mine / seconds)
            extra.append(mine - seconds)
            memory.append(grown)
        if ratios:
            lines.append(
                [
                    VERSIONS[name],
                    str(len(ratios)),
                    f"{geometric_mean(ratios):.2f}x",
                    f"{np.median(extra) * 1e6:.0f} us",
                    f"{max(extra) * 1e6:.0f} us",
                    f"{np.mean(memory) / 2**20:.3f} MiB",
                    paper,
                ]
            )
            json_rows[name] = ratios
    head = ["framework", "operators", "ratio", "median extra time", "largest extra time", "memory per call", "paper"]
    return "## Figures 5 to 8: what one operator costs through metaop (worker included)\n\n" + _table(head, lines)


def _bare(name: str) -> dict[str, float]:
    """Seconds of one bare framework call per operator, measured inside the framework's environment."""
    backend: Any = get(VERSIONS[name])
    cases = [
        [row.op, row.shapes, mo.ops()[row.op].complete(row.attrs), row.positive] for row in ROWS if row.op != "dropout"
    ]
    launch = backend.worker.launch
    answer = subprocess.run(
        [launch.python, str(Path(__file__).with_name("paper_bare.py")), str(Path(mo.__file__).parent), launch.package],
        input=json.dumps([cases, REPEATS], default=str),
        capture_output=True,
        text=True,
        check=True,
        env={**dict(__import__("os").environ), **(launch.environment or {})},
    )
    return json.loads(answer.stdout.splitlines()[-1])


def _through_metaop(spec: str, node: mo.Node) -> tuple[float, float]:
    """Seconds and bytes (of the worker) of one run of a session."""
    import time

    backend: Any = get(spec)
    session = mo.Session(spec)
    for _ in range(20):
        session.run(node)
    held = _resident(backend.worker.pid)
    samples = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        session.run(node)
        samples.append(time.perf_counter() - start)
    return float(np.median(samples)), max(0, _resident(backend.worker.pid) - held) / REPEATS


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


# -- the two cases ----------------------------------------------------------------------------------------------------


def attention_case() -> str:
    """Case 1: the attention of figure 9 on TensorFlow 2.0.0 and MXNet 1.6.0."""
    q, k, v = (
        mo.Variable(np.array(data, "float32").reshape(1, 3, 5, 1), name=name)
        for name, data in (("query", QUERY), ("key", KEY), ("value", VALUE))
    )
    scores = mo.matmul(q, mo.transpose(k, perm=(0, 1, 3, 2), name="key_t"), name="scores")
    weights = mo.softmax(scores, axis=-1, name="weights")
    context = mo.einsum(weights, v, equation="bnij,bnjc->bnic", name="context")
    loss = mo.reduce_sum(context, name="loss")
    with mo.DebugSession(progress=False) as session:
        report = session.run(loss, frameworks=[VERSIONS["tensorflow"], VERSIONS["mxnet"]])
        verdict = session.verify(report.ranking("gradient")[0])
    found = {side: mo.Session(VERSIONS[side]).gradients(loss, v).reshape(3, 5) for side in ("tensorflow", "mxnet")}
    near = {side: float(np.abs(found[side] - VALUE_GRADIENT[side]).max()) for side in found}
    ours = mean_absolute_distance(found["tensorflow"], found["mxnet"])
    printed = float(np.abs(np.subtract(VALUE_GRADIENT["tensorflow"], VALUE_GRADIENT["mxnet"])).mean())
    return (
        "## Case 1: einsum in attention, the data of figure 9\n\n```\n"
        f"{report.table()}\n\n{verdict}\nblame: {verdict.blame}\n```\n\n"
        "Largest difference between our gradient of `value` and the one printed in figure 9: "
        f"TensorFlow {near['tensorflow']:.2g}, MXNet {near['mxnet']:.2g}. "
        f"MAD of both frameworks' gradients of `value`: {ours:.3g} (from the printed figures: {printed:.3g}).\n"
    )


def mobilenet_case() -> str:
    """Case 2: ReLU in MobileNetV1, TensorFlow against MXNet."""
    from benchmarks.models import mobilenet

    model = mobilenet(size=64, classes=100)
    feeds = {model.inputs[name]: array for name, array in model.feed.items()}
    with mo.DebugSession(progress=None) as session:
        report = session.run(
            model.output, feeds, frameworks=[VERSIONS["tensorflow"], VERSIONS["mxnet"]], gradients=False
        )
    relus = [r for r in report.records if r.op == "relu"]
    worst = max(r.output_delta or 0.0 for r in relus)
    local = max(r.local_output_delta or 0.0 for r in relus)
    others = max(r.output_delta or 0.0 for r in report.records if r.op != "relu")
    return (
        "## Case 2: ReLU in MobileNetV1\n\n"
        f"{len(report.records)} nodes, {len(relus)} of them ReLU. Largest output delta of a ReLU swap: {worst:g}; "
        f"largest local delta: {local:g} (paper: 0). Largest output delta of any other node: {others:.3g}. "
        f"ReLU is {'acquitted' if local == 0 else 'suspect'}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
