"""The judges themselves, given wrong answers to catch: a judge that cannot fail is the worst bug we could have."""

import numpy as np
import pytest

from metaop import backends
from metaop.backends import derive
from metaop.errors import MissingFrameworkError, UnsupportedOpError
from metaop.ops import REGISTRY
from tests import checks, tolerances
from tests.backends import test_forward
from tests.checks import (
    Complaint,
    cases,
    collect,
    forward_complaints,
    gradient_complaints,
    oracle_complaints,
    settle,
)

NATIVE = [spec for spec in checks.BACKENDS if spec == "torch"]


def complaints_of(judge, base, op, dtypes=("float32",), **replaced):
    """The kinds of complaint about a backend in which one operator has been tampered with."""
    faulty = derive(base, name=f"{base}-faulty", **replaced)
    special = judge is not gradient_complaints
    results = collect(judge, faulty, cases(REGISTRY[op], dtypes, special=special))
    return {complaint.kind for _, complaints in results for complaint in complaints}


def reference(op, **changed):
    """The operator's reference, with some attributes changed on the way."""

    def function(*tensors, **attrs):
        with np.errstate(all="ignore"):
            return REGISTRY[op].reference(*tensors, **{**attrs, **{k: f(attrs[k]) for k, f in changed.items()}})

    return function


# -- values ------------------------------------------------------------------------------------------------------------


def scaled(x, y):
    return (x + y) * np.float32(1 + 2**-22)


def one_nan(x, y):
    z = np.add(x, y)
    if z.size:
        z.flat[-1] = np.nan
    return z


def writes_into_its_input(x, y):
    z = np.asarray(x + y)
    x *= 2
    return z


calls = []


def drifts(x, y):
    calls.append(None)
    return np.asarray(x + y + len(calls) * 1e-3, x.dtype)


buffers = {}


def reuses_its_buffer(x, y):
    z = np.asarray(x + y)
    buffer = buffers.setdefault(z.shape, np.empty_like(z))
    buffer[...] = z
    return buffer


def raises(x, y):
    raise ZeroDivisionError("kernel failed")


def flips_infinities(x, y):
    z = np.asarray(x + y)
    return np.where(np.isinf(z), -z, z)


@np.errstate(all="ignore")
def hides_nan(x, y):
    return np.nan_to_num(x + y, nan=0.0, posinf=np.inf, neginf=-np.inf)


FORWARD_FAULTS = {
    "scaled value": ("add", scaled, "value"),
    "swapped arguments": ("subtract", lambda x, y: np.asarray(y - x), "value"),
    "NaN at one element": ("add", one_nan, "nan"),
    "NaN hidden": ("add", hides_nan, "nan"),
    "infinities flipped": ("add", flips_infinities, "infinity"),
    "wrong dtype": ("add", lambda x, y: np.add(x, y, dtype=np.float64), "dtype"),
    "wrong shape": ("add", lambda x, y: np.asarray(x + y)[None], "shape"),
    "one output too many": ("add", lambda x, y: (np.asarray(x + y),) * 2, "count"),
    "write into the input": ("add", writes_into_its_input, "input changed"),
    "state between calls": ("add", drifts, "unrepeatable"),
    "buffer reused": ("add", reuses_its_buffer, "aliased"),
    "exception": ("add", raises, "raised"),
    "axis off by one, softmax": ("softmax", reference("softmax", axis=lambda a: a - 1 if a > 0 else 0), "value"),
    "axis off by one, cumsum": ("cumsum", reference("cumsum", axis=lambda a: a - 1), "value"),
    "wrong order of indices": ("transpose", lambda x, *, perm: np.ascontiguousarray(x).reshape(x.T.shape), "value"),
    "tanh for erf": ("gelu", reference("gelu", approximate=lambda a: "tanh"), "value"),
    "another epsilon": ("batch_norm", reference("batch_norm", epsilon=lambda e: 10 * e), "value"),
    "another epsilon, layer": ("layer_norm", reference("layer_norm", epsilon=lambda e: 10 * e), "value"),
    "padding counted": ("average_pool2d", reference("average_pool2d", count_include_pad=lambda c: True), "value"),
    "dilation ignored": ("conv2d", lambda *t, dilations, **a: _dilated(*t, dilations=dilations, **a), "value"),
    "sum too small": ("reduce_sum", lambda x, **a: REGISTRY["reduce_sum"](x, **a) * np.float32(1 - 2e-6), "value"),
    "variance unbiased": ("batch_norm", lambda *t, **a: _unbiased(*t, **a), "value"),
}


