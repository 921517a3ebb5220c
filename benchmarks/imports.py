"""What reading a model costs: ``python -m benchmarks.imports [FILE]...``.

Time and memory of ``mo.from_onnx`` beside those of ``onnx.load`` and one pass over the weights, for files of 100 MB in
one large tensor and in many. Every measurement has a process of its own, all modules loaded and the file in the page
cache; the best of several counts. Memory is the peak above what the process had before, as a multiple of the file.
Aims: time <= 2x, memory <= 2.2x.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

REPEATS = 5
AIM_TIME, AIM_MEMORY = 2.0, 2.2


def write(path: Path, layers: int, width: int) -> None:
    """A perceptron of so many layers."""
    import metaop as mo

    rng = np.random.default_rng(0)
    y: mo.Node = mo.Placeholder(shape=(None, width), dtype="float32", name="x")
    for _ in range(layers):
        w = mo.Variable(rng.standard_normal((width, width), dtype=np.float32))
        y = mo.relu(mo.add(mo.matmul(y, w), mo.Variable(np.zeros(width, np.float32))))
    mo.to_onnx({"y": y}, path)


def _status(key: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith(key)))


def measure(how: str, path: str) -> None:
    """Read the file once; print seconds and bytes."""
    import onnx
    from onnx import numpy_helper

    import metaop as mo

    small = mo.to_onnx(mo.relu(mo.Placeholder(shape=(1,), dtype="float32")))
    mo.from_onnx(small)
    Path(path).read_bytes()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    before, start = _status("VmRSS"), time.perf_counter()
    if how == "onnx":
        model = onnx.load(path)
        kept = [numpy_helper.to_array(t) for t in model.graph.initializer]
        total = sum(float(a.reshape(-1)[-1]) for a in kept)
    else:
        total = float(len(mo.from_onnx(path).parameters))
    print(time.perf_counter() - start, _status("VmHWM") - before, total)


def best(how: str, path: str) -> tuple[float, float]:
    """Seconds and bytes, the least of several processes."""
    rows = []
    for _ in range(REPEATS):
        command = [sys.executable, "-m", "benchmarks.imports", "--measure", how, path]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append([float(word) for word in done.stdout.split()[:2]])
    return min(r[0] for r in rows), min(r[1] for r in rows)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return 0
    good = True
    with tempfile.TemporaryDirectory() as folder:
        files = list(options.files)
        if not files:
            for name, layers, width in (
                ("one tensor", 1, 5120),
                ("48 tensors", 24, 1024),
                ("2,000 tensors", 1000, 160),
            ):
                path = Path(folder) / f"{name}.onnx"
                write(path, layers, width)
                files.append(str(path))
        print(f"{'file':24} {'MB':>6} {'onnx ms':>8} {'metaop ms':>10} {'time':>6} {'memory':>7}")
        for file in files:
            size = os.path.getsize(file)
            (base, _), (ours, peak) = best("onnx", file), best("metaop", file)
            good = good and ours <= AIM_TIME * base and peak <= AIM_MEMORY * size
            print(f"{Path(file).stem:24} {size / 1e6:6.1f} {base * 1e3:8.1f} {ours * 1e3:10.1f}", end=" ")
            print(f"{ours / base:5.2f}x {peak / size:6.2f}x")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
