"""Gradients of every differentiable operator on every backend, native or derived, against derived ones in float64."""

import pytest

from metaop import backends
from metaop.ops import REGISTRY
from tests.checks import (
    BACKENDS,
    DIFFERENTIABLE,
    affordable,
    cases,
    collect,
    gradient_complaints,
    ordinary,
    report,
    settle,
)


def chosen_cases(spec, op, dtypes):
    """Every sample; on TFLite, which converts several operators for each, the first, a middle and the last one."""
    found = affordable(spec, cases(op, dtypes, special=False))
    if spec != "tflite":
        return found
    found = [case for case in found if ordinary(case)]
    return [found[i] for i in sorted({0, len(found) // 2, len(found) - 1})]


@pytest.mark.parametrize("spec", BACKENDS)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name, spec):
    op, backend = REGISTRY[name], backends.get(spec)
    if backend.support(name)[0] == "unsupported":
        return  # test_forward.py holds that claim against what the backend does
    dtypes = ["float32", "float64"] if backend.gradients == "native" else ["float32"]
    results = collect(gradient_complaints, backend, chosen_cases(spec, op, dtypes))
    computed = [c for c, complaints in results if not any(x.kind in ("refused", "raised") for x in complaints)]
    assert any(map(ordinary, computed)), f"{spec} gives no gradient of {name} for any ordinary sample: {results[0][1]}"
    left = settle("gradient", backend, name, results)
    assert not left, report(backend, left)