def _dilated(x, w, b=None, *, dilations, **attrs):
    y = REGISTRY["conv2d"](x, w, b, dilations=dilations, **attrs)
    return y if set(dilations) == {1} else y[..., ::-1].copy()


def _unbiased(x, scale, bias, mean, var, **attrs):
    count = x.size / x.shape[1]
    factor = np.float32(np.sqrt((count - 1) / count)) if attrs["training"] and count > 1 else np.float32(1)
    return REGISTRY["batch_norm"](x, scale * factor, bias, mean, var, **attrs)


@pytest.mark.parametrize("fault", FORWARD_FAULTS)
def test_forward_judge_catches(fault):
    op, function, kind = FORWARD_FAULTS[fault]
    assert complaints_of(forward_complaints, "numpy", op) == set(), "the judge complains about the truth"
    assert kind in complaints_of(forward_complaints, "numpy", op, forward={op: function})


def slightly_off(array):
    """One part in ten thousand for numbers; one more, or the opposite, for integers and booleans."""
    if array.dtype.kind == "b":
        return ~array
    return array + array.dtype.type(1) if array.dtype.kind in "iu" else array * array.dtype.type(1 + 1e-4)


@pytest.mark.parametrize("name", checks.OPS)
def test_no_operator_gets_away_with_a_wrong_value(name):
    op = REGISTRY[name]
    for output in range(len(op.outputs or (1,))):

        def faulty(*tensors, output=output, **attrs):
            with np.errstate(all="ignore"):
                results = checks.as_list(op.reference(*tensors, **attrs))
            results[output] = slightly_off(results[output])
            return tuple(results)

        kinds = complaints_of(forward_complaints, "numpy", name, [checks.main_dtype(op)], forward={name: faulty})
        assert "value" in kinds, f"output {output}"


@pytest.mark.parametrize("name", checks.DIFFERENTIABLE)
def test_no_operator_gets_away_with_a_wrong_gradient(name):
    op = REGISTRY[name]
    numpy = backends.get("numpy")
    flat = name in ("floor", "ceil", "round", "sign", "eye_like")
    for position, param in enumerate(op.params):
        if np.dtype("float32") not in op.dtypes_of(param):
            continue

        def faulty(g, y, *inputs, position=position, **attrs):
            wrt = checks.floating_positions(inputs)
            found = numpy.linearize(name, attrs, inputs, wrt)[1](list(g) if isinstance(g, tuple) else [g])
            gradients = dict(zip(wrt, found, strict=True))
            if position in gradients and gradients[position] is not None:
                gradients[position] = slightly_off(np.asarray(gradients[position])) + np.float32(flat)
            return [gradients.get(i) for i in range(len(inputs))]

        kinds = complaints_of(gradient_complaints, "numpy", name, gradient={name: faulty})
        assert kinds == {"value"}, f"{param.name}: {kinds}"


def test_a_refusal_is_not_a_pass():
    def refuses(x, y):
        raise UnsupportedOpError("not today")

    assert complaints_of(forward_complaints, "numpy", "add", forward={"add": refuses}) == {"refused"}


def test_integers_and_booleans_are_exact():
    off = complaints_of(forward_complaints, "numpy", "add", ["int64"], forward={"add": lambda x, y: x + y + (x == y)})
    assert off == {"value"}
    off = complaints_of(forward_complaints, "numpy", "less", forward={"less": lambda x, y: np.asarray(x <= y)})
    assert off == {"value"}


