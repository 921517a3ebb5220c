"""How long imported networks take on PyTorch, batch 1, as a ratio to the modules they were imported from.

Both sides get NumPy arrays and give NumPy arrays; the module runs as a user would run it, without recording gradients.
By default with one thread on the processor's clock, which does not run while others have the core.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import metaop as mo
from benchmarks.timing import QUICK, Effort, Ratio, compare

__all__ = ["NETWORKS", "main"]

LENGTH = 128


def _image(size: int) -> Any:
    import torch

    return (torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(1)),)


def _words(count: int, length: int) -> Any:
    import torch

    return torch.randint(1, count, (1, length), generator=torch.Generator().manual_seed(1))


def _resnet50(quick: bool) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks import torch_zoo

    return torch_zoo.resnet50(8 if quick else 64), _image(32 if quick else 224)


def _bert(quick: bool) -> tuple[Any, tuple[Any, ...]]:
    import torch

    from benchmarks import torch_zoo

    module = torch_zoo.bert(100, 32, 32, 4, 2) if quick else torch_zoo.bert()
    ids = _words(100, 16) if quick else _words(30522, LENGTH)
    return module, (ids, torch.ones_like(ids))


def _gpt2(quick: bool) -> tuple[Any, tuple[Any, ...]]:
    from benchmarks import torch_zoo

    module = torch_zoo.gpt2(100, 32, 32, 4, 2) if quick else torch_zoo.gpt2()
    return module, (_words(100, 16) if quick else _words(50257, LENGTH),)


#: from whether to make it small, to a module and its inputs
NETWORKS: dict[str, Callable[[bool], tuple[Any, tuple[Any, ...]]]] = {
    "resnet50": _resnet50,
    "bert-base": _bert,
    "gpt2-small": _gpt2,
}


def measure(name: str, quick: bool, effort: Effort) -> tuple[Ratio, float]:
    """The ratio, and how many seconds the import took."""
    import torch

    module, inputs = NETWORKS[name](quick)
    start = time.perf_counter()
    model = mo.from_torch(module, inputs)
    seconds = time.perf_counter() - start
    arrays = [x.numpy() for x in inputs]
    session = mo.Session(backend="torch")
    targets, fed = model.outputs, dict(zip(model.inputs, arrays, strict=True))

    def ours() -> list[np.ndarray]:
        return session.run(targets, feed_dict=fed)

    def theirs() -> list[np.ndarray]:
        with torch.no_grad():
            found = module(*[torch.from_numpy(a) for a in arrays])
        return [t.numpy() for t in (found.values() if isinstance(found, dict) else [found])]

    for a, b in zip(ours(), theirs(), strict=True):
        scale = float(np.abs(b).max())
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * scale, err_msg=f"{name}: not the same computation")
    return compare(ours, theirs, effort), seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, print a table, and print the JSON object last."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small networks and few rounds, to see that they run")
    parser.add_argument("--only", choices=NETWORKS, action="append", help="some of the networks")
    parser.add_argument("--threads", type=int, default=1, help="threads of PyTorch; 0: what it chooses itself")
    options = parser.parse_args(arguments)
    import torch

    effort = QUICK if options.quick else Effort(sample=0.0, rounds=40, most=30.0, least=10)
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.threads != 1:
        effort = dataclasses.replace(effort, clock=time.perf_counter)
    report: dict[str, Any] = {"quick": options.quick, "threads": options.threads, "imported": {}}
    print(f"imported on torch, batch 1: {'import s':>20} {'metaop ms':>10} {'module ms':>10} {'ratio':>8}")
    for name in options.only or NETWORKS:
        gc.collect()
        found, seconds = measure(name, options.quick, effort)
        print(f"  {name:45} {seconds:.1f} {1e3 * found.ours:10.1f} {1e3 * found.theirs:10.1f} {found.ratio:8.3f}")
        report["imported"][name] = round(found.ratio, 4)
    print(json.dumps(report))
    return 0
