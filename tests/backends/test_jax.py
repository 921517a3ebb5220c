"""What is particular to JAX: its switch for 64 bits, its devices, indices that it does not check, what it compiles."""

import os
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import metaop as mo
from metaop import backends
from metaop.errors import DeviceError, FrameworkError, UnsupportedOpError
from metaop.ops import REGISTRY
from tests.checks import BACKENDS, same_bits

pytestmark = pytest.mark.skipif("jax" not in BACKENDS, reason="METAOP_TEST_BACKENDS leaves it out")

X = np.linspace(-1, 2, 6).reshape(2, 3)


def python(code, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **variables}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def line(dtype):
    x = mo.Placeholder(shape=(2, 3), dtype=dtype, name="x")
    w = mo.Variable(np.ones((3, 1), dtype), name="w")
    return x, w, mo.reduce_mean(mo.tanh(x @ w))


# -- 64 bits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [False, True])
def test_the_users_switch_stays_as_it_is(chosen):
    import jax
    import jax.numpy as jnp

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", chosen)
    try:
        x, w, y = line("float64")
        with mo.Session("jax") as sess:
            assert sess.run(y, {x: X}).dtype == np.float64
            assert sess.gradients(y, [w], {x: X})[0].dtype == np.float64
        assert jax.config.jax_enable_x64 is chosen
        assert jnp.asarray(X).dtype == (np.float64 if chosen else np.float32)
        assert jnp.arange(3).dtype == (np.int64 if chosen else np.int32)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_other_threads_do_not_see_64_bits_meanwhile():
    import jax.numpy as jnp

    seen, inside, looked = [], threading.Event(), threading.Event()

    def look():
        inside.wait(60)
        seen.append(jnp.asarray(X).dtype)
        looked.set()

    def forward(x):
        inside.set()
        looked.wait(60)
        return jnp.tanh(x)

    thread = threading.Thread(target=look)
    thread.start()
    mo.derive("jax", name="jax-slow", forward={"tanh": forward})
    x, _, y = line("float64")
    assert mo.Session("jax-slow").run(y, {x: X}).dtype == np.float64
    thread.join()
    assert seen == [np.float32]


def test_what_derive_replaces_has_64_bits_too():
    import jax.numpy as jnp

    def gradient(g, y, x):
        return (g * (1 - jnp.square(jnp.asarray(np.tanh(np.asarray(x))))),)

    x, w, y = line("float64")
    expected = mo.Session("numpy").gradients(y, [w], {x: X})[0]
    for name, replaced in {
        "jax-forward": {"forward": {"tanh": lambda x: jnp.sinh(x) / jnp.cosh(x)}},
        "jax-gradient": {"gradient": {"tanh": gradient}},
    }.items():
        mo.derive("jax", name=name, **replaced)
        found = mo.Session(name).gradients(y, [w], {x: X})[0]
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# -- conversions -------------------------------------------------------------------------------------------------------

BITS = {
    "int64": np.array([2**63 - 1, -(2**63), 2**53 + 1]),
    "uint64": np.array([2**64 - 1, 0], np.uint64),
    "float64": np.array([1 + 2**-52, -0.0, np.inf, 5e-324]),
    "float64 NaN": np.array([0x7FF8000000000123, 0xFFF8000000000456], np.uint64).view(np.float64),
    "float16": np.array([65504, 6e-8, -0.0, np.nan], np.float16),
    "bool": np.array([True, False]),
    "int8": np.array([-128, 127], np.int8),
    "scalar": np.array(1 + 2**-52),
    "empty": np.zeros((0, 3), np.int64),
}


@pytest.mark.parametrize("what", BITS)
def test_every_bit_comes_and_goes(what):
    jax = backends.get("jax")
    array = BITS[what]
    for given in (array, array[::-1] if array.ndim else array, np.frombuffer(array.tobytes(), array.dtype)):
        tensor = jax.from_numpy(given)
        assert jax.type_of(tensor) == (given.dtype, given.shape)
        assert same_bits(jax.to_numpy(tensor), np.ascontiguousarray(given).reshape(given.shape))
        (same,) = jax.call("identity", {}, [tensor])
        assert same_bits(jax.to_numpy(same), jax.to_numpy(tensor))


def test_results_are_the_callers_own():
    x = mo.Placeholder(shape=(64, 64), dtype="float64", name="x")
    data = np.ones((64, 64))
    session = mo.Session("jax")
    same, twice = session.run([mo.identity(x), mo.add(x, x)], {x: data})
    same[:] = 5
    twice[:] = 7
    assert (data == 1).all()
    again = session.run([mo.identity(x), mo.add(x, x)], {x: data})
    assert (again[0] == 1).all()
    assert (again[1] == 2).all()


# -- what JAX would not say --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "wrong"),
    [
        (lambda i: mo.gather(mo.Variable(np.ones((3, 2), "float32")), i, axis=0), [0, 3]),
        (lambda i: mo.gather(mo.Variable(np.ones((3, 2), "float32")), i, axis=0), [-4, 0]),
        (lambda i: mo.embedding(i, mo.Variable(np.ones((3, 2), "float32"))), [-1, 0]),
        (lambda i: mo.scatter_add(i, mo.Variable(np.ones((2, 2), "float32")), axis=0, size=3), [0, 3]),
        (lambda i: mo.sparse_softmax_cross_entropy(mo.Variable(np.ones((2, 3), "float32")), i), [0, 3]),
        (lambda i: mo.gather_elements(mo.Variable(np.ones(3, "float32")), i), [0, 3]),
        (lambda i: mo.scatter_elements(mo.Variable(np.ones(3)), i, mo.Variable(np.ones(2)), reduction="add"), [-4, 0]),
        (lambda i: mo.gather_nd(mo.Variable(np.ones((3, 2), "float32")), i), [2, 2]),
        (lambda i: mo.gather_nd(mo.Variable(np.ones((2, 3, 2))), mo.reshape(i, shape=(2, 1)), batch_dims=1), [0, 3]),
        (lambda i: mo.scatter_nd(mo.Variable(np.ones((3, 2))), i, mo.Variable(np.ones(()))), [0, -3]),
        (lambda i: mo.tensor_scatter(mo.Variable(np.ones((2, 3))), mo.Variable(np.ones((2, 2))), i, axis=1), [0, 2]),
        (lambda i: mo.reverse_sequence(mo.Variable(np.ones((3, 2))), i), [0, 4]),
    ],
)
def test_indices_that_do_not_exist_are_errors(build, wrong):
    indices = mo.Placeholder(shape=(2,), dtype="int64", name="i")
    y = build(indices)
    session = mo.Session("jax")
    session.run(y, {indices: [0, 1]})
    with pytest.raises(FrameworkError, match="accepted:"):
        session.run(y, {indices: wrong})