@pytest.mark.parametrize("name", checks.OPS)
def test_bounds_are_tight(name):
    """Each operator has a float32 sample on which an error of one part in fifty thousand is an error."""
    op = REGISTRY[name]
    truths = {"values": checks.forward_truth, "gradients": checks.gradient_truth}
    for what, truth_of in truths.items():
        if np.dtype("float32") not in op.dtypes or (what == "gradients" and not op.differentiable):
            continue
        ratios = []
        for case in filter(checks.ordinary, cases(op, ["float32"], special=False)):
            truth = truth_of(case)
            for value, bound in zip(truth.values, truth.bounds, strict=True):
                typical = np.sqrt(np.mean(np.square(value, dtype=float)))
                ratios.append(bound.max() / typical if typical else np.inf)
        assert min(ratios) <= 2e-5 or not np.isfinite(ratios).any(), f"{what} of {name}: {sorted(ratios)}"


def test_bounds_do_not_grow_with_the_array():
    def bound_of(size):
        x = np.linspace(-1, 1, 8)
        values = REGISTRY["softmax"](np.tile(x, (size, 1)), axis=-1)
        wanted = (checks.TensorType(np.dtype("float32"), values.shape),)
        run = lambda a, jitter=None: [REGISTRY["softmax"](a, axis=-1)]  # noqa: E731  a name for it would say no more
        return tolerances.forward_bound("softmax")(run, [np.tile(x, (size, 1))], {}, [values], wanted)[0].max()

    assert bound_of(1000) <= 1.5 * bound_of(10)


# -- gradients ---------------------------------------------------------------------------------------------------------


def summed(g, x):
    """Undo the broadcasting of ``x`` to the shape of ``g``."""
    g = g.sum(axis=tuple(range(g.ndim - x.ndim)))
    return g.sum(axis=tuple(i for i in range(x.ndim) if x.shape[i] == 1 != g.shape[i]), keepdims=True).reshape(x.shape)


GRADIENT_FAULTS = {
    "scaled": ("multiply", lambda g, y, a, b: (summed(g * b, a) * np.float32(1 + 1e-5), summed(g * a, b))),
    "dropped": ("multiply", lambda g, y, a, b: (summed(g * b, a), None)),
    "swapped": ("multiply", lambda g, y, a, b: (summed(g * a, a), summed(g * b, b))),
    "sign flipped": ("multiply", lambda g, y, a, b: (summed(g * b, a), -summed(g * a, b))),
    "incoming gradient ignored": ("multiply", lambda g, y, a, b: (summed(0 * g + b, a), summed(g * a, b))),
    "broadcasting not undone": ("multiply", lambda g, y, a, b: (g * b, g * a)),
    "wrong dtype": ("multiply", lambda g, y, a, b: (summed(g * b, a).astype(np.float64), summed(g * a, b))),
    "all ones, as once in MXNet's pad": ("pad", lambda g, y, x, **attrs: (np.ones_like(x),)),
    "taken at the output": ("tanh", lambda g, y, x: (np.asarray(g * (1 - np.tanh(y) ** 2)),)),
    "mean for sum": ("reduce_sum", lambda g, y, x, **a: (np.full(x.shape, np.mean(g) if g.size else 0, x.dtype),)),
}


@pytest.mark.parametrize("fault", GRADIENT_FAULTS)
def test_gradient_judge_catches(fault):
    op, rule = GRADIENT_FAULTS[fault]
    assert complaints_of(gradient_complaints, "numpy", op) == set(), "the judge complains about the truth"
    assert complaints_of(gradient_complaints, "numpy", op, gradient={op: rule}) & {"value", "shape", "dtype"}


def test_gradient_judge_catches_writes():
    def rule(g, y, x):
        g *= 2
        return (np.asarray(-g / 2),)

    assert "input changed" in complaints_of(gradient_complaints, "numpy", "negative", gradient={"negative": rule})


