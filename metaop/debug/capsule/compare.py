"""Compares what the scripts of this folder computed with what was expected, and with each other; needs NumPy only.

    python compare.py

Reads expected.npz, got_*.npz (what was found when this folder was made) and result_*.npz (what the scripts write).
"""

import glob
import os
import sys
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

#: at the end of a name: the array holds the bits of bfloat16, a dtype that NumPy lacks
BFLOAT16 = ".bfloat16"


def load(path: str) -> Dict[str, np.ndarray]:
    """The arrays of an .npz file by name; bfloat16 comes as float32, which holds all its values."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    found = {}
    for name, array in arrays.items():
        if name.endswith(BFLOAT16):
            name, array = name[: -len(BFLOAT16)], (array.astype(np.uint32) << 16).view(np.float32)
        found[name] = array
    return found


def distances(a: np.ndarray, b: np.ndarray) -> Tuple[float, float, int]:
    """Largest and mean absolute difference, and how many elements differ.

    NaN equals NaN; a NaN or an infinity on one side only is infinitely far, and so is an array of another shape.
    """
    if a.shape != b.shape:
        return float("inf"), float("inf"), max(a.size, b.size)
    if not a.size:
        return 0.0, 0.0, 0
    with np.errstate(all="ignore"):
        same = (a == b) | ((a != a) & (b != b))
        x, y = a.astype(np.float64), b.astype(np.float64)
        apart = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y), np.inf)
        # Large integers that differ may be one and the same float64.
        apart = np.where(same, 0.0, np.maximum(apart, np.where(a.dtype.kind in "iu", 1.0, 5e-324)))
    return float(apart.max()), float(apart.mean()), int(np.count_nonzero(~same))


def table(pairs: Sequence[Any]) -> List[str]:
    """Lines that compare two sets of arrays each, given as (label, arrays, other label, other arrays)."""
    rows = [("", "", "", "largest", "mean", "elements that differ")]
    for label, arrays, other, others in pairs:
        for name in sorted(set(arrays) & set(others), key=lambda n: (n.split(" ")[0] != "output", n)):
            most, mean, count = distances(arrays[name], others[name])
            numbers = ("{:.4g}".format(most), "{:.4g}".format(mean), "{} of {}".format(count, arrays[name].size))
            rows.append((name, label, "against " + other) + numbers)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def each_with_each(sets: Sequence[Any]) -> List[Any]:
    """The pairs of some sets of arrays, given as (label, arrays)."""
    return [one + other for i, one in enumerate(sets) for other in sets[i + 1 :]]


def main(folder: str) -> None:
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.npz"))):
        label = os.path.basename(path)[: -len(".npz")]
        if label == "expected" or label.startswith(("got_", "result_")):
            found[label] = load(path)
    got = {label[len("got_") :] for label in found if label.startswith("got_")}
    run = {label[len("result_") :] for label in found if label.startswith("result_")}
    # What has been run here counts; what was found when this folder was made stands in for what has not.
    labels = ["expected"] + sorted(["result_" + n for n in run] + ["got_" + n for n in got - run])
    pairs = each_with_each([(label, found[label]) for label in labels if label in found])
    for name in sorted(got & run):
        pairs.append(("result_" + name, found["result_" + name], "got_" + name, found["got_" + name]))
    print("\n".join(table(pairs)))


if __name__ == "__main__":
    main(os.path.dirname(os.path.abspath(sys.argv[0])))
