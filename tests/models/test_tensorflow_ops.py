"""Operators of TensorFlow one by one: what the mapping gives is what TensorFlow gives, with and without known sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import metaop as mo
from metaop.models.tensorflow.convert import convert
from metaop.models.tensorflow.freeze import freeze_function

RAW = tf.raw_ops
IMAGE = (2, 5, 6, 4)


def imported(function: Callable[..., Any], *specs: tf.TensorSpec) -> mo.Model:
    """The function as a graph, with inputs x0, x1, ... and outputs y0, y1, ..."""
    traced = tf.function(lambda *a: tf.nest.flatten(function(*a)), input_signature=specs, autograph=False)
    concrete = traced.get_concrete_function()
    names = [f"x{i}" for i in range(len(specs))], [f"y{i}" for i in range(len(concrete.outputs))]
    return convert(freeze_function(concrete, *names))


def images(x: Any) -> Any:
    """An image that was computed channels first."""
    return RAW.MaxPool(input=x, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID")


def fused(x: Any, training: bool, layout: str = "NHWC") -> Any:
    c = 4
    return RAW.FusedBatchNormV3(
        x=x,
        scale=np.linspace(0.5, 1.5, c, dtype="float32"),
        offset=np.linspace(-1, 1, c, dtype="float32"),
        mean=np.zeros(0 if training else c, "float32"),
        variance=np.ones(0 if training else c, "float32"),
        epsilon=1e-3,
        data_format=layout,
        is_training=training,
    )[0]


def resized(kind: str, **how: Any) -> Callable[[Any], Any]:
    return lambda x: [getattr(RAW, kind)(images=x, size=s, **how) for s in ([10, 12], [7, 9], [3, 2], [5, 6], [1, 1])]


#: one image in
IMAGES: dict[str, Callable[[Any], Any]] = {
    "nearest": resized("ResizeNearestNeighbor"),
    "nearest_half": resized("ResizeNearestNeighbor", half_pixel_centers=True),
    "nearest_corners": resized("ResizeNearestNeighbor", align_corners=True),
    "bilinear": resized("ResizeBilinear"),
    "bilinear_half": resized("ResizeBilinear", half_pixel_centers=True),
    "bilinear_corners": resized("ResizeBilinear", align_corners=True),
    "fused_norm": lambda x: fused(x, False),
    "fused_norm_training": lambda x: fused(x, True),
    "lrn": lambda x: RAW.LRN(input=x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.6),
    "explicit_padding": lambda x: tf.nn.conv2d(
        x, np.ones((2, 3, 4, 2), "float32"), 2, padding=[[0, 0], [1, 0], [2, 1], [0, 0]]
    ),
    "pad_layout": lambda x: tf.pad(images(x), [[0, 0], [1, 2], [3, 0], [0, 1]], constant_values=2.0),
    "mirror": lambda x: tf.pad(x, [[0, 0], [1, 2], [3, 0], [0, 1]], "REFLECT"),
    "space_to_batch": lambda x: tf.nn.space_to_batch(x, [2, 3], [[1, 0], [0, 3]]),
    "batch_to_space": lambda x: tf.batch_to_space(
        tf.nn.space_to_batch(x, [2, 3], [[1, 0], [0, 3]]) * 2.0, [2, 3], [[1, 0], [1, 2]]
    ),
    "broadcast_channels": lambda x: images(x) * np.arange(4, dtype="float32") + np.float32(1),
    "broadcast_rows": lambda x: images(x) * np.arange(24, dtype="float32").reshape(6, 4),
    "broadcast_plain": lambda x: x[:, :1] - images(x),
    "rank_up": lambda x: images(x) + np.ones((3, 1, 1, 1, 1), "float32"),
    "reduce_spatial": lambda x: [tf.reduce_mean(images(x), [1, 2], keepdims=k) for k in (False, True)],
    "reduce_some": lambda x: [tf.reduce_max(images(x), [-3]), tf.reduce_sum(images(x), [3]), tf.reduce_min(images(x))],
    "concat": lambda x: [tf.concat([images(x), x], a) for a in (0, 1, 3, -2)],
    "split": lambda x: [*tf.split(images(x), 2, axis=3), *tf.split(x, [1, -1, 2], axis=1)],
    "softmax": lambda x: [tf.nn.softmax(images(x)), tf.nn.log_softmax(x)],
    "squeeze": lambda x: tf.squeeze(images(x[:, :1]), 1) + 1.0,
    "expand": lambda x: [tf.expand_dims(images(x), a) * 2.0 for a in (1, 2, 3, 4, 0, -1)],
    "turned": lambda x: tf.transpose(tf.nn.relu(tf.transpose(images(x), [0, 3, 1, 2])), [0, 2, 3, 1]) + 1.0,
    "transposed": lambda x: tf.transpose(images(x), [2, 0, 1, 3]),
    "one_by_one": lambda x: tf.stack(tf.unstack(x, axis=1)[::-1], axis=2),
    "l2": lambda x: tf.nn.l2_loss(x),
    "gelu": lambda x: [tf.nn.gelu(images(x)), tf.nn.gelu(x), tf.nn.gelu(x, approximate=True)],
    "moments": lambda x: tf.nn.moments(images(x), [1, 3], keepdims=True),
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "open"])
@pytest.mark.parametrize("name", IMAGES)
def test_images(name: str, known: bool) -> None:
    x = np.random.default_rng(0).standard_normal(IMAGE).astype("float32")
    graph = imported(IMAGES[name], tf.TensorSpec(IMAGE if known else (None, *IMAGE[1:]), tf.float32))
    for backend in ("numpy", "tensorflow"):
        found = graph.run({"x0": x}, backend=backend)
        for got, want in zip(found.values(), tf.nest.flatten(IMAGES[name](x)), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5)


SLICES: dict[str, Any] = {
    "whole": np.s_[:],
    "one": np.s_[1],
    "last": np.s_[-1],
    "back": np.s_[::-1, ::-2],
    "some": np.s_[1:3, -4:-1:2],
    "far": np.s_[-99:99, 2:99],
    "ellipsis": np.s_[..., 1:],
    "new": np.s_[:, None, 1, ..., None],
    "new_last": np.s_[..., None, -2],
    "mixed": np.s_[2, ..., 0:1],
    "down": np.s_[3:0:-1, 4:1:-1],
}


@pytest.mark.parametrize("name", SLICES)
def test_slices(name: str) -> None:
    x = np.arange(60, dtype="float32").reshape(4, 5, 3)
    for shape in ((4, 5, 3), (None, 5, 3)):
        graph = imported(lambda t: t[SLICES[name]] + 0.0, tf.TensorSpec(shape, tf.float32))
        np.testing.assert_array_equal(graph.run({"x0": x})["y0"], x[SLICES[name]])


#: two integer vectors in
INTEGERS: dict[str, Callable[..., Any]] = {
    "floor_div": lambda a, b: a // b,
    "floor_mod": lambda a, b: a % b,
    "truncate_div": lambda a, b: RAW.TruncateDiv(x=a, y=b),
    "compare": lambda a, b: [a > b, a == b, a != b, tf.logical_or(a < b, tf.logical_not(a <= b))],
    "any_all": lambda a, b: [tf.reduce_any(a > b), tf.reduce_all(a > -99, keepdims=True)],
    "arg": lambda a, b: [tf.argmax(a), tf.argmin(b, output_type=tf.int32)],
    "cast": lambda a, b: [tf.cast(a, tf.float32), tf.cast(a > 0, tf.int64), tf.cast(a, tf.int32) + 0],
    "one_hot": lambda a, b: [tf.one_hot(a, 4), tf.one_hot(a, 3, on_value=5, off_value=1, axis=0)],
    "select": lambda a, b: [tf.where(a > b, a, b), RAW.Select(condition=a > b, x=a, y=b)],
    "cumsum": lambda a, b: [tf.cumsum(a), tf.cumsum(a, exclusive=True, reverse=True)],
    "ranges": lambda a, b: a + tf.range(0, tf.size(a) * 2, 2),
    "add_n": lambda a, b: [tf.add_n([a, b, a]), tf.add_n([a])],
    "tile": lambda a, b: tf.tile(a[:, None], [2, 3]),
    "slice": lambda a, b: tf.slice(a, [1], [-1]) - tf.slice(b, [0], [5]),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    a, b = np.int32([-7, 7, -6, 0, 3, 2]), np.int32([2, -2, 3, 5, 3, -7])
    spec = tf.TensorSpec((6,), tf.int32)
    graph = imported(INTEGERS[name], spec, spec)
    wanted = tf.nest.flatten(INTEGERS[name](tf.constant(a), tf.constant(b)))
    for got, want in zip(graph.run({"x0": a, "x1": b}).values(), wanted, strict=True):
        assert got.dtype == want.numpy().dtype
        np.testing.assert_array_equal(got, want.numpy())


#: a matrix whose rows are unknown: sizes come with the data
OPEN: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: [tf.shape(x), tf.shape(x, out_type=tf.int64), tf.size(x), tf.rank(x)],
    "zeros": lambda x: tf.zeros([tf.shape(x)[0], 3]) + x[:, :3],
    "like": lambda x: tf.zeros_like(x) + tf.ones_like(x) * x,
    "broadcast": lambda x: tf.broadcast_to(x[:1], [tf.shape(x)[0] + 2, 4]),
    "reshape": lambda x: tf.reshape(x, [tf.shape(x)[0], 2, 2]) @ tf.ones((2, 3)),
    "swapped": lambda x: tf.reshape(x, [4, tf.shape(x)[0]]),
    "merged": lambda x: tf.reshape(x, [tf.shape(x)[0] * 2, tf.shape(x)[1] // 2]),
    "divided": lambda x: tf.math.divide_no_nan(x, tf.nn.relu(x)),
    "squared": lambda x: tf.math.squared_difference(x, tf.reduce_mean(x, axis=0)),
    "matmul": lambda x: [tf.matmul(x, x, transpose_b=True), tf.matmul(x, x, transpose_a=True)],
}


@pytest.mark.parametrize("name", OPEN)
def test_open_sizes(name: str) -> None:
    graph = imported(OPEN[name], tf.TensorSpec((None, 4), tf.float32))
    for rows in (3, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype("float32")
        for got, want in zip(graph.run({"x0": x}).values(), tf.nest.flatten(OPEN[name](x)), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "stop": (lambda x: x * tf.stop_gradient(x), "stop_gradient"),
    "stop_elsewhere": (lambda x: tf.square(x - tf.stop_gradient(tf.reduce_mean(x, 1, keepdims=True))), "stop_gradient"),
    "erfc": (tf.math.erfc, "Erfc"),
    "loop": (lambda x: tf.while_loop(lambda i: tf.reduce_sum(i) < 9, lambda i: i + 1, [x]), "control flow"),
    "branch": (lambda x: tf.cond(x[0, 0] > 0, lambda: x, lambda: -x), "control flow"),
    "random": (lambda x: x + tf.random.normal((4,)), "randomness"),
    "strings": (lambda x: tf.strings.length(tf.strings.as_string(x)), "strings"),
    "checks": (lambda x: tf.debugging.check_numerics(x, "m"), "fails while the model runs"),
    "symmetric": (lambda x: tf.pad(x, [[0, 0], [1, 1]], "SYMMETRIC"), "symmetric"),
    "complex": (lambda x: tf.abs(tf.cast(x, tf.complex64)), "complex64"),
    "batch_gather": (lambda x: tf.gather(x, tf.zeros((3, 1), tf.int32), batch_dims=1), "batch_dims"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    function, why = REFUSED[name]
    with pytest.raises(mo.ModelError, match=why) as caught:
        imported(function, tf.TensorSpec((3, 4), tf.float32))
    assert caught.value.unsupported


def test_gradients_through_moments_and_gelu() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype("float32")
    w = tf.Variable(np.linspace(-6, 3, 5, dtype="float32"), name="w")
    factor = np.random.default_rng(1).standard_normal((3, 4, 5)).astype("float32")

    def norm(x: Any) -> Any:
        mean, variance = tf.nn.moments(x * w, [-1], keepdims=True)
        return tf.nn.gelu((x * w - mean) * tf.math.rsqrt(variance + 1e-3) + w) * factor

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(norm(x))
    want = tape.gradient(loss, w).numpy()
    graph = imported(norm, tf.TensorSpec((None, 4, 5), tf.float32))
    assert "gelu" in {n.op.name for n in graph.nodes if isinstance(n, mo.Operator)}
    for backend in ("tensorflow", "numpy"):
        with mo.Session(backend) as session:
            (got,) = session.gradients(mo.reduce_sum(graph.outputs[0]), graph.parameters, {graph.inputs[0]: x})
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
