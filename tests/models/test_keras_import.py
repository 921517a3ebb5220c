"""Keras models and SavedModels: what Keras computes, and its gradients, on every backend."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

import metaop as mo
from metaop.errors import UnsupportedOpError

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ["numpy", "torch", "tensorflow", "onnxruntime", "tflite", "jax"]
if "METAOP_TEST_BACKENDS" in os.environ:
    BACKENDS = [b for b in BACKENDS if b in os.environ["METAOP_TEST_BACKENDS"].split(",")]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """Names that do not depend on other tests, and seeded weights."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)


def shaken(model: Any) -> Any:
    """The model with weights that are all different, moving statistics and biases included."""
    rng = np.random.default_rng(11)
    for weight in model.weights:
        value = rng.standard_normal(weight.shape) * 0.3
        if "variance" in weight.path or "gamma" in weight.path:
            value = np.exp(value)
        if weight.dtype == "float32" and "seed" not in weight.path:
            weight.assign(value.astype("float32"))
    return model


def fed(model: Any, batch: int = 2, seed: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    result = []
    for tensor in model.inputs:
        shape = [batch if s is None and i == 0 else 7 if s is None else s for i, s in enumerate(tensor.shape)]
        if "int" in tensor.dtype:
            result.append(rng.integers(0, 5, shape).astype(tensor.dtype))
        else:
            result.append(rng.standard_normal(shape).astype(tensor.dtype))
    return result


def structured(model: Any, arrays: list[np.ndarray]) -> Any:
    """The inputs as the model takes them."""
    if isinstance(getattr(model, "_inputs_struct", None), dict):
        return dict(zip(sorted(model._inputs_struct), arrays, strict=True))
    return arrays if len(arrays) > 1 else arrays[0]


def expected(model: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [t.numpy() for t in tf.nest.flatten(model(structured(model, arrays), training=False))]


def rounding(got: np.ndarray, want: np.ndarray, times: float = 64.0) -> None:
    """Equal but for some units in the last place of the largest value."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    assert np.isfinite(want).all()
    assert want.std() > 0, "an output that is constant shows nothing"
    scale = np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=0, atol=times * np.finfo(want.dtype).eps * scale)


def image_model(*layers: Any, shape: tuple[int, ...] = (9, 8, 3)) -> Any:
    return keras.Sequential([keras.Input(shape, name="image"), *layers])


def residual() -> Any:
    x = keras.Input((8, 8, 4), name="x")
    h = kl.Conv2D(4, 3, padding="same", use_bias=False)(x)
    h = kl.ReLU(max_value=6.0)(kl.BatchNormalization()(h))
    h = kl.Conv2D(4, 1)(h)
    h = kl.add([x, h])
    h = kl.concatenate([h, kl.AveragePooling2D(3, 1, padding="same")(h)])
    return keras.Model(x, [h, kl.GlobalMaxPooling2D()(h)])


def squeeze_excite() -> Any:
    x = keras.Input((8, 8, 4), name="x")
    h = kl.Conv2D(8, 3, strides=2, padding="same", activation="swish")(x)
    s = kl.Reshape((1, 1, 8))(kl.GlobalAveragePooling2D()(h))
    s = kl.Conv2D(8, 1, activation="sigmoid")(kl.Conv2D(2, 1, activation="swish")(s))
    return keras.Model(x, kl.Flatten()(kl.multiply([h, s])))


def attention() -> Any:
    x = keras.Input((6, 8), name="tokens")
    h = kl.LayerNormalization()(x)
    h = kl.add([x, kl.MultiHeadAttention(num_heads=2, key_dim=4)(h, h)])
    return keras.Model(x, kl.Dense(8, activation="gelu")(kl.LayerNormalization(epsilon=1e-6)(h)))


def two_inputs() -> Any:
    ids = keras.Input((5,), dtype="int32", name="ids")
    other = keras.Input((5, 4), name="other")
    h = kl.Embedding(6, 4)(ids)
    return keras.Model({"ids": ids, "other": other}, {"sum": h + other, "max": kl.maximum([h, other])})


def lstm() -> Any:
    return image_model(kl.LSTM(4, unroll=True, return_sequences=True), kl.GRU(3, unroll=True), shape=(5, 3))


def recurrent() -> Any:
    """As people leave it: a loop for TensorFlow, written out here."""
    return image_model(
        kl.Masking(0.5),
        kl.Bidirectional(kl.LSTM(3, return_sequences=True)),
        kl.GRU(4, return_sequences=True, go_backwards=True, reset_after=False),
        kl.SimpleRNN(3),
        shape=(5, 3),
    )


def vision_transformer() -> Any:
    x = keras.Input((8, 8, 3), name="image")
    h = kl.Reshape((4, 8))(kl.Conv2D(8, 4, 4)(x))
    h = h + kl.Embedding(4, 8)(keras.ops.arange(4))
    h = kl.LayerNormalization()(h + kl.MultiHeadAttention(2, 4)(h, h, use_causal_mask=True))
    return keras.Model(x, kl.Dense(3)(kl.Flatten()(h)))


def pixels() -> Any:
    x = keras.Input((4, 4, 3), name="image")
    h = keras.layers.Conv2D(8, 3, padding="same")(x)
    wide = keras.layers.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(h)
    return keras.Model(x, [wide, keras.layers.Lambda(lambda t: tf.nn.space_to_depth(t, 2))(h)])


def more_operations() -> Any:
    x, y = keras.Input((4,), name="x"), keras.Input((4,), name="y")
    o = keras.ops
    outputs = [*o.top_k(x, 2), o.sort(x, axis=-1), o.argmax(x, axis=-1), o.mod(x, 0.3), o.arctan2(x, y), o.flip(x, 1)]
    outputs += [
        o.cumprod(x, axis=1),
        o.isnan(x),
        o.isfinite(x / (x - x[:, :1])),
        o.floor_divide(x, 0.3),
    ]
    outputs += [o.tril(o.matmul(x[:, :, None], y[:, None, :])), o.any(x > 0, axis=1), o.all(x > 0, axis=1)]
    return keras.Model([x, y], outputs)


def upsampling() -> Any:
    return image_model(
        kl.Conv2D(4, 3),
        kl.UpSampling2D((2, 3), interpolation="nearest"),
        kl.Conv2DTranspose(3, 3, strides=2, padding="same"),
        kl.UpSampling2D(2, interpolation="bilinear"),
        kl.Conv2DTranspose(2, 2, strides=3, padding="valid"),
    )


def autoencoder_1d() -> Any:
    return image_model(
        kl.Conv1D(4, 3, padding="causal", activation="relu"),
        kl.MaxPooling1D(2),
        kl.Conv1D(4, 3, padding="same", dilation_rate=2),
        kl.SeparableConv1D(6, 3, padding="same"),
        kl.UpSampling1D(2),
        kl.TimeDistributed(kl.Dense(3)),
        shape=(10, 3),
    )


def activations() -> Any:
    x = keras.Input((6,), name="x")
    names = ["relu", "relu6", "sigmoid", "tanh", "softplus", "softsign", "elu", "selu", "gelu", "silu", "exponential"]
    names += ["hard_sigmoid", "leaky_relu", "log_softmax", "softmax", "mish"]
    return keras.Model(x, [kl.Activation(n, name=n)(x) for n in names])


def operations() -> Any:
    x = keras.Input((4, 6), name="x")
    y = keras.Input((6,), name="y")
    o = keras.ops
    return keras.Model(
        [x, y],
        [
            o.transpose(x, (0, 2, 1)) @ x,
            o.einsum("bij,bkj->bik", x, x),
            x[:, 1:, ::2] - o.mean(x, axis=(1, 2), keepdims=True),
            o.stack([x[:, 0], y], axis=1),
            o.concatenate(o.split(y, 3, axis=1)[::-1], axis=1),
            o.where(y > 0.0, o.exp(y), o.square(y)),
            o.clip(y, -0.5, 0.5) + o.maximum(y, 0.1),
            o.sum(o.abs(x), axis=-1) / (1.0 + o.sqrt(o.max(x * x, axis=2))),
            o.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=1.5),
            o.take(x, o.convert_to_tensor([0, 2, 2]), axis=1),
            o.one_hot(o.cast(o.clip(y, 0, 3), "int32"), 6),
            o.reshape(x, (-1, 3, 8)),
            o.tile(y, (1, 3)),
            o.expand_dims(y, 1) * o.squeeze(x[:, None], 1),
            o.cumsum(y, axis=1),
        ],
    )


MODELS: dict[str, Callable[[], Any]] = {
    "dense": lambda: image_model(kl.Dense(5, activation="tanh"), kl.Dense(3, activation="softmax"), shape=(4,)),
    "conv_same": lambda: image_model(kl.Conv2D(4, 3, padding="same"), kl.Conv2D(2, (2, 3), padding="same")),
    "conv_same_strides": lambda: image_model(
        kl.Conv2D(4, 3, strides=2, padding="same"), kl.Conv2D(2, 4, strides=(3, 2), padding="same")
    ),
    "conv_valid": lambda: image_model(kl.Conv2D(4, 3, strides=2), kl.Conv2D(2, 2, activation="relu")),
    "conv_dilated": lambda: image_model(
        kl.Conv2D(4, 3, dilation_rate=2, padding="same"), kl.ZeroPadding2D(((1, 2), (0, 1)))
    ),
    "conv_groups": lambda: image_model(kl.Conv2D(6, 3, groups=3, padding="same")),
    "conv3d": lambda: image_model(
        kl.Conv3D(4, 2, strides=(1, 2, 1), padding="same"),
        kl.MaxPooling3D(2, padding="same"),
        kl.Conv3DTranspose(2, 2),
        shape=(4, 5, 4, 2),
    ),
    "depthwise": lambda: image_model(
        kl.DepthwiseConv2D(3, padding="same"),
        kl.DepthwiseConv2D(3, strides=2, depth_multiplier=2),
        kl.SeparableConv2D(4, 2),
    ),
    "batch_norm": lambda: image_model(kl.Conv2D(4, 3), kl.BatchNormalization(), kl.BatchNormalization(axis=1)),
    "group_norm": lambda: image_model(kl.Conv2D(4, 3), kl.GroupNormalization(2), kl.UnitNormalization()),
    "pooling": lambda: image_model(
        kl.MaxPooling2D(3, 2, padding="same"), kl.AveragePooling2D(2, 2, padding="same"), kl.GlobalAveragePooling2D()
    ),
    "pooling_valid": lambda: image_model(
        kl.MaxPooling2D(2, 2), kl.AveragePooling2D((2, 1), 1), kl.GlobalMaxPooling2D(keepdims=True)
    ),
    "rescaling": lambda: image_model(kl.Rescaling(1 / 127.5, offset=-1.0), kl.Cropping2D(1), kl.Permute((3, 1, 2))),
    "residual": residual,
    "squeeze_excite": squeeze_excite,
    "attention": attention,
    "two_inputs": two_inputs,
    "lstm": lstm,
    "recurrent": recurrent,
    "vision_transformer": vision_transformer,
    "pixels": pixels,
    "cubic": lambda: image_model(kl.UpSampling2D(2, interpolation="bicubic"), shape=(4, 5, 2)),
    "more_operations": more_operations,
    "upsampling": upsampling,
    "autoencoder_1d": autoencoder_1d,
    "activations": activations,
    "operations": operations,
}

#: what a backend has no kernel for
UNSUPPORTED = {
    ("tflite", "conv3d"): "MaxPool3D",
    ("tflite", "recurrent"): "SplitV of booleans",
    ("tflite", "cubic"): "ResizeBicubic",
    ("tflite", "more_operations"): "BitwiseAnd",
    ("torch", "cubic"): "nothing beyond the border",
}


@pytest.mark.parametrize("name", MODELS)
def test_values_are_those_of_keras(name: str) -> None:
    model = shaken(MODELS[name]())
    arrays = fed(model)
    wanted = expected(model, arrays)
    graph = mo.from_keras(model)
    feeds = {node.name: array for node, array in zip(graph.inputs, arrays, strict=True)}
    for backend in BACKENDS:
        try:
            found = graph.run(feeds, backend=backend)
        except UnsupportedOpError:
            if (backend, name) not in UNSUPPORTED:
                raise
            continue
        assert (backend, name) not in UNSUPPORTED
        for got, want in zip(found.values(), wanted, strict=True):
            rounding(got, want)


@pytest.mark.parametrize("name", [n for n in MODELS if "operations" not in n])
def test_gradients_are_those_of_keras(name: str) -> None:
    model = shaken(MODELS[name]())
    arrays = fed(model)
    rng = np.random.default_rng(5)
    factors = [rng.standard_normal(t.shape).astype("float32") for t in expected(model, arrays)]
    with tf.GradientTape() as tape:
        outputs = tf.nest.flatten(model(structured(model, arrays), training=False))
        loss = tf.add_n([tf.reduce_sum(o * f) for o, f in zip(outputs, factors, strict=True)])
    wanted = {
        w.path: g for w, g in zip(model.trainable_weights, tape.gradient(loss, model.trainable_weights), strict=True)
    }
    graph = mo.from_keras(model)
    total: Any = None
    for node, factor in zip(graph.outputs, factors, strict=True):
        term = mo.reduce_sum(node * mo.Constant(factor))
        total = term if total is None else total + term
    assert {node.name for node in graph.parameters} == set(wanted)
    if not graph.parameters:
        return
    with mo.Session("tensorflow") as session:
        found = session.gradients(total, graph.parameters, dict(zip(graph.inputs, arrays, strict=True)))
    dense = {name: tf.convert_to_tensor(g).numpy() for name, g in wanted.items()}
    largest = max(np.abs(g).max() for g in dense.values())
    for node, got in zip(graph.parameters, found, strict=True):
        want = dense[node.name]
        # Some gradients are zero but for rounding: that of a bias that softmax takes away again.
        atol = max(256 * np.abs(want).max(), largest) * np.finfo("float32").eps
        np.testing.assert_allclose(got, want, rtol=0, atol=atol, err_msg=node.name)


# -- names, layouts, sizes ---------------------------------------------------------------------------------------------


def test_names_and_kinds_of_weights() -> None:
    x = keras.Input((8, 8, 3), name="image")
    h = kl.BatchNormalization(name="bn")(kl.Conv2D(4, 3, name="conv")(x))
    frozen = kl.Dense(2, name="frozen", trainable=False)
    graph = mo.from_keras(keras.Model(x, frozen(kl.Flatten()(h)), name="net"))
    assert [n.name for n in graph.inputs] == ["image"]
    assert graph.inputs[0].shape == (None, 8, 8, 3)
    assert graph.output_names == ["frozen"]
    assert graph.name == "net"
    assert {n.name for n in graph.parameters} == {"conv/kernel", "conv/bias", "bn/gamma", "bn/beta"}
    assert graph.node("conv/kernel").shape == (3, 3, 3, 4)
    for name in ("bn/moving_mean", "bn/moving_variance", "frozen/kernel", "frozen/bias"):
        assert isinstance(graph.node(name), mo.Constant)
    assert graph.node("net/conv/convolution").op.name == "conv2d"


def test_transposes_stand_at_the_ends_only() -> None:
    graph = mo.from_keras(residual())
    turned = [n for n in graph.nodes if isinstance(n, mo.Operator) and n.op.name == "transpose" and n.shape[0] is None]
    assert sorted(n.name.rpartition("/")[2] for n in turned) == ["channels_first", "channels_last"]


def test_a_layer_used_twice_keeps_one_weight() -> None:
    x = keras.Input((4,), name="x")
    shared = kl.Dense(4, name="shared")
    model = keras.Model(x, shared(shared(x)))
    graph = mo.from_keras(model)
    assert {n.name for n in graph.parameters} == {"shared/kernel", "shared/bias"}
    (array,) = fed(model)
    rounding(graph.run({"x": array})["shared"], expected(model, [array])[0])


@pytest.mark.parametrize("sizes", [(7, 6), (8, 9), (5, 5)])
def test_unknown_sizes_pad_as_tensorflow_does(sizes: tuple[int, int]) -> None:
    model = shaken(
        image_model(
            kl.Conv2D(4, 3, strides=2, padding="same"),
            kl.MaxPooling2D(3, 2, padding="same"),
            kl.Conv2D(2, 3, padding="same"),
            shape=(None, None, 3),
        )
    )
    graph = mo.from_keras(model)
    assert graph.inputs[0].shape == (None, None, None, 3)
    array = np.random.default_rng(0).standard_normal((2, *sizes, 3)).astype("float32")
    for backend in BACKENDS:
        (got,) = graph.run({"image": array}, backend=backend).values()
        rounding(got, expected(model, [array])[0])


def test_unknown_sizes_grow_as_tensorflows_do() -> None:
    """A network for images of any size, which ends with as many pixels as it began with."""
    x = keras.Input((None, None, 3), name="image")
    down = kl.Conv2D(4, 3, padding="same", activation="relu")(x)
    h = kl.Conv2DTranspose(4, 2, strides=2)(kl.SeparableConv2D(6, 3, padding="same")(kl.MaxPooling2D()(down)))
    h = kl.concatenate([down, h])
    h = kl.Conv2DTranspose(2, 3, strides=2, padding="same")(h)
    model = shaken(keras.Model(x, kl.Conv2DTranspose(2, 2, strides=3, padding="valid")(h)))
    graph = mo.from_keras(model)
    for sizes in ((8, 6), (4, 10)):
        array = np.random.default_rng(0).standard_normal((2, *sizes, 3)).astype("float32")
        for backend in BACKENDS:
            (got,) = graph.run({"image": array}, backend=backend).values()
            rounding(got, expected(model, [array])[0])


def test_layers_are_left_as_they_were() -> None:
    model = recurrent()
    mo.from_keras(model)
    assert not any(getattr(layer, "unroll", False) for layer in model._flatten_layers())


def test_the_batch_stays_open() -> None:
    model = shaken(attention())
    graph = mo.from_keras(model)
    for batch in (1, 3):
        (array,) = fed(model, batch)
        (got,) = graph.run({"tokens": array}).values()
        rounding(got, expected(model, [array])[0])


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_keras_file(tmp_path: Path) -> None:
    model = shaken(squeeze_excite())
    model.save(tmp_path / "m.keras")
    for path in (tmp_path / "m.keras", str(tmp_path / "m.keras")):
        graph = mo.from_keras(path)
        (array,) = fed(model)
        (got,) = graph.run({"x": array}).values()
        rounding(got, expected(model, [array])[0])


def test_files_with_code_are_refused(tmp_path: Path) -> None:
    x = keras.Input((2,))
    keras.Model(x, kl.Lambda(lambda t: t * 2)(x)).save(tmp_path / "code.keras")
    with pytest.raises(mo.ModelError, match="Lambda"):
        mo.from_keras(tmp_path / "code.keras")


def test_what_is_no_keras_model(tmp_path: Path) -> None:
    (tmp_path / "text.keras").write_text("no")
    with zipfile.ZipFile(tmp_path / "empty.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    for name, message in (
        ("missing.keras", "not there"),
        ("", "no file"),
        ("text.keras", r"no \.keras file"),
        ("empty.keras", "cannot load"),
    ):
        with pytest.raises(mo.ModelError, match=message) as caught:
            mo.from_keras(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(mo.ModelError, match="got int"):
        mo.from_keras(3)
    with pytest.raises(mo.ModelError, match="wrapped"):
        mo.from_keras(keras.Sequential([kl.Dense(2)]))


def test_a_saved_model(tmp_path: Path) -> None:
    model = shaken(residual())
    model.export(tmp_path / "saved", verbose=False)
    graph = mo.from_saved_model(tmp_path / "saved")
    (array,) = fed(model)
    found = graph.run({graph.inputs[0].name: array}, backend="torch")
    for got, want in zip(found.values(), expected(model, [array]), strict=True):
        rounding(got, want)
    assert {n.name for n in graph.parameters} == {w.path for w in model.trainable_weights}


def test_a_saved_module_with_two_signatures(tmp_path: Path) -> None:
    class Module(tf.Module):
        def __init__(self) -> None:
            self.w = tf.Variable([[1.0, 2.0]], name="w")
            self.c = tf.Variable([3.0], trainable=False, name="c")

        @tf.function(input_signature=[tf.TensorSpec((None, 1), tf.float32, name="x")])
        def double(self, x: Any) -> Any:
            return {"y": 2.0 * x @ self.w}

        @tf.function(input_signature=[tf.TensorSpec((None, 1), tf.float32, name="x")])
        def shifted(self, x: Any) -> Any:
            return {"z": x + self.c}

    module = Module()
    tf.saved_model.save(module, str(tmp_path), signatures={"double": module.double, "shifted": module.shifted})
    graph = mo.from_saved_model(tmp_path, signature="double")
    np.testing.assert_array_equal(graph.run({"x": np.float32([[3]])})["y"], [[6, 12]])
    assert [n.name for n in graph.parameters] == ["w"]
    graph = mo.from_saved_model(tmp_path, signature="shifted")
    np.testing.assert_array_equal(graph.run({"x": np.float32([[3]])})["z"], [[6]])
    assert graph.parameters == []
    with pytest.raises(mo.ModelError, match="no signature 'serving_default'; there are 'double', 'shifted'"):
        mo.from_saved_model(tmp_path)


def test_a_model_that_writes_its_variables_is_refused(tmp_path: Path) -> None:
    class Counter(tf.Module):
        def __init__(self) -> None:
            self.count = tf.Variable(0.0, name="count")

        @tf.function(input_signature=[tf.TensorSpec((), tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            self.count.assign_add(x)
            return {"y": self.count + 0.0}

    module = Counter()
    tf.saved_model.save(module, str(tmp_path), signatures=module.__call__)
    with pytest.raises(mo.ModelError, match="changes its variable 'count' while it runs"):
        mo.from_saved_model(tmp_path)


def test_what_is_no_saved_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no")
    (tmp_path / "empty").mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "saved_model.pb").write_bytes(b"\xff" * 40)
    model = shaken(residual())
    model.export(tmp_path / "cut", verbose=False)
    shutil.rmtree(tmp_path / "cut" / "variables")
    for name, message in (
        ("missing", "not there"),
        ("file", "no folder"),
        ("empty", r"no file saved_model\.pb"),
        ("damaged", "cannot be read"),
        ("cut", "TensorFlow cannot load"),
    ):
        with pytest.raises(mo.ModelError, match=message) as caught:
            mo.from_saved_model(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(mo.UserError, match="takes the path"):
        mo.from_saved_model(3)  # type: ignore[arg-type]


def test_tensorflow_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metaop.backends.tensorflow", None)
    for function, argument in ((mo.from_keras, "a.keras"), (mo.from_saved_model, "folder")):
        with pytest.raises(mo.errors.MissingFrameworkError, match=r"pip install 'metaop\[tensorflow\]'"):
            function(argument)


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_all_that_cannot_be_expressed_is_told_at_once() -> None:
    x = keras.Input((None, 3), name="x")
    h = kl.LSTM(4)(x)
    y = keras.ops.erfinv(keras.ops.tanh(x))
    with pytest.raises(mo.ModelError) as caught:
        mo.from_keras(keras.Model(x, [h, y]))
    kinds = {entry["op"]: entry["why"] for entry in caught.value.unsupported}
    why = "control flow is not supported; a recurrent layer of Keras is written out where its number of steps is known"
    assert why in kinds.values()
    assert kinds["Erfinv"] == "no meta operator expresses it"
    assert all(set(entry) == {"name", "op", "domain", "opset", "why"} for entry in caught.value.unsupported)


def test_attributes_that_nobody_looked_at_are_refused() -> None:
    from metaop.models.tensorflow.table import TABLE

    def careless(call: Any) -> Any:
        return call.make("conv2d", call.first(0), call.input(1))

    kept = TABLE["Conv2D"]
    TABLE["Conv2D"] = careless
    try:
        with pytest.raises(mo.ModelError, match="Conv2D"):
            mo.from_keras(image_model(kl.Conv2D(3, 3)))
        TABLE["Relu"], relu = lambda call: call.data(np.zeros((2, 3), "float32")), TABLE["Relu"]
        with pytest.raises(mo.ModelError, match=r"input 0 is not supported"):
            mo.from_keras(image_model(kl.ReLU(), shape=(3,)))
    finally:
        TABLE["Conv2D"], TABLE["Relu"] = kept, relu


def test_a_result_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from metaop.models.tensorflow.table import TABLE

    monkeypatch.setitem(TABLE, "Relu", lambda call: call.make("reduce_sum", call.input(0), axes=(1,)))
    with pytest.raises(mo.ModelError, match=r"would give float32\[\?\] where TensorFlow gives float32\[\?, 3\]"):
        mo.from_keras(image_model(kl.ReLU(), shape=(3,)))


# -- real models -------------------------------------------------------------------------------------------------------

APPLICATIONS = {
    "MobileNet": lambda: keras.applications.MobileNet(input_shape=(64, 64, 3), weights=None, classes=10),
    "ResNet50": lambda: keras.applications.ResNet50(input_shape=(64, 64, 3), weights=None, classes=10),
    "EfficientNetB0": lambda: keras.applications.EfficientNetB0(input_shape=(64, 64, 3), weights=None, classes=10),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications(name: str) -> None:
    model = APPLICATIONS[name]()
    rng = np.random.default_rng(0)
    for weight in model.weights:  # statistics that are not those of a fresh model
        if "moving" in weight.path or "beta" in weight.path or "gamma" in weight.path:
            shift = rng.uniform(-0.1, 0.1, weight.shape).astype("float32")
            weight.assign(weight.numpy() + shift)
    array = rng.uniform(0, 1, (1, 64, 64, 3)).astype("float32")
    want = expected(model, [array])[0]
    graph = mo.from_keras(model)
    assert {n.name for n in graph.parameters} == {w.path for w in model.trainable_weights}
    for backend in BACKENDS:
        (got,) = graph.run({graph.inputs[0].name: array}, backend=backend).values()
        rounding(got, want, times=256)


@pytest.mark.slow
def test_basic_pitch() -> None:
    folder = Path(os.environ.get("METAOP_TEST_MODELS", ROOT / ".venv" / "models"))
    path = folder / "basic_pitch" / "saved_models" / "icassp_2022" / "nmp"
    assert path.is_dir(), (
        f"{path} is not there: pip install --no-deps --target {folder} basic-pitch, or name the folder in "
        "METAOP_TEST_MODELS"
    )
    array = (np.random.default_rng(0).standard_normal((1, 43844, 1)) * 0.1).astype("float32")
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        # tf.saved_model.load fails on the optimizer that is stored with it.
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        signature = meta.signature_def["serving_default"]
        (given,) = signature.inputs.values()
        wanted = session.run({k: v.name for k, v in signature.outputs.items()}, {given.name: array})
    graph = mo.from_saved_model(path)
    assert set(graph.output_names) == set(wanted) == {"contour", "note", "onset"}
    assert len(graph.parameters) == 18
    for backend in BACKENDS:
        for name, got in graph.run({graph.inputs[0].name: array}, backend=backend).items():
            # Decibels of spectra: rounding near silence is stretched by the logarithm.
            np.testing.assert_allclose(got, wanted[name], rtol=0, atol=5e-5)
