"""Every operator on every backend: values, types, purity and repeatability, for every sample and dtype."""

import numpy as np
import pytest

from metaop import backends
from metaop.errors import UnsupportedOpError
from metaop.ops import REGISTRY
from tests.checks import (
    BACKENDS,
    OPS,
    affordable,
    call,
    cases,
    collect,
    compare_all,
    forward_complaints,
    forward_truth,
    main_dtype,
    ordinary,
    report,
    settle,
)

DTYPES = ("float32", "float64", "float16", "int64", "int32", "bool")


def dtypes_for(spec, op):
    """The dtypes to try, the main one first."""
    # Each new combination of types costs TFLite a conversion of a tenth of a second: the dtype it is made for must do.
    return list(dict.fromkeys([main_dtype(op), *(() if spec == "tflite" else DTYPES)]))


@pytest.mark.parametrize("spec", BACKENDS)
@pytest.mark.parametrize("name", OPS)
def test_values(name, spec):
    op, backend = REGISTRY[name], backends.get(spec)
    if backend.support(name)[0] == "unsupported":
        for case in cases(op, [main_dtype(op)]):
            with pytest.raises(UnsupportedOpError):
                forward_complaints(backend, case)
        return
    results = collect(forward_complaints, backend, affordable(spec, cases(op, dtypes_for(spec, op))))
    computed = [c for c, complaints in results if not any(x.kind in ("refused", "raised") for x in complaints)]
    assert any(c.dtype == main_dtype(op) and ordinary(c) for c in computed), (
        f"{spec} claims to compute {name}, but computes no ordinary {main_dtype(op)} sample: {results[0][1]}"
    )
    left = settle("forward", backend, name, results)
    assert not left, report(backend, left)


LAYOUTS = {
    "column-major": np.asfortranarray,
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
    "every other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "misaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


@pytest.mark.parametrize("spec", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layouts(layout, spec):
    """Arrays come as users have them: transposed, sliced, mapped."""
    backend = backends.get(spec)
    for name in ("multiply", "reduce_sum", "matmul", "concat"):
        case = cases(REGISTRY[name], ["float32"])[0]
        inputs = [LAYOUTS[layout](a) for a in case.inputs()]
        found = compare_all("output", call(backend, case, inputs), forward_truth(case))
        assert not found, f"{name}: {found}"


@pytest.mark.parametrize("spec", BACKENDS)
def test_what_is_unsupported_has_a_reason(spec):
    backend = backends.get(spec)
    for name in OPS:
        kind, reason = backend.support(name)
        assert kind in ("native", "derived", "unsupported")
        assert (kind == "unsupported") == bool(reason), f"{name} on {spec}: {kind}, {reason!r}"
        assert reason != "no binding has been written", f"{spec} neither computes {name} nor says why"
