"""Times bare framework calls inside a framework's own environment; runs on Python 3.6 upward. See paper.py."""

import importlib
import json
import sys
import time
import types


def main(root, package):
    for name, path in (("metaop", root), ("metaop.backends", root + "/backends")):
        module = types.ModuleType(name)
        module.__path__ = [path]
        sys.modules[name] = module
    import numpy as np

    backend = importlib.import_module(package).BACKEND(None)
    cases, repeats = json.load(sys.stdin)
    found = {}
    for op, shapes, attrs, positive in cases:
        rng = np.random.RandomState(0)
        arrays = [(rng.uniform(0.1, 2.0, s) if positive else rng.standard_normal(s)).astype("float32") for s in shapes]
        attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
        try:
            function, keywords = backend.prepare(op, attrs, None)
            inputs = [backend.from_numpy(a) for a in arrays]
            for _ in range(20):
                backend.to_numpy(function(*inputs, **keywords))
            samples = []
            for _ in range(repeats):
                start = time.perf_counter()
                # Read back, because MXNet computes in the background and hands out promises.
                backend.to_numpy(function(*inputs, **keywords))
                samples.append(time.perf_counter() - start)
            found[op] = sorted(samples)[len(samples) // 2]
        except Exception as error:
            sys.stderr.write(f"{op}: {error}\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
