"""Every operator on every backend: values, types, purity and repeatability, for every sample and dtype."""

import pytest

from metaop import backends
from metaop.errors import UnsupportedOpError
from metaop.ops import REGISTRY
from tests.checks import BACKENDS, OPS, cases, collect, forward_complaints, main_dtype, ordinary, report, settle

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
    results = collect(forward_complaints, backend, cases(op, dtypes_for(spec, op)))
    computed = [c for c, complaints in results if not any(x.kind in ("refused", "raised") for x in complaints)]
    assert any(c.dtype == main_dtype(op) and ordinary(c) for c in computed), (
        f"{spec} claims to compute {name}, but computes no ordinary {main_dtype(op)} sample: {results[0][1]}"
    )
    left = settle("forward", backend, name, results)
    assert not left, report(backend, left)


@pytest.mark.parametrize("spec", BACKENDS)
def test_what_is_unsupported_has_a_reason(spec):
    backend = backends.get(spec)
    for name in OPS:
        kind, reason = backend.support(name)
        assert kind in ("native", "derived", "unsupported")
        assert (kind == "unsupported") == bool(reason), f"{name} on {spec}: {kind}, {reason!r}"
        assert reason != "no binding has been written", f"{spec} neither computes {name} nor says why"
