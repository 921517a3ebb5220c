"""The main job, end to end: two frameworks disagree on a network; which operator is it, and who is wrong?

Run it with ``make demo``. Four acts:

1. PyTorch against TensorFlow on a small convolutional network with attention-style pooling: they agree.
2. The same with one wrong gradient rule planted in PyTorch: found, verified, blamed.
3. PyTorch against ONNX Runtime on a text classifier fed one NaN: a real difference, where ONNX Runtime's maximum drops
   the NaN (onnxruntime#10514) and everything after it looks healthy.
4. PyTorch against MXNet 1.6.0, in an environment of its own, on attention written with einsum: the case of the
   meta-operator paper. Values agree; the gradients of MXNet's einsum are wrong (mxnet#18102). ``make demo MXNET=1.9.1``
   takes a version in which that is mended, and finds nothing.
"""

import argparse
import sys

import numpy as np

import metaop as mo
from metaop.backends.isolation import environments


def network(rng):
    """A small classifier; returns the input, the labels and the loss."""

    def weight(name, *shape):
        return mo.Variable((rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype("float32"), name=name)

    x = mo.Placeholder(shape=(None, 3, 16, 16), dtype="float32", name="image")
    labels = mo.Placeholder(shape=(None,), dtype="int64", name="label")
    h = mo.conv2d(x, weight("w1", 8, 3, 3, 3), pads=(1, 1, 1, 1), name="conv1")
    ones, zeros = mo.Constant(np.ones(8, "float32")), mo.Constant(np.zeros(8, "float32"))
    scale, shift = mo.Variable(np.ones(8, "float32"), name="scale"), mo.Variable(np.zeros(8, "float32"), name="shift")
    h = mo.batch_norm(h, scale, shift, zeros, ones, name="norm1")
    h = mo.relu(h, name="relu1")
    h = mo.max_pool2d(h, kernel_shape=(2, 2), strides=(2, 2), name="pool1")
    h = mo.conv2d(h, weight("w2", 16, 8, 3, 3), pads=(1, 1, 1, 1), name="conv2")
    h = mo.gelu(h, name="gelu2")
    h = mo.reshape(h, shape=(-1, 16, 64), name="rows")
    attention = mo.softmax(mo.reduce_max(h, axes=(1,), keepdims=True, name="strongest"), name="attention")
    h = mo.reduce_sum(mo.multiply(h, attention, name="weigh"), axes=(2,), name="pooled")
    bias = mo.Variable(np.zeros(10, "float32"), name="b3")
    logits = mo.add(mo.matmul(h, weight("w3", 16, 10), name="dense"), bias, name="logits")
    return x, labels, mo.sparse_softmax_cross_entropy(logits, labels, name="loss")


def text_classifier(rng):
    """The maximum over time of a projection; returns the input and the logits."""
    x = mo.Placeholder(shape=(None, 6, 8), dtype="float32", name="tokens")
    w1 = mo.Variable(rng.standard_normal((8, 16)).astype("float32"), name="w1")
    w2 = mo.Variable(rng.standard_normal((16, 4)).astype("float32"), name="w2")
    features = mo.tanh(mo.matmul(x, w1, name="project"), name="squash")
    return x, mo.matmul(mo.reduce_max(features, axes=(1,), name="over_time"), w2, name="logits")


def attention(rng):
    """Multi-head attention without dropout, written with einsum; returns its loss."""
    heads, length, width = 3, 5, 4
    q, k, v = (
        mo.Variable(rng.standard_normal((1, heads, length, width)).astype("float32"), name=name)
        for name in ("query", "key", "value")
    )
    scores = mo.matmul(q, mo.transpose(k, perm=(0, 1, 3, 2), name="key_t"), name="scores")
    weights = mo.softmax(mo.multiply(scores, width**-0.5, name="scaled"), name="weights")
    context = mo.einsum(weights, v, equation="bnij,bnjc->bnic", name="context")
    merged = mo.reshape(mo.transpose(context, perm=(0, 2, 1, 3), name="by_position"), shape=(5, 12), name="merged")
    w = mo.Variable(rng.standard_normal((12, 6)).astype("float32"), name="w")
    return mo.reduce_mean(mo.square(mo.matmul(merged, w, name="project"), name="energy"), name="loss")


def act(title, loss, feed, frameworks):
    """Compare two frameworks and print the verdict."""
    print(f"\n=== {title} ===\n")
    with mo.DebugSession() as sess:
        report = sess.run(loss, feed_dict=feed, frameworks=frameworks)
        print(report.table(limit=6))
        if report.consistent:
            print("\nverdict: consistent")
            return None
        verdict = sess.verify(report.suspects[0])
        print(f"\nverdict: {verdict}")
        print(f"  to blame: {verdict.blame or 'undecided'}")
        return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mxnet", default="1.6.0", metavar="VERSION", help="the version for the fourth act")
    mxnet = f"mxnet=={parser.parse_args().mxnet}"
    rng = np.random.default_rng(0)
    x, labels, loss = network(rng)
    feed = {x: rng.standard_normal((4, 3, 16, 16)).astype("float32"), labels: np.array([1, 0, 7, 3])}

    act("1. PyTorch against TensorFlow", loss, feed, ["torch", "tensorflow"])

    def forgets_the_sum(grad, y, x, *, axis):
        return (grad * y,)  # the gradient of softmax is y * (grad - sum(grad * y)): right values, wrong training

    mo.derive("torch", name="torch-planted", gradient={"softmax": forgets_the_sum})
    planted = act("2. TensorFlow against PyTorch with a planted fault", loss, feed, ["tensorflow", "torch-planted"])

    tokens, logits = text_classifier(rng)
    data = rng.standard_normal((2, 6, 8)).astype("float32")
    data[0, 3, 5] = np.nan
    real = act("3. PyTorch against ONNX Runtime, one NaN in the data", logits, {tokens: data}, ["torch", "onnxruntime"])

    environments.create(mxnet, report=lambda text: print(f"  {text}", file=sys.stderr))
    old = act(f"4. PyTorch against {mxnet}, attention with einsum", attention(rng), {}, ["torch", mxnet])

    expected = [(planted, "attention", "torch-planted"), (real, "over_time", "onnxruntime")]
    if mxnet == "mxnet==1.6.0":
        expected.append((old, "context", mxnet))
    if not all(v and v.confirmed and v.nodes == (node,) and v.blame == wrong for v, node, wrong in expected):
        raise SystemExit("the demo did not find what it should")


if __name__ == "__main__":
    main()
