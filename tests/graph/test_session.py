"""Sessions: the contract as written, bindings and their precedence, variables, aliasing, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import metaop as mo
from metaop.backends import get
from metaop.errors import UsageError
from tests.graph.support import BACKENDS, NATIVE, Recipe, assert_bits, by_node, logging_backend

X = np.float32([[1.0], [2.0], [3.0]])
Y = np.float32([[3.0], [5.0], [9.0]])
OTHERS = tuple(b for b in BACKENDS if b != "numpy")


class Line:
    """The graph of the contract: a line through points."""

    def __init__(self) -> None:
        self.x = mo.Placeholder(name="x")
        self.y_ = mo.Placeholder(name="y")
        self.w = mo.Variable([[1.0]], name="weight")
        self.b = mo.Variable(0.0, name="threshold")
        self.y = self.x * self.w + self.b
        self.loss = mo.mse(self.y, self.y_)

    @property
    def feeds(self) -> dict[mo.Node, np.ndarray]:
        return {self.x: X, self.y_: Y}


# -- the contract ------------------------------------------------------------------------------------------------------


def test_the_contract_as_written() -> None:
    line = Line()
    line.y.backend = "torch" if "torch" in BACKENDS else "numpy"
    second = "tensorflow" if "tensorflow" in BACKENDS else "numpy"
    residual = X - Y
    with mo.Session(backend="numpy", bindings={line.y: second}) as sess:
        value = sess.run(line.loss, feed_dict=line.feeds)
        assert isinstance(value, np.ndarray)
        assert value.shape == ()
        assert value.dtype == np.float32
        np.testing.assert_allclose(value, np.mean(residual**2), rtol=1e-6)
        both = sess.run([line.y, line.loss], feed_dict=line.feeds)
        assert isinstance(both, list)
        assert_bits(both[0], X)
        assert_bits(both[1], value)
        found = sess.gradients(line.loss, [line.w, line.b], feed_dict=line.feeds)
        assert isinstance(found, list)
        assert [g.shape for g in found] == [(1, 1), ()]
        np.testing.assert_allclose(found[0], [[np.mean(2 * residual * X)]], rtol=1e-6)
        np.testing.assert_allclose(found[1], np.mean(2 * residual), rtol=1e-6)
        sess.rebind(line.y, "numpy")
        np.testing.assert_allclose(sess.run(line.loss, line.feeds), value, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_contract_on_each_backend_alone(backend: str) -> None:
    line = Line()
    residual = X - Y
    with mo.Session(backend=backend) as sess:
        assert sess.backend == backend
        np.testing.assert_allclose(sess.run(line.loss, line.feeds), np.mean(residual**2), rtol=1e-6)
        grads = sess.gradients(line.loss, [line.w, line.b], line.feeds)
        np.testing.assert_allclose(grads[0], [[np.mean(2 * residual * X)]], rtol=1e-6)
        np.testing.assert_allclose(grads[1], np.mean(2 * residual), rtol=1e-6)


@pytest.mark.parametrize("first", BACKENDS)
@pytest.mark.parametrize("second", BACKENDS)
def test_the_contract_on_mixed_backends(first: str, second: str) -> None:
    line = Line()
    product = line.y.inputs[0]
    reference = mo.Session().gradients(line.loss, [line.w, line.b], line.feeds)
    with mo.Session(backend=first, bindings={line.y: second}) as sess:
        assert sess.backend_of(line.y) is get(second)
        assert sess.backend_of(product) is get(first)
        for found, expected in zip(sess.gradients(line.loss, [line.w, line.b], line.feeds), reference, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_contract_as_a_training_loop() -> None:
    for backend in BACKENDS:
        line = Line()
        with mo.Session(backend=backend) as sess:
            for _ in range(200):
                dw, db = sess.gradients(line.loss, [line.w, line.b], line.feeds)
                line.w.value = line.w.value - np.float32(0.1) * dw
                line.b.value = line.b.value - np.float32(0.1) * db
            slope, offset = np.polyfit(X[:, 0], Y[:, 0], 1)
            np.testing.assert_allclose(line.w.value, [[slope]], rtol=1e-2)
            np.testing.assert_allclose(line.b.value, offset, rtol=5e-2)


def test_one_in_gives_one_out_and_a_list_gives_a_list() -> None:
    line = Line()
    sess = mo.Session()
    assert isinstance(sess.run(line.w), np.ndarray)
    assert isinstance(sess.run([line.w]), list)
    assert isinstance(sess.run((line.w, line.b)), list)
    assert sess.run([]) == []
    assert isinstance(sess.gradients(line.loss, line.w, line.feeds), np.ndarray)
    assert isinstance(sess.gradients(line.loss, [line.w], line.feeds), list)
    assert sess.gradients(line.loss, [], line.feeds) == []


def test_leaves_may_be_fetched() -> None:
    line = Line()
    c = mo.Constant([1, 2])
    found = mo.Session().run([line.x, line.w, c, line.x], {line.x: X})
    assert_bits(found, [X, line.w.value, c.value, X])


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_with_several_outputs(backend: str) -> None:
    x = mo.Placeholder(shape=(5, 2), dtype="float32")
    data = np.arange(10, dtype=np.float32).reshape(5, 2)
    with mo.Session(backend=backend) as sess:
        parts = mo.split(x, split=[1, 4])
        assert_bits(sess.run(list(parts), {x: data}), [data[:1], data[1:]])
        assert_bits(sess.run(parts[1], {x: data}), data[1:])
        assert_bits(sess.run(parts[1] * 2.0, {x: data}), data[1:] * 2)
        rng = np.random.default_rng(0)
        w, r = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((1, 12, 2), (1, 12, 3)))
        y, h, c = mo.lstm(mo.reshape(x, shape=(5, 1, 2)), w, r, name="cell")
        found = sess.run([y, h, c], {x: data / 10})
        assert [f.shape for f in found] == [(5, 1, 1, 3), (1, 1, 3), (1, 1, 3)]
        assert_bits(found[0][-1], found[1])
        numpy = mo.Session().run([y, h, c], {x: data / 10})
        for a, b in zip(found, numpy, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        # Only the last state is used: the others have no incoming gradient.
        gradient = sess.gradients(mo.reduce_sum(c), x, {x: data / 10})
        expected = mo.Session().gradients(mo.reduce_sum(c), x, {x: data / 10})
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_other_precisions(dtype: str, backend: str) -> None:
    x = mo.Placeholder(name="x")
    w = mo.Variable(np.array([[0.5, -1.0], [2.0, 0.25]]), dtype=dtype)
    loss = mo.reduce_mean(mo.relu(x @ w + 1.0))
    data = np.array([[0.1, 0.2], [0.3, -0.4]])
    exact = mo.Session()
    wide = mo.Variable(w.value.astype(np.float64))
    truth = mo.reduce_mean(mo.relu(mo.Constant(data.astype(dtype).astype(np.float64)) @ wide + 1.0))
    with mo.Session(backend=backend) as sess:
        value = sess.run(loss, {x: data})
        gradient = sess.gradients(loss, w, {x: data})
    assert value.dtype == gradient.dtype == np.dtype(dtype)
    tolerance = 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(value, exact.run(truth), rtol=tolerance)
    np.testing.assert_allclose(gradient, exact.gradients(truth, wide), rtol=tolerance, atol=tolerance / 8)


# -- bindings ----------------------------------------------------------------------------------------------------------


def test_precedence_of_bindings() -> None:
    log: list[str] = []
    by_session, by_node_, by_default = (logging_backend(f"by-{s}", log) for s in ("session", "node", "default"))
    y = mo.relu(mo.Variable([1.0]))

    def ran(sess: mo.Session) -> str:
        log.clear()
        sess.run(y)
        (name,) = log
        log.clear()
        sess.gradients(mo.reduce_sum(y), y.inputs[0])
        assert log[0] == name
        return name

    plain, bound = mo.Session(by_default), mo.Session(by_default, {y: by_session})
    assert ran(plain) == by_default
    assert ran(bound) == by_session
    y.backend = by_node_
    assert ran(plain) == by_node_
    assert ran(bound) == by_session
    bound.rebind(y, None)
    assert ran(bound) == by_node_
    y.backend = None
    assert ran(bound) == by_default
    bound.rebind(y, by_session)
    assert ran(bound) == by_session
    assert ran(plain) == by_default
    assert bound.bindings == {y: by_session}
    assert plain.bindings == {}


def test_a_backend_object_binds_like_its_name() -> None:
    y = mo.relu(mo.Variable([1.0]))
    backend = mo.derive("numpy", name="anonymous", forward={"relu": lambda x: x + np.float32(1)})
    assert_bits(mo.Session(backend).run(y), np.float32([2]))
    assert_bits(mo.Session(bindings={y: backend}).run(y), np.float32([2]))


def test_aliases_of_backends() -> None:
    assert mo.Session("np").backend == "numpy"
    y = mo.relu(mo.Variable([1.0]), backend="NumPy")
    assert y.backend == "numpy"


def test_binding_one_output_binds_the_operator() -> None:
    log: list[str] = []
    name = logging_backend("splits", log, op="split")
    first, second = mo.split(mo.Variable([1.0, 2.0]), num_outputs=2)
    sess = mo.Session(bindings={second: name})
    sess.run(first)
    assert log == ["splits"]
    assert sess.bindings == {first.producer: "splits"}


def test_rebinding_a_graph_changes_no_node() -> None:
    line = Line()
    before = (line.y.backend, line.y.name, line.y.inputs, line.y.attrs, line.y.type)
    sess = mo.Session()
    sess.rebind(line.y, OTHERS[0] if OTHERS else "numpy")
    sess.run(line.loss, line.feeds)
    assert (line.y.backend, line.y.name, line.y.inputs, line.y.attrs, line.y.type) == before


def test_a_derived_backend_registered_again_is_taken_by_new_sessions() -> None:
    y = mo.relu(mo.Variable([1.0]))
    mo.derive("numpy", name="again", forward={"relu": lambda x: x + np.float32(1)})
    old = mo.Session("again")
    assert_bits(old.run(y), np.float32([2]))
    mo.derive("numpy", name="again", forward={"relu": lambda x: x + np.float32(2)})
    assert_bits(mo.Session("again").run(y), np.float32([3]))
    assert_bits(old.run(y), np.float32([2]))


def test_custom_gradients_are_used() -> None:
    x = mo.Variable(np.float32([-1, 2]))
    y = mo.leaky_relu(x, alpha=0.5)
    for base in BACKENDS:

        def gradient(g: Any, y: Any, x: Any, *, alpha: float) -> tuple[Any]:
            return (g * 0 + alpha,)

        mo.derive(base, name="customised", gradient={"leaky_relu": gradient})
        found = mo.Session("customised").gradients(mo.reduce_sum(mo.identity(y)), x)
        assert_bits(found, np.float32([0.5, 0.5]))
        assert_bits(mo.Session("customised").run(y), np.float32([-0.5, 2]))


@pytest.mark.parametrize("base", NATIVE)
def test_a_replaced_forward_is_differentiated_by_the_framework(base: str) -> None:
    x = mo.Variable(np.float32([-1, 2]))
    mo.derive(base, name="replaced", forward={"relu": lambda x: x * x})
    assert_bits(mo.Session("replaced").gradients(mo.reduce_sum(mo.relu(x)), x), np.float32([-2, 4]))


# -- variables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_values_of_variables_take_effect_in_every_session(backend: str) -> None:
    line = Line()
    sessions = [mo.Session(backend), mo.Session(backend), mo.Session("numpy", {line.y: backend})]
    for slope in (1.0, 2.0, -3.0):
        line.w.value = [[slope]]
        for sess in sessions:
            assert_bits(sess.run(line.y, line.feeds), X * np.float32(slope))
            assert_bits(sess.run(line.w), np.float32([[slope]]))
            found = sess.gradients(line.loss, line.w, line.feeds)
            np.testing.assert_allclose(found, [[np.mean(2 * (X * np.float32(slope) - Y) * X)]], rtol=1e-6)


def test_a_variable_of_another_graph_changes_nothing() -> None:
    line, other = Line(), Line()
    sess = mo.Session()
    before = sess.run(line.loss, line.feeds)
    other.w.value = [[7.0]]
    assert_bits(sess.run(line.loss, line.feeds), before)


def test_a_gradient_plan_is_kept_when_only_values_change() -> None:
    line = Line()
    sess = mo.Session()
    sess.gradients(line.loss, line.w, line.feeds)
    (plan,) = sess._gradient_plans.values()
    line.w.value = [[2.0]]
    sess.gradients(line.loss, line.w, line.feeds)
    assert list(sess._gradient_plans.values()) == [plan]
    sess.rebind(line.y, "numpy")
    sess.gradients(line.loss, line.w, line.feeds)
    assert list(sess._gradient_plans.values()) != [plan]


# -- nothing is shared with the caller ---------------------------------------------------------------------------------

SHARING = {
    "identity": lambda x: mo.identity(x),
    "reshape": lambda x: mo.reshape(x, shape=(4, 3)),
    "transpose": lambda x: mo.transpose(x),
    "slice": lambda x: x[1:],
    "one element": lambda x: x[0, 0],
    "expand": lambda x: mo.expand(x, shape=(2, 3, 4)),
    "squeeze": lambda x: mo.squeeze(mo.unsqueeze(x, axes=[0]), axes=[0]),
    "cast": lambda x: mo.cast(x, to="float32"),
    "dropout": lambda x: mo.dropout(x, training=False),
    "concat": lambda x: mo.concat(x),
    "flatten": lambda x: mo.flatten(x),
    "computed": lambda x: x * 1.0,
    "leaf": lambda x: x,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leaf", ["fed", "variable", "constant", "computed"])
def test_results_share_memory_with_nothing(leaf: str, backend: str) -> None:
    data = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    kept = data.copy()
    source: mo.Node = {
        "fed": lambda: mo.Placeholder(shape=(3, 4), dtype="float32", name="x"),
        "variable": lambda: mo.Variable(data),
        "constant": lambda: mo.Constant(data),
        "computed": lambda: mo.Variable(data) * 1.0,
    }[leaf]()
    feeds = {source: data} if leaf == "fed" else {}
    nodes = [build(source) for build in SHARING.values()]
    # All at once, twice and one by one: results must not share memory with each other either.
    with mo.Session(backend=backend) as sess:
        expected = by_node(nodes, feeds, sess.backend_of)
        for fetches in (nodes, nodes[::-1], nodes + nodes, *([n] for n in nodes)):
            found = sess.run(list(fetches), feeds)
            copies = [f.copy() for f in found]
            for i, array in enumerate(found):
                assert array.flags.writeable
                array[...] = -1 - i
            for i, array in enumerate(found):
                assert (array == -1 - i).all()
            assert_bits(data, kept)
            for node, copy in zip(fetches, copies, strict=True):
                assert_bits(copy, expected[nodes.index(node)])
        assert_bits(sess.run(nodes, feeds), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_share_memory_with_nothing(backend: str) -> None:
    w, v = mo.Variable(np.ones(3, np.float32)), mo.Variable(np.full(3, 2, np.float32))
    x = mo.Placeholder(shape=(3,), dtype="float32")
    data, incoming = np.full(3, 5, np.float32), np.full(3, 7, np.float32)
    y = mo.identity(w * x + v)
    with mo.Session(backend=backend) as sess:
        for _ in range(2):
            found = sess.gradients(y, [w, v, x, y, w], {x: data}, grad_output=incoming)
            assert_bits(found, [data * 7, incoming, incoming, incoming, data * 7])
            for i, array in enumerate(found):
                array[...] = i
            assert [set(a.tolist()) for a in found] == [{0.0}, {1.0}, {2.0}, {3.0}, {4.0}]
    assert_bits(incoming, np.full(3, 7, np.float32))
    assert_bits(w.value, np.ones(3, np.float32))


def test_feeds_changed_in_place_are_seen() -> None:
    for backend in BACKENDS:
        x = mo.Placeholder(shape=(2,), dtype="float32")
        data = np.float32([1, 2])
        sess = mo.Session(backend)
        assert_bits(sess.run(x * 2.0, {x: data}), np.float32([2, 4]))
        data[:] = 5
        assert_bits(sess.run(x * 2.0, {x: data}), np.float32([10, 10]))


# -- sessions are independent ------------------------------------------------------------------------------------------


def test_a_closed_session_can_be_used_again() -> None:
    line = Line()
    with mo.Session() as sess:
        first = sess.run(line.loss, line.feeds)
    sess.close()
    assert_bits(sess.run(line.loss, line.feeds), first)


def test_plans_are_made_once_per_signature_and_bounded() -> None:
    x = mo.Placeholder(dtype="float32")
    y = x + 1.0
    sess = mo.Session()
    for _ in range(3):
        for n in range(1, 200):
            assert sess.run(y, {x: np.zeros(n, np.float32)}).shape == (n,)
    assert len(sess._plans) == 128
    plans = list(sess._plans.values())
    sess.run(y, {x: np.zeros(199, np.float32)})
    assert list(sess._plans.values()) == plans


def test_sessions_in_threads_give_the_right_results() -> None:
    recipe = Recipe((("matmul", (0, 2)), ("tanh", (4,)), ("add", (5, 1)), ("multiply", (6, 5)), ("exp", (7,))), 3)
    built = recipe.build()
    built.loss  # noqa: B018  built before the threads start: they share one graph
    wrt = built.leaves
    expected = {}
    for backend in BACKENDS:
        alone = mo.Session(backend)
        expected[backend] = (alone.run(built.target, built.feeds), alone.gradients(built.loss, wrt, built.feeds))
    failures: list[BaseException] = []
    barrier = threading.Barrier(2 * len(BACKENDS))

    def work(backend: str) -> None:
        try:
            barrier.wait(timeout=60)
            for _ in range(5):
                with mo.Session(backend) as sess:
                    for _ in range(5):
                        assert_bits(sess.run(built.target, built.feeds), expected[backend][0])
                        assert_bits(sess.gradients(built.loss, wrt, built.feeds), expected[backend][1])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(b,)) for b in BACKENDS * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(t.is_alive() for t in threads)
    if failures:
        raise failures[0]


def test_one_session_in_several_threads() -> None:
    x = mo.Placeholder(dtype="float32")
    y = mo.relu(x) * mo.Variable([2.0])
    sess = mo.Session()
    failures: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for n in range(60):
                data = np.full(size + n % 7, size, np.float32)
                assert_bits(sess.run(y, {x: data}), data * 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    if failures:
        raise failures[0]


def test_variables_assigned_in_one_thread_are_seen_in_another() -> None:
    w = mo.Variable([0.0])
    y = w * 1.0
    sess = mo.Session()
    values: list[float] = []

    def read() -> None:
        while not values or values[-1] < 500:
            values.append(float(sess.run(y)[0]))

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(1, 501):
        w.value = [float(i)]
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert values == sorted(values)


# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["y", None, 3, {"a": 1}])
def test_fetches_are_nodes(wrong: Any) -> None:
    with pytest.raises(UsageError, match="expected a node"):
        mo.Session().run(wrong)
    with pytest.raises(UsageError, match="expected a node"):
        mo.Session().run([wrong])


def test_only_operators_are_rebound() -> None:
    sess = mo.Session()
    with pytest.raises(UsageError, match="only operators are bound to a backend; node 'w' is a Variable"):
        sess.rebind(mo.Variable(1.0, name="w"), "numpy")
    with pytest.raises(UsageError, match="only operators are bound to a backend; got 'y'"):
        mo.Session(bindings={"y": "numpy"})
