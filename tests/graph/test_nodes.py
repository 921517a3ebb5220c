"""Nodes: what they know, what they refuse, and the arithmetic, comparisons and indexing that build further ones."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from metaop.errors import DtypeError, ShapeError, UsageError
from tests.graph.support import BACKENDS, assert_bits, generated

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
W = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 3)


# -- the four kinds ----------------------------------------------------------------------------------------------------


def test_placeholder_declares_what_is_known() -> None:
    x = mo.Placeholder(shape=(None, 3), dtype="float32", name="x")
    assert (x.shape, x.dtype, x.name, x.inputs) == ((None, 3), np.dtype("float32"), "x", ())
    open_ended = mo.Placeholder(name="anything")
    assert open_ended.shape is None
    assert open_ended.dtype is None
    assert mo.Placeholder(4).shape == (4,)
    assert mo.Placeholder(shape=[2, None]).shape == (2, None)


def test_variable_takes_numbers_as_float32_and_arrays_as_they_are() -> None:
    assert mo.Variable([[1, 2]]).dtype == np.float32
    assert mo.Variable(0.0).shape == ()
    assert mo.Variable(np.zeros(3)).dtype == np.float64
    assert mo.Variable(np.zeros(3), dtype="float16").dtype == np.float16
    assert mo.Variable(np.ones(2, ">f4")).value.dtype.isnative


def test_constant_takes_floats_as_float32_and_integers_as_int64() -> None:
    assert mo.Constant([1.5]).dtype == np.float32
    assert mo.Constant([1]).dtype == np.int64
    assert mo.Constant(True).dtype == np.bool_
    assert mo.Constant(np.float64(2.0)).dtype == np.float64


def test_stored_values_are_private_copies() -> None:
    array = np.ones(3, np.float32)
    w, c = mo.Variable(array), mo.Constant(array)
    array[:] = 7
    assert_bits(w.value, np.ones(3, np.float32))
    assert_bits(c.value, np.ones(3, np.float32))
    for node in (w, c):
        with pytest.raises(ValueError, match="read-only"):
            node.value[0] = 5
    with pytest.raises(AttributeError):
        c.value = array


def test_variable_is_reassigned_with_its_own_type_only() -> None:
    w = mo.Variable([[1.0, 2.0]], name="weight")
    w.value = [[3, 4]]
    assert_bits(w.value, np.float32([[3, 4]]))
    w.value = np.array([[5, 6]], ">f4")
    assert_bits(w.value, np.float32([[5, 6]]))
    with pytest.raises(ShapeError, match=r"'weight'.*float32\[1, 2\].*\(2,\)"):
        w.value = [3.0, 4.0]
    with pytest.raises(DtypeError, match=r"'weight'.*float32\[1, 2\].*float64"):
        w.value = np.zeros((1, 2))
    with pytest.raises(UsageError, match=r"variable 'weight'.*cannot be made an array"):
        w.value = [[1.0], [2.0, 3.0]]
    assert_bits(w.value, np.float32([[5, 6]]))


def test_names_are_given_or_numbered() -> None:
    first, second = mo.Placeholder(), mo.Placeholder()
    assert first.name != second.name
    assert first.name.startswith("placeholder_")
    assert mo.relu(first).name.startswith("relu_")
    assert mo.relu(first, name="r").name == "r"
    for bad in ("", 3):
        with pytest.raises(UsageError, match="non-empty string"):
            mo.Placeholder(name=bad)


def test_repr_says_kind_name_and_type() -> None:
    x = mo.Placeholder(shape=(None, 3), dtype="float32", name="x")
    assert repr(x) == "<Placeholder 'x' float32[?, 3]>"
    assert repr(mo.Variable([1.0], name="w")) == "<Variable 'w' float32[1]>"
    y = mo.relu(x, name="r", backend="pytorch")
    assert repr(y) == "<Operator 'r' relu float32[?, 3] on torch>"


def test_only_operators_are_bound() -> None:
    y = mo.relu(mo.Placeholder(), name="y")
    assert y.backend is None
    y.backend = "pytorch"
    assert y.backend == "torch"
    y.backend = None
    assert y.backend is None
    for leaf in (mo.Placeholder(name="leaf"), mo.Variable(1.0, name="leaf"), mo.Constant(1.0, name="leaf")):
        with pytest.raises(UsageError, match=r"'leaf' is a \w+: only operators"):
            leaf.backend = "numpy"


def test_binding_an_output_binds_its_operator() -> None:
    first, second = mo.split(mo.Placeholder(shape=(4,)), split=[1, 3])
    first.backend = "torch"
    assert second.backend == "torch"
    assert first.producer is second.producer


def test_a_node_is_no_truth_value_and_equal_to_itself_only() -> None:
    x = mo.Placeholder(name="x")
    with pytest.raises(UsageError, match="'x' has no truth value"):
        bool(x)
    assert x == x
    assert x != mo.Placeholder(name="x")
    assert len({x, x}) == 1


def test_length_and_iteration_need_a_known_first_axis() -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    assert len(x) == 2
    rows = list(x)
    assert [r.shape for r in rows] == [(3,), (3,)]
    assert_bits(mo.Session().run(rows, {x: X}), [X[0], X[1]])
    for unknown in (mo.Placeholder(), mo.Placeholder(shape=(None,)), mo.Placeholder(shape=())):
        with pytest.raises(UsageError, match="no known length"):
            len(unknown)


def test_operators_keep_attributes_in_canonical_form() -> None:
    node = mo.softmax(mo.Placeholder(shape=(2, 3)), axis=np.int64(0))
    assert node.attrs == {"axis": 0}
    assert type(node.attrs["axis"]) is int
    assert mo.transpose(mo.Placeholder(shape=(2, 3)), perm=np.array([1, 0])).attrs == {"perm": (1, 0)}
    # Nodes do not change when the caller's list does.
    perm = [1, 0]
    node = mo.transpose(mo.Placeholder(shape=(2, 3)), perm=perm)
    perm.reverse()
    assert node.attrs == {"perm": (1, 0)}


# -- arithmetic --------------------------------------------------------------------------------------------------------

BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("symbol", BINARY)
def test_binary_operators_against_numpy(symbol: str, backend: str) -> None:
    apply = BINARY[symbol]
    data = np.abs(X) + np.float32(0.25) if symbol == "**" else X
    two = np.float32(2.0)
    x = mo.Placeholder(shape=(2, 3), dtype="float32", name="x")
    with mo.Session(backend=backend) as sess:
        for node, expected in (
            (apply(x, mo.Variable(W)), apply(data, W)),
            (apply(mo.Variable(W), x), apply(W, data)),
            (apply(x, mo.Variable(W[0])), apply(data, W[0])),
            (apply(x, W), apply(data, W)),
            (apply(W, x), apply(W, data)),
            (apply(x, 2.0), apply(data, two)),
            (apply(2.0, x), apply(two, data)),
            (apply(x, 2), apply(data, two)),
            (apply(2, x), apply(two, data)),
            (apply(x, two), apply(data, two)),
            (apply(two, x), apply(two, data)),
            (apply(x, np.float64(2.0)), apply(data, two)),
            (apply(np.float64(2.0), x), apply(two, data)),
        ):
            found = sess.run(node, {x: data})
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unary_operators_and_matmul_against_numpy(backend: str) -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32")
    with mo.Session(backend=backend) as sess:
        assert_bits(sess.run(-x, {x: X}), -X)
        assert_bits(sess.run(abs(x), {x: X}), np.abs(X))
        assert_bits(sess.run(~(x > 0.0), {x: X}), ~(X > 0))
        np.testing.assert_allclose(sess.run(x @ W.T, {x: X}), X @ W.T, rtol=1e-6)
        np.testing.assert_allclose(sess.run(W.T @ x, {x: X}), W.T @ X, rtol=1e-6)


def test_a_number_takes_the_dtype_beside_it() -> None:
    integers = mo.Placeholder(dtype="int32", shape=(2,))
    assert (integers * 2).dtype == np.int32
    assert (2 * integers).dtype == np.int32
    with pytest.raises(UsageError, match=r"2\.5 cannot stand beside a int32 tensor; use metaop.cast"):
        integers * 2.5
    half = mo.Placeholder(dtype="float16", shape=(2,))
    assert (half + 1).dtype == np.float16
    small = mo.Placeholder(dtype="uint8", shape=(2,))
    with pytest.raises(UsageError, match="300"):
        small + 300


def test_a_number_beside_an_undeclared_placeholder_waits_for_the_data() -> None:
    x = mo.Placeholder(name="x")
    y = x * 2 + 1
    sess = mo.Session()
    assert_bits(sess.run(y, {x: np.array([1, 2], np.int32)}), np.array([3, 5], np.int32))
    assert_bits(sess.run(y, {x: np.array([1.5])}), np.array([4.0]))
    assert_bits(sess.run(y, {x: np.array([1.5], np.float16)}), np.array([4.0], np.float16))
    with pytest.raises(UsageError, match=r"0\.5 cannot stand beside a int64"):
        sess.run(x + 0.5, {x: np.array([1])})


def test_comparison_gives_booleans_for_where() -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32")
    assert (x > 0.0).dtype == np.bool_
    y = mo.where(x > 0.0, x, x * 0.1)
    assert_bits(mo.Session().run(y, {x: X}), np.where(X > 0, X, X * np.float32(0.1)))


# -- indexing ----------------------------------------------------------------------------------------------------------

A = np.arange(4 * 3 * 5, dtype=np.float32).reshape(4, 3, 5)

INDICES = [
    0,
    -1,
    3,
    -4,
    np.int64(2),
    slice(None),
    slice(1, 3),
    slice(-3, -1),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(10, None, -3),
    slice(2, 2),
    slice(5, 9),
    slice(-100, 100),
    slice(0, -1),
    slice(-2, None),
    slice(np.int64(1), np.int32(3)),
    Ellipsis,
    None,
    (),
    (1, 2),
    (1, 2, 3),
    (-1, -1, -1),
    (slice(1, 3), 0),
    (0, slice(None), slice(1, None, 2)),
    (Ellipsis, 0),
    (Ellipsis, slice(1, 3)),
    (0, Ellipsis),
    (0, Ellipsis, -1),
    (Ellipsis, 1, 2),
    (1, 2, 3, Ellipsis),
    (None, 0),
    (0, None),
    (None, Ellipsis, None),
    (slice(None), None, 1),
    (1, None, slice(None, None, -1), None),
    (None, None),
    (Ellipsis, None, 0, slice(None)),
    [0, 2],
    [-1, 0, 0],
    [],
    [[0, 1], [2, 3]],
    np.array([1, 1]),
    np.array(2),
    np.array([], np.int64),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_indexing_against_numpy(backend: str) -> None:
    declared = mo.Placeholder(shape=A.shape, dtype="float32")
    unknown = mo.Placeholder(shape=(None, None, None), dtype="float32")
    with mo.Session(backend=backend) as sess:
        for key in INDICES:
            expected = A[key if not isinstance(key, list) else np.array(key, np.int64)]
            node = declared[key]
            assert node.shape == expected.shape, key
            assert_bits(sess.run([node, unknown[key]], {declared: A, unknown: A}), [expected, expected])


@pytest.mark.parametrize("backend", BACKENDS)
def test_indexing_by_a_node(backend: str) -> None:
    x, i = mo.Placeholder(shape=(4, 3, 5), dtype="float32"), mo.Placeholder(dtype="int64")
    with mo.Session(backend=backend) as sess:
        for rows in (np.array([2, 0]), np.array([[1], [3]]), np.array(-1)):
            assert_bits(sess.run(x[i], {x: A, i: rows}), A[rows])


@st.composite
def keys(draw: Any) -> tuple[Any, ...]:
    """Any basic index that fits shape (4, 3, 5)."""
    rank = draw(st.integers(0, 3))
    items: list[Any] = []
    for size in A.shape[:rank]:
        bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
        step = st.one_of(st.none(), st.sampled_from([1, 2, 3, 7, -1, -2, -3, -7]))
        items.append(draw(st.one_of(st.integers(-size, size - 1), st.builds(slice, bound, bound, step))))
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if rank == 3 and draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return tuple(items)


@generated(150)
@given(keys())
def test_generated_indices_against_numpy(key: tuple[Any, ...]) -> None:
    declared = mo.Placeholder(shape=A.shape, dtype="float32")
    unknown = mo.Placeholder(dtype="float32", shape=(None, 3, None))
    node = declared[key]
    assert node.shape == A[key].shape
    assert_bits(mo.Session().run([node, unknown[key]], {declared: A, unknown: A}), [A[key], A[key]])


def test_gradient_of_indexing_puts_back_where_it_came_from() -> None:
    x = mo.Placeholder(shape=A.shape, dtype="float32")
    for key in ((0, slice(None, None, -2)), (Ellipsis, -1), [0, 2, 0]):
        expected = np.zeros_like(A)
        np.add.at(expected, key, np.float32(1))
        for backend in BACKENDS:
            assert_bits(mo.Session(backend).gradients(mo.reduce_sum(x[key]), x, {x: A}), expected)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (4, ShapeError, r"'x'.*index 4 is out of range for axis 0"),
        ((0, -4), ShapeError, r"'x'.*index -4 is out of range for axis 1"),
        ((0, 0, 0, 0), ShapeError, r"'x'.*too few axes"),
        (1.0, UsageError, r"'x'.*1\.0 is not an integer, slice, ellipsis or None"),
        (True, UsageError, r"'x'.*True is not an integer"),
        ("name", UsageError, r"'x'.*'name' is not an integer"),
        (slice(0.5, 2), UsageError, r"'x'.*integers; got 0\.5"),
        (slice(None, None, 0), UsageError, r"'x'.*step cannot be 0"),
        ((Ellipsis, 0, Ellipsis), UsageError, r"'x'.*at most one ellipsis"),
        (np.array([0.0]), DtypeError, r"gather.*'indices' takes int32 or int64"),
        (np.array([True, False, True, False]), DtypeError, r"gather.*'indices' takes int32 or int64"),
    ],
)
def test_wrong_indices(key: Any, error: type[Exception], message: str) -> None:
    x = mo.Placeholder(shape=A.shape, dtype="float32", name="x")
    with pytest.raises(error, match=message):
        x[key]


def test_ellipsis_needs_a_known_rank() -> None:
    with pytest.raises(ShapeError, match=r"'x'.*known rank"):
        mo.Placeholder(name="x")[..., 0]


def test_an_index_out_of_range_at_run_time_is_an_error() -> None:
    x = mo.Placeholder(shape=(None,), dtype="float32", name="x")
    for key in (5, -4):
        with pytest.raises(ShapeError, match="squeeze"):
            mo.Session().run(x[key], {x: np.ones(3, np.float32)})


# -- calling operators -------------------------------------------------------------------------------------------------


def test_tensors_by_position_by_keyword_and_left_out() -> None:
    x = np.float32([[1, 2], [3, 5]])
    scale, bias = np.float32([2, 3]), np.float32([1, -1])
    sess = mo.Session()
    full = sess.run(mo.layer_norm(x, scale, bias))
    assert_bits(sess.run(mo.layer_norm(x, bias=bias, scale=scale)), full)
    only_bias = sess.run(mo.layer_norm(x, bias=bias))
    np.testing.assert_allclose(only_bias, sess.run(mo.layer_norm(x)) + bias, rtol=1e-6)
    with pytest.raises(UsageError, match="'scale' is given twice"):
        mo.layer_norm(x, scale, scale=scale)


def test_variadic_operators_take_a_list_too() -> None:
    x = mo.Placeholder(shape=(2,), dtype="float32")
    apart, together = mo.concat(x, x, axis=0), mo.concat([x, x], axis=0)
    assert apart.shape == together.shape == (4,)


def test_apply_takes_the_operator_as_data() -> None:
    x = mo.Placeholder(shape=(2,), dtype="float32")
    node = mo.apply("leaky_relu", [x], {"alpha": 0.5}, name="n", backend="numpy")
    assert (node.op.name, node.attrs, node.name, node.backend) == ("leaky_relu", {"alpha": 0.5}, "n", "numpy")
    assert mo.apply(mo.ops()["leaky_relu"], [x]).attrs == {"alpha": 0.01}


def test_several_outputs_are_a_tuple_of_nodes() -> None:
    parts = mo.split(mo.Placeholder(shape=(5,), dtype="float32"), num_outputs=2, name="parts")
    assert isinstance(parts, tuple)
    assert [p.shape for p in parts] == [(3,), (2,)]
    assert [p.name for p in parts] == ["parts.0", "parts.1"]
    assert [p.index for p in parts] == [0, 1]
    one = mo.split(mo.Placeholder(shape=(5,), dtype="float32"), num_outputs=1)
    assert isinstance(one, tuple)
    assert len(one) == 1
    x, w, r = (mo.Placeholder(shape=s, dtype="float32") for s in ((2, 1, 3), (1, 16, 3), (1, 16, 4)))
    assert [n.name for n in mo.lstm(x, w, r, name="l")] == ["l.y", "l.h", "l.c"]
