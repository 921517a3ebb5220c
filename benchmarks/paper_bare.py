"""Times bare framework calls inside a framework's own environment; runs on Python 3.6 upward. See paper.py."""

import importlib
import json
import sys
import time
import types

MEMORY_CALLS = 10


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def median_seconds(function, repeats):
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        samples.append(time.perf_counter() - start)
    return sorted(samples)[len(samples) // 2]


def measure(function, repeats):
    """Seconds and bytes of one call: the bytes by the first ten calls, the seconds after them."""
    held = resident()
    for _ in range(MEMORY_CALLS):
        function()
    grown = max(0, resident() - held) / MEMORY_CALLS
    return [median_seconds(function, repeats), grown]


def forward(backend, op, attrs, inputs):
    function, keywords = backend.prepare(op, attrs, None)
    # Read back, because MXNet computes in the background and hands out promises.
    return lambda: backend.to_numpy(function(*inputs, **keywords))


def gradient(backend, op, attrs, inputs):
    def call():
        outputs, pullback = backend.linearize(op, attrs, inputs, list(range(len(inputs))))
        ones = backend.from_numpy(np.ones_like(backend.to_numpy(outputs[0])))
        return [None if g is None else backend.to_numpy(g) for g in pullback([ones])]

    return call


def chain(backend, length):
    """``length`` additions, read back once."""
    function, keywords = backend.prepare("add", {}, None)
    x = y = backend.from_numpy(np.ones((1, 100), "float32"))

    def call():
        z = x
        for _ in range(length):
            z = function(z, y, **keywords)
        return backend.to_numpy(z)

    return call


def main(root, package):
    global np
    for name, path in (("metaop", root), ("metaop.backends", root + "/backends")):
        module = types.ModuleType(name)
        module.__path__ = [path]
        sys.modules[name] = module
    import numpy as np

    backend = importlib.import_module(package).BACKEND(None)
    cases, repeats, length = json.load(sys.stdin)
    found = {"forward": {}, "gradient": {}, "chain": None}
    for op, shapes, attrs, positive in cases:
        rng = np.random.RandomState(0)
        arrays = [(rng.uniform(0.1, 2.0, s) if positive else rng.standard_normal(s)).astype("float32") for s in shapes]
        attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
        try:
            inputs = [backend.from_numpy(a) for a in arrays]
            call = forward(backend, op, attrs, inputs)
            call()
            found["forward"][op] = measure(call, repeats)
            if backend.gradients == "native":
                call = gradient(backend, op, attrs, inputs)
                call()
                found["gradient"][op] = measure(call, repeats)
        except Exception as error:
            sys.stderr.write(f"{op}: {error}\n")
    call = chain(backend, length)
    call()
    found["chain"] = median_seconds(call, max(3, repeats // 10))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