# -- bits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", NATIVE)
def test_exact_judge_catches_one_bit(base):
    import torch

    def next_number(x, y):
        z = x + y
        return torch.nextafter(z, torch.full_like(z, np.inf))

    def negative_zero(x):
        return torch.where(x > 0, x, torch.where(torch.isnan(x), x, -0.0))

    def gradient(g, y, a, b):
        wrong = torch.nextafter(g, torch.full_like(g, np.inf))
        return wrong.sum_to_size(a.shape), g.sum_to_size(b.shape)

    assert complaints_of(oracle_complaints, base, "add") == set()
    assert "bits" in complaints_of(oracle_complaints, base, "add", forward={"add": next_number})
    assert "bits" in complaints_of(oracle_complaints, base, "relu", forward={"relu": negative_zero})
    assert "bits" in complaints_of(oracle_complaints, base, "add", gradient={"add": gradient})


def test_exact_judge_holds_the_references_against_python():
    wrong = {"add": lambda x, y: np.asarray(x + y) * (1 + 2**-50)}
    assert complaints_of(oracle_complaints, "numpy", "add", ["float64"]) == set()
    assert "value" in complaints_of(oracle_complaints, "numpy", "add", ["float64"], forward=wrong)


# -- the table of expected differences ---------------------------------------------------------------------------------


@pytest.fixture
def settled(monkeypatch):
    """What is left of one complaint about ``add`` on NumPy, given a table of one row."""
    backend, case = backends.get("numpy"), cases(REGISTRY["add"], ["float32"])[0]

    def settle_with(row, complaint):
        monkeypatch.setattr(tolerances, "EXPECTED", [tolerances.Expected("numpy", "add", reason="a test", **row)])
        return settle("forward", backend, "add", [(case, [complaint] if complaint else [])])

    return settle_with


def test_a_row_explains_its_own_kind_only(settled):
    assert settled({"kind": "nan"}, Complaint("nan", "")) == []
    assert len(settled({"kind": "nan"}, Complaint("value", ""))) == 2
    assert len(settled({"kind": "nan", "when": tolerances.when(special=True)}, Complaint("nan", ""))) == 2
    assert len(settled({"kind": "value", "at_most": 10.0}, Complaint("value", "", 11.0))) == 2
    assert settled({"kind": "value", "at_most": 10.0}, Complaint("value", "", 9.0)) == []


def test_a_row_that_no_longer_occurs_fails(settled):
    (left,) = settled({"kind": "nan"}, None)
    assert "no longer occurs" in left


def test_a_row_for_another_version_does_not_count(settled):
    assert len(settled({"kind": "nan", "versions": "<1.0"}, Complaint("nan", ""))) == 1
    assert settled({"kind": "nan", "versions": "<1.0"}, None) == []


def test_a_row_needs_a_reason():
    with pytest.raises(ValueError, match="must say why"):
        tolerances.Expected("numpy", "add", "nan", reason=" ")


def test_rows_name_operators_and_backends_that_exist():
    for row in tolerances.EXPECTED:
        assert row.op in REGISTRY or row.op == "*", row
        assert row.backend in checks.ALL_BACKENDS, row
        assert row.check in ("forward", "gradient", "exact"), row


def test_a_missing_framework_fails(monkeypatch, tmp_path):
    """Without the framework a backend's tests raise: nothing turns that into a skip."""
    from metaop.backends import catalog

    # Other tests make environments of their own, in which the framework would be found.
    monkeypatch.setenv("METAOP_HOME", str(tmp_path))
    monkeypatch.delenv(catalog.CREATE, raising=False)
    monkeypatch.setattr(catalog, "installed_version", lambda entry: None)
    monkeypatch.setattr(catalog, "_loaded", {})
    with pytest.raises(MissingFrameworkError):
        test_forward.test_values("add", "torch")


def test_cases_leave_nothing_out():
    """Every sample is judged: in the main dtype, but for an operator whose attribute must fit the dtype."""
    for name, op in REGISTRY.items():
        every = set(range(len(op.all_samples())))
        main = checks.main_dtype(op)
        assert {case.index for case in cases(op, [main, *test_forward.DTYPES])} == every, name
        assert name == "bit_cast" or {case.index for case in cases(op, [main])} == every, name
