"""Gradients of every differentiable operator on every backend, native or derived, against derived ones in float64."""

import pytest

from metaop import backends
from metaop.ops import REGISTRY
from tests.checks import BACKENDS, DIFFERENTIABLE, cases, collect, gradient_complaints, ordinary, report, settle

# A derived rule makes TFLite convert several operators for each sample.
MOST_SAMPLES = {"tflite": 3}


@pytest.mark.parametrize("spec", BACKENDS)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name, spec):
    op, backend = REGISTRY[name], backends.get(spec)
    if backend.support(name)[0] == "unsupported":
        return  # test_forward.py holds that claim against what the backend does
    dtypes = ["float32", "float64"] if backend.gradients == "native" else ["float32"]
    chosen = cases(op, dtypes, special=False)
    if spec in MOST_SAMPLES:
        chosen = [case for case in chosen if ordinary(case)][: MOST_SAMPLES[spec]]
    results = collect(gradient_complaints, backend, chosen)
    computed = [c for c, complaints in results if not any(x.kind in ("refused", "raised") for x in complaints)]
    assert any(map(ordinary, computed)), f"{spec} gives no gradient of {name} for any ordinary sample: {results[0][1]}"
    left = settle("gradient", backend, name, results)
    assert not left, report(backend, left)
