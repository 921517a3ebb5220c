"""Public bugs of real releases, each inside a small network and on inputs on which it shows.

Nothing is imitated: the operator runs on the release that has the bug, in an environment of its own where that is not
the release installed here. The other side is a framework that is right. Bugs that metaop cannot reach stay in the list,
with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import metaop as mo
from benchmarks.debugged import Build, Network

__all__ = ["BUGS", "Bug"]


@dataclass(frozen=True)
class Bug:
    """A bug of one release, and the network that has it at the node named ``bug``."""

    issue: str
    #: the release that is wrong
    wrong: str
    what: str
    network: Callable[[], Network] | None = None
    #: a framework that is right
    right: str = "torch"
    tails: bool = False
    #: why it cannot be reached, where there is no network
    reason: str = ""


def _dense(b: Build, x: mo.Node, name: str, inputs: int, outputs: int) -> mo.Node:
    product = mo.matmul(x, b.weight(f"{name}.w", inputs, outputs), name=name)
    return mo.add(product, b.vector(f"{name}.b", outputs), name=f"{name}.bias")


def _head(b: Build, x: mo.Node, rows: int, features: int) -> mo.Node:
    """Two layers and a loss: six operators."""
    h = mo.tanh(_dense(b, x, "hidden", features, 6), name="hidden.tanh")
    return mo.mse(_dense(b, h, "out", 6, 3), b.normal("target", rows, 3), name="loss")


def _images(b: Build, x: mo.Node, images: int, channels: int) -> mo.Node:
    """A convolution, the mean over each image, and the layers above: ten operators."""
    w = b.weight("last.w", 4, channels, 3, 3, fan=9 * channels)
    h = mo.relu(mo.conv2d(x, w, pads=(1, 1, 1, 1), name="last"), name="last.relu")
    h = mo.flatten(mo.global_average_pool(h, name="average"), axis=1, name="flatten")
    return _head(b, h, images, 4)


def _einsum() -> Network:
    b = Build(0)
    mixing = mo.tanh(_dense(b, b.normal("x", 5, 8), "mixing", 8, 3), name="mixing.tanh")
    values = mo.tanh(_dense(b, b.normal("z", 3, 4), "values", 4, 2), name="values.tanh")
    mixing = mo.reshape(mixing, shape=(1, 1, 5, 3), name="mixing.split")
    values = mo.reshape(values, shape=(1, 1, 3, 2), name="values.split")
    mixed = mo.einsum(mixing, values, equation="bnij,bnjc->bnic", name="bug")
    return Network("attention", _head(b, mo.reshape(mixed, shape=(5, 2), name="merged"), 5, 2), b.feeds)


def _pad() -> Network:
    b = Build(0)
    h = mo.conv2d(b.normal("x", 2, 3, 8, 8), b.weight("first.w", 4, 3, 3, 3, fan=27), name="first")
    h = mo.pad(mo.tanh(h, name="first.tanh"), pads=(0, 0, 1, 1, 0, 0, 1, 1), name="bug")
    return Network("images", _images(b, h, 2, 4), b.feeds)


def _rectified(b: Build, features: int) -> mo.Node:
    """What has exact zeros, as behind every relu; five operators."""
    h = mo.tanh(_dense(b, b.normal("x", 6, 8), "first", 8, 8), name="first.tanh")
    return mo.relu(_dense(b, h, "second", 8, features), name="second.relu")


def _product() -> Network:
    b = Build(0)
    h = mo.reduce_prod(_rectified(b, 3), axes=(1,), keepdims=True, name="bug")
    return Network("product", _head(b, h, 6, 1), b.feeds)


def _running_product() -> Network:
    b = Build(0)
    h = mo.cumprod(_rectified(b, 4), axis=1, name="bug")
    return Network("running product", _head(b, h, 6, 4), b.feeds)


def _spoiled(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Data with one NaN, and not as the first number: that is where ReduceMax starts from."""
    array = rng.standard_normal(shape).astype(np.float32)
    array[(0,) * (len(shape) - 1) + (1,)] = np.nan
    return array


def _relu_of_nan() -> Network:
    b = Build(0)
    h = mo.multiply(b.feed("x", _spoiled(b.rng, 4, 8)), b.vector("gain", 8, 1.0), name="scaled")
    h = mo.relu(mo.add(h, b.vector("shift", 8), name="shifted"), name="bug")
    h = mo.tanh(_dense(b, h, "middle", 8, 5), name="middle.tanh")
    return Network("dense", _head(b, h, 4, 5), b.feeds)


def _pool_of_nan() -> Network:
    b = Build(0)
    h = mo.multiply(b.feed("x", _spoiled(b.rng, 2, 3, 8, 8)), b.vector("gain", 8, 1.0), name="scaled")
    h = mo.max_pool2d(h, kernel_shape=(2, 2), strides=(2, 2), name="bug")
    return Network("images", _images(b, h, 2, 3), b.feeds)


