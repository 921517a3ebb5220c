"""Segments and the code generated for them: results do not depend on how a graph is cut, and dead tensors are freed."""

from __future__ import annotations

import gc
import linecache
import re
import traceback
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from metaop.backends import get
from metaop.graph.nodes import Operator
from metaop.graph.program import value_of
from metaop.graph.segments import Segment, partition
from tests.graph.support import (
    BACKENDS,
    Recipe,
    assert_bits,
    bindings_for,
    by_node,
    generated,
    program_of,
    recipes,
)

#: another backend than NumPy, for tests that cut graphs but run nothing
SECOND = mo.derive("numpy", name="second").name


def cut(targets: list[mo.Node], bindings: dict[Operator, str], cut_after: Any = ()) -> list[Segment]:
    program, _ = program_of(targets, {})
    return partition(program, lambda n: get(bindings[n]), cut_after)


# -- partition ---------------------------------------------------------------------------------------------------------


def test_a_segment_is_as_long_as_dependencies_allow() -> None:
    w = mo.Variable([1.0])
    a, b = mo.relu(w), mo.tanh(w)
    c, d = mo.relu(a), mo.tanh(b)
    e = c + d
    names = {a: "numpy", b: SECOND, c: "numpy", d: SECOND, e: SECOND}
    # In the order of the program, b a d c e, no two neighbours share a backend; but each chain can stay together.
    assert [s.operators for s in cut([e], names)] == [[b, d], [a, c], [e]]


def test_one_backend_is_one_segment_in_the_order_of_the_program() -> None:
    built = Recipe((("matmul", (0, 2)), ("tanh", (4,)), ("add", (5, 4)), ("multiply", (6, 5))), 0).build()
    program, _ = program_of([built.target], built.feeds)
    (segment,) = partition(program, lambda n: get("numpy"))
    assert segment.operators == program.operators
    assert segment.outputs == [value_of(built.target)]


def test_what_crosses_the_borders() -> None:
    w = mo.Variable([1.0, 2.0])
    first, second = mo.split(w, num_outputs=2)
    shared = mo.exp(first)
    left = mo.tanh(shared)
    right = shared * second
    total = left + right
    segments = cut(
        [total],
        {first.producer: "numpy", shared: "numpy", left: SECOND, right: "numpy", total: SECOND},
    )
    assert [s.backend.name for s in segments] == ["numpy", SECOND]
    assert segments[0].inputs == [(w, 0)]
    assert set(segments[0].outputs) == {(shared, 0), (right, 0)}
    assert set(segments[1].inputs) == {(shared, 0), (right, 0)}
    assert segments[1].outputs == [(total, 0)]


def test_a_watched_value_ends_a_segment() -> None:
    w = mo.Variable([1.0])
    a = mo.relu(w)
    b = mo.tanh(a)
    aside = mo.exp(w)
    c = b + aside
    same = dict.fromkeys((a, b, aside, c), SECOND)
    assert len(cut([c], same)) == 1
    segments = cut([c], same, cut_after=[(a, 0)])
    home = {n: s for s in segments for n in s.operators}
    assert home[a] is not home[b]
    assert (a, 0) in home[a].outputs
    assert (a, 0) in home[b].inputs


@generated(60)
@given(recipes(), st.data())
def test_segments_hold_every_operator_once_and_in_a_possible_order(recipe: Recipe, data: Any) -> None:
    built = recipe.build()
    bindings = data.draw(bindings_for(built.operators))
    program, _ = program_of([built.target], built.feeds)
    watched = data.draw(st.lists(st.sampled_from(built.operators), max_size=2))
    segments = partition(program, lambda n: get(bindings[n]), [(n, 0) for n in watched])
    sequence = [n for s in segments for n in s.operators]
    assert sorted(sequence, key=id) == sorted(program.operators, key=id)
    done: set[Any] = set()
    for segment in segments:
        available = set(segment.inputs)
        for node in segment.operators:
            assert get(bindings[node]) is segment.backend
            for source in node.inputs:
                if isinstance(source.producer, Operator):
                    assert source.producer in done
                assert value_of(source) in available
            done.add(node)
            available.add((node, 0))