def test_devices():
    for device in ("cpu", "cpu:0"):
        assert backends.get("jax@" + device).device == device
    for device in ("cpu:9", "cpu:x", "abacus"):
        with pytest.raises(DeviceError, match="jax has no device"):
            backends.get("jax@" + device)


def test_another_device_holds_every_result():
    code = """
import numpy as np
from metaop import backends
jax = backends.get("jax@cpu:1")
x = jax.from_numpy(np.ones((2, 3)))
for op, attrs in (("tanh", {}), ("identity", {}), ("shape_of", {"start": 0, "end": None}), ("size_of", {})):
    (y,) = jax.call(op, attrs, [x])
    assert [d.id for d in y.devices()] == [1], op
(y,) = jax.call("range", {"start": 0, "limit": 3, "delta": 1, "dtype": np.dtype("int64")}, [])
assert [d.id for d in y.devices()] == [1]
for y in (*jax.call("nonzero", {}, [x]), *jax.call("unique", {"axis": None, "sorted": False}, [x])):
    assert [d.id for d in y.devices()] == [1]
outputs, pullback = jax.linearize("tanh", {}, [x], [0])
assert [d.id for d in pullback([x])[0].devices()] == [1]
"""
    python(code, XLA_FLAGS="--xla_force_host_platform_device_count=2")


def test_the_first_use_says_nothing_and_changes_no_variable():
    code = """
import os
before = dict(os.environ)
import metaop as mo, numpy as np
print(mo.Session("jax").run(mo.exp(mo.Variable(np.zeros(2)))))
assert dict(os.environ) == before
"""
    done = python(code)
    assert (done.stdout, done.stderr) == ("[1. 1.]\n", "")


def test_what_it_does_not_differentiate_is_refused():
    updates = mo.Variable(np.array([2.0, 3.0]), name="updates")
    y = mo.reduce_sum(mo.scatter_elements(np.ones(3), np.array([0, 0]), updates, reduction="mul"))
    session = mo.Session("jax")
    assert session.run(y) == 8
    with pytest.raises(UnsupportedOpError, match="unique_indices"):
        session.gradients(y, [updates])


def test_gradients_in_bfloat16():
    x = mo.Variable(np.array([1.0, 2.0], ml_dtypes.bfloat16), name="x")
    (found,) = mo.Session("jax").gradients(mo.reduce_sum(mo.square(x)), [x])
    assert found.dtype == x.dtype
    assert found.tolist() == [2.0, 4.0]


# -- compiling ---------------------------------------------------------------------------------------------------------


def test_functions_are_compiled_once_per_attributes():
    jax = backends.get("jax")
    first, _ = jax.prepare("pad", {"pads": (1, 1), "mode": "constant", "value": 0.0}, None)
    again, _ = jax.prepare("pad", {"mode": "constant", "value": 0.0, "pads": (1, 1)}, None)
    assert first is again
    # Equal to Python, and not the same number.
    negative, _ = jax.prepare("pad", {"pads": (1, 1), "mode": "constant", "value": -0.0}, None)
    x = jax.from_numpy(np.ones(1, "float32"))
    assert np.signbit(jax.to_numpy(negative(x))).tolist() == [True, False, True]
    assert np.signbit(jax.to_numpy(first(x))).tolist() == [False, False, False]
    nan = {"pads": (1, 1), "mode": "constant", "value": float("nan")}
    assert jax.prepare("pad", nan, None)[0] is jax.prepare("pad", dict(nan, value=float("nan")), None)[0]


def test_variants_keep_what_is_compiled():
    jax = backends.get("jax")
    first, _ = jax.prepare("leaky_relu", {"alpha": 0.25}, None)
    mo.derive("jax", name="jax-variant", forward={"relu": lambda x: x})
    assert jax.prepare("leaky_relu", {"alpha": 0.25}, None)[0] is first


def test_what_is_kept_is_bounded(monkeypatch):
    from metaop.backends.jax import adapter

    monkeypatch.setattr(adapter, "KEPT", 3)
    jax = adapter.JaxBackend()
    for size in range(10):
        jax.prepare("reshape", {"shape": (size,)}, None)
    assert len(jax._compiled) <= 3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quotients_near_ties_are_rounded_once(dtype):
    jax = backends.get("jax")
    scale = np.array(0.0437, dtype)
    x = ((np.arange(-500, 500) + 0.5) * scale).astype(dtype)
    attrs = {"axis": 1, "block_size": 0, "output_dtype": np.dtype("int16")}
    (found,) = jax.call("quantize_linear", attrs, [jax.from_numpy(x), jax.from_numpy(scale)])
    assert np.array_equal(jax.to_numpy(found), REGISTRY["quantize_linear"](x, scale, **attrs))