def _largest_of_nan() -> Network:
    b = Build(0)
    h = mo.multiply(b.feed("x", _spoiled(b.rng, 4, 8)), b.vector("gain", 8, 1.0), name="scaled")
    h = mo.add(h, b.vector("shift", 8), name="shifted")
    h = mo.reduce_max(h, axes=(1,), keepdims=True, name="bug")
    h = mo.tanh(_dense(b, h, "middle", 1, 5), name="middle.tanh")
    return Network("dense", _head(b, h, 4, 5), b.feeds)


def _determinant() -> Network:
    b = Build(0)
    x = b.feed("x", np.float32([[[1, 2], [2, 4]], [[1, 0], [3, 2]], [[2, 1], [4, 2]], [[1, 1], [0, 2]]]))
    matrices = mo.multiply(x, mo.Variable(np.ones((2, 2), np.float32), name="gain"), name="scaled")
    h = mo.reshape(mo.det(matrices, name="bug"), shape=(4, 1), name="column")
    h = mo.tanh(_dense(b, h, "middle", 1, 5), name="middle.tanh")
    return Network("determinant", _head(b, h, 4, 5), b.feeds)


def _tail() -> Network:
    b = Build(0)
    h = mo.tanh(_dense(b, b.normal("x", 6, 8), "first", 8, 8), name="first.tanh")
    low = mo.Variable(np.linspace(-6.5, -5.5, 8, dtype=np.float32), name="low")
    h = mo.gelu(mo.add(h, low, name="lowered"), name="bug")
    return Network("dense", _head(b, h, 6, 8), b.feeds)


def _average(size: int, **attributes: object) -> Network:
    b = Build(0)
    w = b.weight("first.w", 3, 3, 3, 3, fan=27)
    h = mo.relu(mo.conv2d(b.normal("x", 2, 3, size, size), w, pads=(1, 1, 1, 1), name="first"), name="first.relu")
    h = mo.average_pool2d(h, count_include_pad=True, name="bug", **attributes)  # type: ignore[arg-type]
    return Network("images", _images(b, h, 2, 3), b.feeds)


def _average_up() -> Network:
    return _average(9, kernel_shape=(7, 7), strides=(3, 3), pads=(3, 3, 3, 3), ceil_mode=True)


def _average_aside() -> Network:
    return _average(6, kernel_shape=(2, 2), strides=(1, 1), pads=(0, 0, 1, 1))


def _division() -> Network:
    b = Build(0)
    whole = b.feed("whole", b.rng.integers(1, 50, (4, 6)).astype(np.int32))
    parts = b.feed("parts", (np.arange(24).reshape(4, 6) % 5).astype(np.int32))
    h = mo.trunc_div(mo.add(whole, whole, name="twice"), parts, name="bug")
    h = mo.multiply(mo.cast(h, to="float32", name="cast"), 0.01, name="scaled")
    return Network("counts", _head(b, h, 4, 6), b.feeds)


BUGS = (
    Bug("mxnet#18102", "mxnet==1.6.0", "gradients of einsum 'bnij,bnjc->bnic'", _einsum),
    Bug("mxnet#19043", "mxnet==1.7.0.post2", "gradient of pad", _pad),
    Bug(
        "mxnet#17893",
        "mxnet==1.9.1",
        "gradient of where(condition, x, scalar)",
        reason="bindings give where two tensors, never a Python number: the faulty overload is not called",
    ),
    Bug("mxnet#17864", "mxnet==1.9.1", "gradient of prod where a factor is 0", _product),
    Bug("mxnet#11115", "mxnet==1.9.1", "relu of NaN", _relu_of_nan),
    Bug("tensorflow#119430", "tensorflow", "gradient of cumprod where a factor is 0", _running_product, right="jax"),
    Bug("tensorflow#2501", "tensorflow", "max-pool of NaN", _pool_of_nan, right="jax"),
    Bug(
        "tensorflow#74893",
        "tensorflow",
        "floordiv(-1, inf)",
        reason="there is no meta operator for it: FloorDiv of floating numbers is imported as floor(x / y), which is "
        "what the kernel computes",
    ),
    Bug("torch#104675", "torch", "gradient of det of a singular matrix", _determinant, right="jax"),
    Bug("torch#187806", "torch", "gelu(-6)", _tail, right="tensorflow", tails=True),
    Bug(
        "onnxruntime#32228",
        "onnxruntime==1.23.2",
        "Transpose, MatMul, Add fused",
        reason="it needs graph optimisation, which the bindings switch off, for nodes run one by one",
    ),
    Bug("onnxruntime#16203", "onnxruntime==1.18.1", "AveragePool with ceil_mode and count_include_pad", _average_up),
    Bug("onnxruntime#26708", "onnxruntime==1.23.2", "AveragePool with pads at one end", _average_aside),
    Bug("onnxruntime#10514", "onnxruntime", "ReduceMax of NaN", _largest_of_nan),
    Bug("onnxruntime#27686", "onnxruntime==1.23.2", "integers divided by 0", _division, right="numpy"),
    Bug(
        "keras#23233",
        "keras 3 on torch",
        "AveragePooling 'same'",
        reason="Keras on PyTorch is no backend: its layers are imported as what Keras computes on TensorFlow",
    ),
    Bug("theano 1.0.4", "theano==1.0.4", "gradient of relu at 0", reason="Theano is no backend"),
)