# -- results do not depend on the cut ----------------------------------------------------------------------------------


@generated(60)
@given(recipes(), st.data())
def test_mixed_bindings_equal_numpy_to_rounding_and_single_steps_to_the_bit(recipe: Recipe, data: Any) -> None:
    built = recipe.build()
    bindings = data.draw(bindings_for(built.operators))
    with mo.Session(bindings=bindings) as sess:
        found = sess.run(built.target, built.feeds)
        assert_bits(found, by_node([built.target], built.feeds, sess.backend_of)[0])
    exact = recipe.build(np.float64)
    truth = mo.Session().run(exact.target, exact.feeds)
    assert np.abs(truth).max() <= 1 + 1e-9
    np.testing.assert_allclose(found, truth, rtol=0, atol=recipe.bound())
    all_numpy = mo.Session().run(built.target, built.feeds)
    np.testing.assert_allclose(found, all_numpy, rtol=0, atol=2 * recipe.bound())


@generated(25)
@given(recipes(most=6), st.data())
def test_every_value_may_be_fetched(recipe: Recipe, data: Any) -> None:
    built = recipe.build()
    program, _ = program_of(built.values, built.feeds)
    bindings = data.draw(bindings_for(program.operators))
    fetched = data.draw(st.lists(st.sampled_from(built.leaves + built.values), min_size=1, max_size=6))
    with mo.Session(bindings=bindings) as sess:
        found = sess.run(fetched, built.feeds)
        assert_bits(found, by_node(fetched, built.feeds, sess.backend_of))


@generated(25)
@given(recipes(most=6), st.data())
def test_rebinding_node_by_node_in_one_session(recipe: Recipe, data: Any) -> None:
    built = recipe.build()
    sess = mo.Session(BACKENDS[0])
    for node in data.draw(st.permutations(built.operators))[:6]:
        sess.rebind(node, data.draw(st.sampled_from(BACKENDS)))
        found = sess.run(built.target, built.feeds)
        assert_bits(found, by_node([built.target], built.feeds, sess.backend_of)[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_crossings_keep_every_bit(backend: str) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1.1754944e-38, 3.4028235e38], np.float32)
    x = mo.Placeholder(dtype="float32", shape=(8,))
    for other in BACKENDS:
        inner = mo.identity(x, backend=backend)
        outer = mo.identity(inner, backend=other)
        back = mo.identity(outer, backend=backend)
        assert_bits(mo.Session().run([inner, outer, back], {x: special}), [special] * 3)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_every_dtype_crosses(dtype: str) -> None:
    data = np.array([[0, 1], [1, 0]]).astype(dtype)
    x = mo.Placeholder(dtype=dtype, shape=(2, 2))
    node: mo.Node = x
    for backend in (*BACKENDS, *reversed(BACKENDS)):
        node = mo.transpose(mo.reshape(node, shape=(2, 2), backend=backend), backend=backend)
    assert_bits(mo.Session().run(node, {x: data}), data)


# -- memory ------------------------------------------------------------------------------------------------------------


class Census:
    """Counts the results of a backend that are alive whenever it computes the next one."""

    def __init__(self, base: str, name: str) -> None:
        self.born: list[weakref.ref] = []
        self.living: list[set[int]] = []
        binding = get(base).bindings

        def counted(op: str) -> Any:
            function = binding.find(op).function

            def forward(*tensors: Any, **attrs: Any) -> Any:
                self.living.append({i for i, ref in enumerate(self.born) if ref() is not None})
                # A copy, for a view would keep the tensor alive that it is a view of.
                result = function(*tensors, **attrs).clone()
                self.born.append(weakref.ref(result))
                return result

            return forward

        ops = ("add", "subtract", "multiply", "matmul", "tanh", "sigmoid", "exp", "sin", "negative", "transpose")
        ops += ("slice", "expand", "maximum", "minimum", "relu")
        for suffix in ("a", "b"):
            mo.derive(base, name=f"{name}-{suffix}", forward={op: counted(op) for op in ops})
        self.backends = (f"{name}-a", f"{name}-b")


