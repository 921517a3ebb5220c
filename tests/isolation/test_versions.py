"""Several versions of one framework in one session, and the bugs that only some of them have.

The environments are made on first use, from the package index, and kept in METAOP_HOME.
"""

import numpy as np
import pytest

import metaop as mo
from metaop.backends.isolation import environments

pytestmark = pytest.mark.slow
ORT = ["onnxruntime==1.18.1", "onnxruntime==1.23.2", "onnxruntime==1.31.1"]


@pytest.fixture(scope="module")
def versions():
    """Makes the environments of specs unless that version is installed here; the specs."""

    def make(*specs):
        for spec in specs:
            if mo.backends()["onnxruntime"].version != spec.partition("==")[2]:
                environments.create(spec)
        return specs

    return make


def test_three_versions_of_onnx_runtime_in_one_session(versions):
    versions(*ORT)
    rng = np.random.default_rng(0)
    x = mo.Placeholder(shape=(1, 2, 6, 6), dtype="float32", name="x")
    w = mo.Variable(rng.standard_normal((4, 2, 3, 3)).astype("float32"), name="w")
    h = mo.relu(mo.conv2d(x, w, pads=(1, 1, 1, 1), name="conv"), name="relu")
    pooled = mo.average_pool2d(h, kernel_shape=(2, 2), pads=(0, 0, 1, 1), count_include_pad=True, name="pool")
    y = mo.reduce_sum(pooled, axes=(2, 3), name="sum")
    feed = {x: rng.standard_normal((1, 2, 6, 6)).astype("float32")}
    with mo.Session(ORT[0], bindings={h: ORT[1], pooled: ORT[2]}) as session:
        mixed = session.run(y, feed)
    assert np.allclose(mixed, mo.Session("numpy").run(y, feed), rtol=1e-5)
    wrong = []
    for spec in ORT:
        with mo.DebugSession(progress=False) as session:
            report = session.run(y, feed, frameworks=["numpy", spec], gradients=False)
            if not report:
                verdict = session.verify(report.suspects[0])
                wrong.append((spec, verdict.nodes, verdict.confirmed, verdict.blame))
    assert wrong == [(ORT[1], ("pool",), True, ORT[1])], "onnxruntime#26708 is in 1.23.2 alone"


def test_the_papers_case_and_its_mended_version(versions):
    versions("mxnet==1.6.0")
    rng = np.random.default_rng(0)
    a = mo.Variable(rng.standard_normal((1, 1, 5, 3)).astype("float32"), name="a")
    b = mo.Variable(rng.standard_normal((1, 1, 3, 2)).astype("float32"), name="b")
    loss = mo.reduce_sum(
        mo.square(mo.einsum(a, b, equation="bnij,bnjc->bnic", name="einsum"), name="square"), name="loss"
    )
    with mo.DebugSession(progress=False) as session:
        report = session.run(loss, frameworks=["torch", "mxnet==1.6.0"])
        assert [r.node for r in report.suspects] == ["einsum"]
        assert report.record("einsum").gradient_delta > 0.1
        assert report.record("einsum").output_delta < 1e-5
        verdict = session.verify("einsum")
    assert verdict.confirmed
    assert verdict.after.gradient < 1e-6
    assert verdict.blame == "mxnet==1.6.0"


def test_a_division_that_kills_one_version_is_a_record(versions):
    """onnxruntime#27686: integers divided by zero raise SIGFPE up to 1.24.4; the session lives, and goes on."""
    old = ORT[0]
    versions(old)
    x = mo.Placeholder(shape=(3,), dtype="int32", name="x")
    y = mo.Placeholder(shape=(3,), dtype="int32", name="y")
    quotient = mo.trunc_div(mo.add(x, x, name="twice"), y, name="quotient")
    total = mo.reduce_sum(mo.cast(quotient, to="float32", name="cast"), name="total")
    right, wrong = ({x: np.int32([4, 5, 6]), y: np.int32(divisors)} for divisors in ([3, -4, 5], [3, 0, 5]))

    with mo.DebugSession(progress=False) as session:
        report = session.run(total, wrong, frameworks=["numpy", old], gradients=False)
        status = {r.node: r.status for r in report.records}
        assert status == {"twice": "ok", "quotient": "crash", "cast": "ok", "total": "ok"}
        assert "SIGFPE" in report.record("quotient").message
        assert [r.node for r in report.suspects] == ["quotient"]
        # The worker was replaced: the same session goes on with it.
        assert session.run(total, right, frameworks=["numpy", old], gradients=False).consistent

    with mo.Session(old) as session:
        with pytest.raises(mo.FrameworkError, match=r"'quotient'.*SIGFPE") as caught:
            session.run(total, wrong)
        assert caught.value.op == "trunc_div"
        assert session.run(total, right) == 2.0 - 2.0 + 2.0


def test_a_convolution_of_an_old_tensorflow_lite_sees_new_weights():
    environments.create("tensorflow==2.0.0")
    rng = np.random.default_rng(0)
    x = mo.Placeholder(shape=(1, 3, 6, 6), dtype="float32", name="x")
    w = mo.Placeholder(shape=(2, 3, 3, 3), dtype="float32", name="w")
    y = mo.conv2d(x, w)
    session = mo.Session("tflite==2.0.0")
    for _ in range(2):
        feeds = {node: rng.standard_normal(node.shape).astype("float32") for node in (x, w)}
        np.testing.assert_allclose(session.run(y, feeds), mo.Session("numpy").run(y, feeds), atol=1e-4)
