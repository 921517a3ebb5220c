"""The paper's operators against direct calls of each framework: equal bit for bit, values and native gradients."""

import pytest

from metaop import backends
from metaop.ops import REGISTRY
from tests.checks import BACKENDS, cases, collect, oracle_complaints, ordinary, report, settle
from tests.oracles import TWENTY

# NumPy is the reference itself, and its oracle computes in float64. A conversion for TFLite is slow, and for JAX both
# sides are compiled.
DTYPES = {"numpy": ["float64"], "tflite": ["float32"], "jax": ["float32"]}


@pytest.mark.parametrize("spec", BACKENDS)
@pytest.mark.parametrize("name", TWENTY)
def test_bits(name, spec):
    backend = backends.get(spec)
    if backend.support(name)[0] == "unsupported":
        return  # test_forward.py holds that claim against what the backend does
    results = collect(oracle_complaints, backend, cases(REGISTRY[name], DTYPES.get(spec, ["float32", "float64"])))
    # What a backend refuses is accounted for in test_forward.py.
    served = [(case, complaints) for case, complaints in results if not any(c.kind == "refused" for c in complaints)]
    assert any(ordinary(case) for case, _ in served)
    left = settle("exact", backend, name, served)
    assert not left, report(backend, left)