@pytest.mark.skipif("torch" not in BACKENDS, reason="counts PyTorch's tensors")
@generated(60)
@given(recipes(), st.data())
def test_a_tensor_lives_exactly_as_long_as_it_is_needed(recipe: Recipe, data: Any) -> None:
    built = recipe.build()
    census = Census("torch", "census")
    names = data.draw(st.lists(st.sampled_from(census.backends), min_size=30, max_size=30))
    for backend in census.backends:
        # Also where the generated code is one function after another.
        get(backend).lines_per_function = data.draw(st.sampled_from([None, 1, 4]))
    bindings = {node: names[i % 30] for i, node in enumerate(built.operators)}
    with mo.Session(bindings=bindings) as sess:
        program, _ = program_of([built.target], built.feeds)
        sequence = [n for s in partition(program, sess.backend_of) for n in s.operators]
        gc.disable()
        try:
            sess.run(built.target, built.feeds)
        finally:
            gc.enable()
    assert len(census.born) == len(sequence)
    for step, living in enumerate(census.living):
        needed = {
            sequence.index(source) for node in sequence[step:] for source in node.inputs if source in sequence[:step]
        }
        assert living == needed, f"at step {step}: alive {sorted(living)}, needed {sorted(needed)}"


@pytest.mark.skipif("torch" not in BACKENDS, reason="counts PyTorch's tensors")
def test_crossing_to_another_kind_of_tensor_frees_both_sides() -> None:
    census = Census("torch", "crossing")
    node: mo.Node = mo.Variable(np.ones(4, np.float32))
    for i in range(6):
        node = mo.tanh(node, backend=census.backends[i % 2] if i % 3 else "numpy")
    mo.Session().run(node)
    # After each crossing there is nothing left of what was before.
    assert all(len(living) <= 1 for living in census.living)


@pytest.mark.skipif("torch" not in BACKENDS, reason="counts PyTorch's tensors")
def test_outputs_that_nobody_uses_are_freed() -> None:
    alive: list[int] = []
    parts: list[weakref.ref] = []
    split, relu = (get("torch").bindings.find(op).function for op in ("split", "relu"))

    def counted_split(x: Any, **attrs: Any) -> Any:
        found = tuple(part.clone() for part in split(x, **attrs))
        parts.extend(weakref.ref(part) for part in found)
        return found

    def counted_relu(x: Any) -> Any:
        alive.append(sum(ref() is not None for ref in parts))
        return relu(x)

    mo.derive("torch", name="unused", forward={"split": counted_split, "relu": counted_relu})
    _, second, _ = mo.split(mo.Variable(np.ones(6, np.float32)), num_outputs=3)
    y = mo.relu(mo.relu(second))
    aside = mo.relu(mo.Variable(1.0))
    y.run_after(aside)
    assert_bits(mo.Session("unused").run(y), np.ones(2, np.float32))
    # The second relu needs the first one's result only.
    assert alive[-1] == 0
    assert max(alive) == 1


def test_generated_sources_are_shown_by_tracebacks_and_kept_nowhere_else() -> None:
    def remembered() -> int:
        return sum("metaop generated" in name for name in linecache.cache)

    def fail(x: np.ndarray) -> np.ndarray:
        raise ValueError("no")

    mo.derive("numpy", name="numpy-fails", forward={"relu": fail})
    x = mo.Placeholder(shape=(2,), dtype="float32")
    before = remembered()
    mo.Session().run(mo.relu(x) + 1.0, {x: [1.0, 2.0]})
    assert remembered() == before
    with pytest.raises(mo.FrameworkError) as caught:
        mo.Session("numpy-fails").run(mo.relu(x), {x: [1.0, 2.0]})
    assert re.search(r"t\d+ = f\d+\(t\d+\)", "".join(traceback.format_exception(caught.value.__cause__)))


