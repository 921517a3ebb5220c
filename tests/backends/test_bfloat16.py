"""bfloat16, which NumPy knows only through the package ml_dtypes: it goes wherever float16 goes."""

import re

import ml_dtypes
import numpy as np
import pytest

import metaop as mo
from metaop import backends
from metaop.errors import AttributeValueError, DtypeError, UnsupportedOpError
from metaop.ops import REGISTRY
from metaop.types import TensorType, as_dtype, epsilon, is_floating
from tests.checks import BACKENDS, as_list
from tests.isolation.conftest import isolated
from tests.tolerances import ABOUT_BITS

BF16 = np.dtype(ml_dtypes.bfloat16)
TAKING = tuple(name for name, op in REGISTRY.items() if np.dtype("float16") in op.dtypes)
#: frameworks whose Python interface takes no arrays of bfloat16
WITHOUT = ("onnxruntime", "tflite")
#: where a framework does not compute the sample, and what it says
REFUSED = {
    ("torch", "average_pool3d"): "not implemented for 'BFloat16'",
    ("torch", "det"): "not implemented for 'BFloat16'",
    ("torch", "lrn"): "not implemented for 'BFloat16'",
    ("torch", "dft"): "BFloat16",
    ("torch", "stft"): "BFloat16",
    ("torch", "col2im"): "fold pads both ends alike",
    ("tensorflow", "max_pool3d"): "bfloat16",
    ("tensorflow", "average_pool3d"): "bfloat16",
    ("tensorflow", "det"): "bfloat16",
    ("tensorflow", "lrn"): "DT_BFLOAT16",
    ("tensorflow", "dft"): "bfloat16",
    ("tensorflow", "stft"): "RFFT requires",
    ("tensorflow", "lp_normalization"): "the L2 norm only",
}


def ordinary(name):
    """The first sample that means something for numbers of two bytes."""
    op = REGISTRY[name]
    for sample in op.all_samples():
        arrays = sample.inputs(BF16)
        try:
            op.infer([None if a is None else TensorType(a.dtype, a.shape) for a in arrays], op.complete(sample.attrs))
        except AttributeValueError:
            continue
        if not sample.special:
            return arrays, op.complete(sample.attrs)
    raise AssertionError(f"no sample of {name} can be had in bfloat16")


def widened(arrays, dtype):
    return [a.astype(dtype) if a is not None and a.dtype == BF16 else a for a in arrays]


@pytest.mark.parametrize("spec", [b for b in BACKENDS if b not in WITHOUT])
@pytest.mark.parametrize("name", TAKING)
def test_values(name, spec):
    op, backend = REGISTRY[name], backends.get(spec)
    arrays, attrs = ordinary(name)
    types = op.infer([None if a is None else TensorType(a.dtype, a.shape) for a in arrays], attrs)
    inputs = [None if a is None else backend.from_numpy(a) for a in arrays]
    unsupported, reason = backend.support(name)
    if unsupported == "unsupported" or (spec, name) in REFUSED:
        # Not a kind of exception: each framework has one of its own.
        with pytest.raises(Exception, match=re.escape(reason or REFUSED[spec, name])):
            backend.call(name, attrs, inputs)
        return
    found = [backend.to_numpy(t) for t in backend.call(name, attrs, inputs)]
    truth = as_list(op.reference(*(arrays if name in ABOUT_BITS else widened(arrays, np.float64)), **attrs))
    for got, want, declared in zip(found, truth, types, strict=True):
        assert got.dtype == declared.dtype
        if is_floating(declared.dtype):
            # A few roundings of the largest value: kernels differ in whether they accumulate in float32.
            scale = np.abs(want).max(initial=0.0)
            assert np.abs(got.astype(np.float64) - want).max(initial=0.0) <= 4 * epsilon(BF16) * scale
        else:
            assert np.array_equal(got, want)


@pytest.mark.parametrize("name", TAKING)
def test_the_reference_rounds_once(name):
    arrays, attrs = ordinary(name)
    found = backends.get("numpy").call(name, attrs, arrays)
    wide = as_list(REGISTRY[name].reference(*(arrays if name in ABOUT_BITS else widened(arrays, np.float32)), **attrs))
    for got, want in zip(found, wide, strict=True):
        assert np.array_equal(got, want.astype(got.dtype), equal_nan=is_floating(got.dtype))


@pytest.mark.parametrize("spec", [b for b in BACKENDS if b in WITHOUT])
def test_who_cannot_says_so(spec):
    x = mo.Placeholder((2,), "bfloat16", name="x")
    with pytest.raises(UnsupportedOpError, match="bfloat16"):
        mo.Session(spec).run(mo.exp(x), {x: np.ones(2, BF16)})


@pytest.mark.parametrize("spec", [b for b in BACKENDS if b not in WITHOUT])
def test_every_bit_survives(spec):
    everything = np.arange(1 << 16, dtype=np.uint16).view(BF16)
    backend = backends.get(spec)
    for array in (everything, everything[::-1], everything.reshape(256, 256).T):
        kept = backend.to_numpy(backend.from_numpy(array))
        assert kept.dtype == BF16
        assert np.array_equal(kept.view(np.uint16), array.view(np.uint16))


@pytest.mark.parametrize("spec", [b for b in BACKENDS if b not in WITHOUT])
def test_sessions_and_gradients(spec):
    x = mo.Placeholder((3, 2), "bfloat16", name="x")
    w = mo.Variable(np.float32([[0.5, -1], [2, 0.25]]).astype(BF16), name="w")
    loss = mo.reduce_sum(mo.tanh(x @ w * 0.5), name="loss")
    data = np.linspace(-1, 1, 6).reshape(3, 2).astype(BF16)
    session = mo.Session(spec)
    assert session.run(loss, {x: data}).dtype == BF16
    gradient = session.gradients(loss, w, {x: data})
    assert gradient.dtype == BF16
    product = data.astype("f8") @ w.value.astype("f8") * 0.5
    exact = data.astype("f8").T @ (0.5 / np.cosh(product) ** 2)
    np.testing.assert_allclose(gradient.astype("f8"), exact, atol=8 * epsilon(BF16))
    report = mo.DebugSession(threshold_output=0.1, threshold_gradient=0.1).run(
        loss, {x: data}, frameworks=["numpy", spec]
    )
    assert report.consistent
    assert {r.status for r in report.records} == {"ok"}


def test_workers_and_casts():
    backend = isolated()
    x = mo.Placeholder((70_000,), "float32", name="x")  # large enough for shared memory
    y = mo.cast(mo.exp(mo.cast(x, to="bfloat16")), to="float32")
    z = mo.cast(x, to="bfloat16")
    data = np.linspace(-2, 2, 70_000, dtype="float32")
    for node in (y, z):
        here, there = (mo.Session(b).run(node, {x: data}) for b in ("numpy", backend))
        assert here.dtype == there.dtype
        assert np.array_equal(here.view(np.uint8), there.view(np.uint8))
    backend.close()


def test_files(tmp_path):
    w = mo.Variable(np.float32([0.5, 3]).astype(BF16), name="w")
    mo.save({"y": mo.exp(w, name="e")}, tmp_path / "m.metaop")
    loaded = mo.load(tmp_path / "m.metaop")
    assert loaded.node("w").value.dtype == BF16
    assert np.array_equal(loaded.run({})["y"], mo.Session().run(mo.exp(w)))


def test_operators_that_do_not_take_float16_do_not_take_bfloat16():
    x = mo.Placeholder((2,), "bfloat16", name="x")
    with pytest.raises(DtypeError):
        mo.logical_not(x)
    assert as_dtype("bfloat16") == BF16
