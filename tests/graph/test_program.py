"""Programs: what is fed is checked and converted, every type is inferred, every dtype decided before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop.errors import DtypeError, FeedError, ShapeError
from metaop.graph.program import value_of
from metaop.types import TensorType
from tests.graph.support import BACKENDS, assert_bits, program_of

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


# -- feeds -------------------------------------------------------------------------------------------------------------


def readonly(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(array.tobytes(), np.uint8)
    return raw[1:].view(array.dtype).reshape(array.shape)


FEEDS = {
    "plain": DATA,
    "list": DATA.tolist(),
    "tuple": tuple(map(tuple, DATA.tolist())),
    "list of arrays": list(DATA),
    "transposed": np.asfortranarray(DATA),
    "strided": np.repeat(DATA, 2, axis=1)[:, ::2],
    "reversed": DATA[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": np.broadcast_to(DATA[:1], (3, 4)),
    "read-only": readonly(DATA),
    "read-only and strided": readonly(np.repeat(DATA, 2, axis=1))[:, ::2],
    "byte-swapped": DATA.astype(DATA.dtype.newbyteorder()),
    "unaligned": unaligned(DATA),
    "empty": np.zeros((0, 4), np.float32),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", FEEDS)
def test_any_array_may_be_fed(kind: str, backend: str) -> None:
    fed = FEEDS[kind]
    before = np.array(fed)
    for x in (mo.Placeholder(name="x"), mo.Placeholder(shape=(None, 4), dtype="float32", name="x")):
        y = mo.transpose(x * mo.Variable([2.0, 3.0, 4.0, 5.0]))
        with mo.Session(backend=backend) as sess:
            expected = (np.asarray(fed, np.float32) * np.float32([2, 3, 4, 5])).T
            assert_bits(sess.run(y, {x: fed}), np.ascontiguousarray(expected))
            gradient = sess.gradients(mo.reduce_sum(y), x, {x: fed})
            assert_bits(gradient, np.broadcast_to(np.float32([2, 3, 4, 5]), np.shape(fed)).copy())
    assert_bits(np.array(fed), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scalars_may_be_fed(backend: str) -> None:
    x = mo.Placeholder(name="x")
    with mo.Session(backend=backend) as sess:
        for scalar in (1.5, np.float32(1.5), np.float64(1.5), np.array(1.5), np.array(1.5, ">f4")):
            assert_bits(sess.run(x * mo.Variable(2.0), {x: scalar}), np.float32(3.0))


def test_names_as_keys() -> None:
    x, y = mo.Placeholder(name="x"), mo.Placeholder(name="y")
    total = x + y
    with mo.Session() as sess:
        assert_bits(sess.run(total, {"x": np.ones(2), y: np.ones(2)}), np.full(2, 2.0))
        assert_bits(sess.gradients(mo.reduce_sum(total * total), [x], {"x": [1.0], "y": [2.0]}), [np.array([6.0])])
        with pytest.raises(FeedError, match="no node named 'z'"):
            sess.run(total, {"x": 1.0, "y": 1.0, "z": 1.0})
        with pytest.raises(FeedError, match="'x' is fed twice"):
            sess.run(total, {"x": 1.0, y: 1.0, x: 2.0})


def test_a_placeholder_that_is_not_needed_may_be_fed() -> None:
    x, other = mo.Placeholder(name="x"), mo.Placeholder(shape=(2,), name="other")
    sess = mo.Session()
    assert_bits(sess.run(x + 1.0, {other: [0.0, 0.0], x: 1.0}), np.array(2.0))
    with pytest.raises(FeedError, match=r"'other' is declared \?\[2\]; got float64\[3\]"):
        sess.run(x + 1.0, {other: np.zeros(3), x: 1.0})


def test_feeds_in_another_order() -> None:
    x, y = mo.Placeholder(name="x"), mo.Placeholder(name="y")
    sess = mo.Session()
    assert sess.run(x - y, {x: 5.0, y: 3.0}) == sess.run(x - y, {y: 3.0, x: 5.0}) == 2.0


# -- dtypes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("fed", ["float16", "float32", "float64"])
def test_an_undeclared_placeholder_adopts_the_parameters_dtype(dtype: str, fed: str) -> None:
    x = mo.Placeholder(name="x")
    y = x @ mo.Variable(np.eye(2), dtype=dtype) + 1.0
    data = np.array([[0.1, 0.2]], fed)
    found = mo.Session().run(y, {x: data})
    assert_bits(found, data.astype(dtype) + np.array(1, dtype))


def test_parameters_of_several_dtypes_leave_the_data_alone() -> None:
    x = mo.Placeholder(name="x")
    single, double = mo.Variable([2.0]), mo.Variable(np.array([3.0]))
    y = mo.cast(x * single, to="float64") * double
    assert_bits(mo.Session().run(y, {x: np.float32([1.0])}), np.array([6.0]))
    with pytest.raises(DtypeError, match="float64 and float32"):
        mo.Session().run(y, {x: np.array([1.0])})


def test_other_data_keeps_its_dtype() -> None:
    x, labels = mo.Placeholder(name="x"), mo.Placeholder(name="labels")
    loss = mo.sparse_softmax_cross_entropy(x @ mo.Variable(np.eye(3, dtype=np.float32)), labels)
    for dtype in ("int32", "int64"):
        found = mo.Session().run(loss, {x: np.zeros((2, 3)), labels: np.array([0, 2], dtype)})
        np.testing.assert_allclose(found, np.log(3), rtol=1e-6)


def test_a_declared_dtype_must_be_fed_exactly() -> None:
    x = mo.Placeholder(dtype="float32", shape=(None,), name="x")
    sess = mo.Session()
    with pytest.raises(FeedError, match=r"'x' is declared float32\[\?\]; got float64\[2\]; .*astype\('float32'\)"):
        sess.run(x + 1.0, {x: np.zeros(2)})
    assert_bits(sess.run(x + 1.0, {x: [1, 2]}), np.float32([2, 3]))


@pytest.mark.parametrize(
    ("dtype", "fed"),
    [("int64", [1.5]), ("int64", 2.0), ("bool", [0, 1]), ("bool", [0.5]), ("float32", ["1.0"]), ("uint8", [300])],
)
def test_numbers_that_do_not_fit_the_declared_dtype_are_refused(dtype: str, fed: Any) -> None:
    x = mo.Placeholder(dtype=dtype, name="x")
    with pytest.raises(FeedError, match="'x'"):
        mo.Session().run(mo.identity(x), {x: fed})


def test_numbers_that_fit_the_declared_dtype_are_taken() -> None:
    for dtype, fed in (("float16", [1, True]), ("int8", [True, -3]), ("uint8", [255]), ("int64", []), ("bool", [True])):
        x = mo.Placeholder(dtype=dtype, name="x")
        assert_bits(mo.Session().run(mo.identity(x), {x: fed}), np.array(fed, dtype))


# -- types -------------------------------------------------------------------------------------------------------------


def test_all_types_are_known_once_the_feeds_are() -> None:
    x = mo.Placeholder(shape=(None, None), name="x")
    hidden = mo.relu(x @ mo.Variable(np.zeros((4, 5), np.float32)))
    first, second = mo.split(hidden, axis=1, split=[2, 3])
    loss = mo.reduce_mean(first[:, 0]) + mo.reduce_mean(second)
    program, _ = program_of([loss], {x: np.zeros((7, 4))})
    assert all(t.known for t in program.types.values())
    assert program.types[value_of(second)] == TensorType(np.dtype("float32"), (7, 3))
    assert program.types[value_of(loss)] == TensorType(np.dtype("float32"), ())


def test_types_known_while_building_are_kept_when_run() -> None:
    x = mo.Placeholder(shape=(None, 4), dtype="float32")
    y = mo.softmax(x @ np.zeros((4, 5), np.float32))
    assert (y.shape, y.dtype) == ((None, 5), np.dtype("float32"))
    program, _ = program_of([y], {x: np.zeros((3, 4), np.float32)})
    assert program.types[value_of(y)].shape == (3, 5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_empty_tensors(shape: tuple[int, int], backend: str) -> None:
    x = mo.Placeholder(shape=(None, None), dtype="float32", name="x")
    w = mo.Variable(np.ones((shape[1], 2), np.float32))
    y = mo.relu(x @ w + 1.0)
    total = mo.reduce_sum(y)
    with mo.Session(backend=backend) as sess:
        feeds = {x: np.zeros(shape, np.float32)}
        assert_bits(sess.run(y, feeds), np.ones((shape[0], 2), np.float32))
        found = sess.gradients(total, [x, w], feeds)
        assert_bits(found[0], np.full(shape, 2, np.float32))
        assert_bits(found[1], np.zeros((shape[1], 2), np.float32))


def test_one_graph_with_many_shapes_in_one_session() -> None:
    x = mo.Placeholder(name="x")
    y = mo.reduce_sum(x * x, axes=[-1])
    sess = mo.Session()
    for _ in range(2):
        for shape in ((3,), (2, 3), (4, 2, 3), (0,)):
            assert sess.run(y, {x: np.ones(shape)}).shape == shape[:-1]
    with pytest.raises(Exception, match="axes"):
        sess.run(y, {x: np.ones(())})
    with pytest.raises(ShapeError, match="do not broadcast"):
        sess.run(x + np.ones(4), {x: np.ones(3)})


# -- random data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_dropout_masks_are_the_same_on_every_backend(seed: int) -> None:
    x = mo.Placeholder(shape=(8, 16), dtype="float32", name="x")
    y = mo.dropout(x, ratio=0.25, name="drop")
    data = np.ones((8, 16), np.float32)
    results = [mo.Session(backend=b, seed=seed).run(y, {x: data}) for b in BACKENDS]
    for found in results:
        assert_bits(found != 0, results[0] != 0)
        np.testing.assert_allclose(found[found != 0], 1 / 0.75, rtol=1e-6)
    assert 0 < (results[0] == 0).mean() < 0.6


def test_dropout_masks_follow_from_the_seed_and_the_node() -> None:
    x = mo.Placeholder(shape=(64,), dtype="float32", name="x")
    first, second = mo.dropout(x, name="first"), mo.dropout(x, name="second")
    data = np.ones(64, np.float32)

    def run(node: mo.Node, seed: int) -> list[float]:
        return mo.Session(seed=seed).run(node, {x: data}).tolist()

    sess = mo.Session(seed=3)
    once, twice = sess.run(first, {x: data}), sess.run(first, {x: data})
    assert_bits(once, twice)
    assert run(first, 3) == once.tolist()
    assert run(first, 4) != once.tolist()
    assert run(second, 3) != once.tolist()
    sess.close()
    assert_bits(sess.run(first, {x: data}), once)


def test_dropout_gradient_uses_the_very_mask_of_the_forward_run() -> None:
    x = mo.Placeholder(shape=(64,), dtype="float32", name="x")
    y = mo.dropout(x, ratio=0.5, name="drop")
    data = np.linspace(1, 2, 64, dtype=np.float32)
    for backend in BACKENDS:
        sess = mo.Session(backend=backend, seed=5)
        kept = sess.run(y, {x: data}) != 0
        assert_bits(sess.gradients(mo.reduce_sum(y), x, {x: data}), np.where(kept, np.float32(2), np.float32(0)))


def test_dropout_with_a_mask_of_the_caller_or_out_of_training() -> None:
    x = np.float32([1, 2, 3])
    mask = np.array([True, False, True])
    assert_bits(mo.Session().run(mo.dropout(x, mask, ratio=0.5)), np.float32([2, 0, 6]))
    assert_bits(mo.Session().run(mo.dropout(x, training=False)), x)