# -- long graphs -------------------------------------------------------------------------------------------------------

LONG = 700


def long_graph() -> tuple[mo.Placeholder, list[mo.Node], list[np.ndarray]]:
    """A chain in which early values are used again much later: all nodes, and the value of each."""
    x = mo.Placeholder(shape=(2,), dtype="float64", name="x")
    nodes: list[mo.Node] = [x]
    values = [np.array([1.0, -2.0])]
    for i in range(1, LONG):
        # Powers of two and small integers: every backend computes them exactly.
        early = i - 300 if i > 300 and i % 50 == 0 else None
        nodes.append(mo.add(-nodes[-1], nodes[early], name=f"n{i}") if early else mo.negative(nodes[-1], name=f"n{i}"))
        values.append(-values[-1] + values[early] if early else -values[-1])
    return x, nodes, values


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_graphs(backend: str) -> None:
    x, nodes, values = long_graph()
    feeds = {x: values[0]}
    with mo.Session(backend=backend) as sess:
        assert_bits(sess.run(nodes[-1], feeds), values[-1])
        some = [*range(0, LONG, 97), LONG - 1, 1]
        assert_bits(sess.run([nodes[i] for i in some], feeds), [values[i] for i in some])
        (slope,) = {float(v) for v in sess.gradients(mo.reduce_sum(nodes[-1]), x, feeds)}
        assert slope == values[-1][0]
    other = BACKENDS[BACKENDS.index(backend) - 1]
    mixed = {n: other for i, n in enumerate(nodes[1:]) if i // 150 % 2}
    assert_bits(mo.Session(backend, mixed).run(nodes[-1], feeds), values[-1])


@pytest.mark.parametrize("place", [1, 350, LONG - 1])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_failing_node_of_a_long_graph_is_named(backend: str, place: int) -> None:
    x, nodes, values = long_graph()

    def fail(*tensors: Any, **attrs: Any) -> Any:
        raise RuntimeError("here")

    mo.derive(backend, name="fails-somewhere", forward={"negative": fail, "add": fail})
    with pytest.raises(mo.FrameworkError, match=rf"node 'n{place}' .*here"):
        mo.Session(backend, {nodes[place]: "fails-somewhere"}).run(nodes[-1], {x: values[0]})


@pytest.mark.skipif("torch" not in BACKENDS, reason="counts PyTorch's tensors")
def test_long_graphs_free_tensors_as_soon_as_they_are_dead() -> None:
    census = Census("torch", "long")
    x, nodes, values = long_graph()
    assert_bits(mo.Session(census.backends[0]).run(nodes[-1], {x: values[0]}), values[-1])
    # The value before, and those that wait for their second use.
    assert max(len(living) for living in census.living) <= 1 + 300 // 50 + 2


# -- attributes in generated code --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_attribute_values_survive_the_generated_source(backend: str) -> None:
    x = mo.Placeholder(shape=(2, 3), dtype="float32")
    data = np.float32([[-1e30, -1.5, 0.0], [0.1, 2.5, 1e30]])
    with mo.Session(backend=backend) as sess:
        clipped = mo.clip(x, min=-float("inf"), max=float("inf"))
        assert_bits(sess.run(clipped, {x: data}), data)
        assert_bits(sess.run(mo.clip(x, min=0.1, max=None), {x: data}), np.maximum(data, np.float32(0.1)))
        assert_bits(sess.run(mo.cast(x * 0.0 + 1.5, to="float64"), {x: data}), np.full((2, 3), 1.5))
        einsum = mo.einsum(x, x, equation="ij,kj->ik")
        np.testing.assert_allclose(sess.run(einsum, {x: data / np.float32(1e30)}), (data / 1e30) @ (data / 1e30).T)
        assert_bits(sess.run(mo.transpose(x, perm=[1, 0]), {x: data}), np.ascontiguousarray(data.T))
