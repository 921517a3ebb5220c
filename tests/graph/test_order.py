"""Order of execution: topological, breadth-first from the targets backwards; control edges respected, cycles named."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from metaop.errors import CycleError, GraphError, UsageError
from metaop.graph.nodes import Node
from metaop.graph.order import dependencies, execution_order, find
from tests.graph.support import generated, logging_backend


def names(nodes: list[Node]) -> list[str]:
    return [n.name for n in nodes]


@st.composite
def dags(draw: Any) -> tuple[list[Node], list[Node]]:
    """Nodes with random data and control edges, all towards earlier nodes; and some of them as targets."""
    nodes: list[Node] = [mo.Placeholder(name="p0"), mo.Placeholder(name="p1")]
    for number in range(draw(st.integers(1, 14))):
        earlier = st.sampled_from(nodes)
        if draw(st.integers(0, 4)) == 0:
            parts = mo.split(draw(earlier), num_outputs=2, name=f"n{number}")
            nodes.append(parts[draw(st.integers(0, 1))])
        else:
            inputs = draw(st.lists(earlier, min_size=1, max_size=3))
            nodes.append(mo.concat(*inputs, name=f"n{number}"))
        for other in draw(st.lists(earlier, max_size=2)):
            nodes[-1].run_after(other)
    targets = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=3))
    return nodes, targets


def reachable(targets: list[Node]) -> set[Node]:
    found: set[Node] = set()
    stack = [t.producer for t in targets]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [n.producer for n in node.inputs if n is not None] + list(node.controls)
    return found


@generated(200)
@given(dags())
def test_every_needed_node_once_and_after_what_it_needs(graph: tuple[list[Node], list[Node]]) -> None:
    _, targets = graph
    order = execution_order(targets)
    assert len(set(order)) == len(order)
    assert set(order) == reachable(targets)
    place = {node: i for i, node in enumerate(order)}
    for node in order:
        for needed in [n.producer for n in node.inputs if n is not None] + list(node.controls):
            assert place[needed] < place[node], f"{needed.name} must run before {node.name}: {names(order)}"


@generated(200)
@given(dags())
def test_the_order_is_a_reversed_breadth_first_walk(graph: tuple[list[Node], list[Node]]) -> None:
    _, targets = graph
    order = execution_order(targets)
    # A walk in which a node waits for its consumers visits nodes by their longest distance from the targets.
    distance = dict.fromkeys(order, 0)
    for node in reversed(order):
        for needed in dependencies(node):
            distance[needed] = max(distance[needed], distance[node] + 1)
    walked = [distance[n] for n in reversed(order)]
    assert walked == sorted(walked)
    assert execution_order(targets) == order


def test_breadth_first_order_written_out() -> None:
    x = mo.Placeholder(name="x")
    a, b = mo.relu(x, name="a"), mo.relu(x, name="b")
    c, d = mo.relu(a, name="c"), mo.relu(b, name="d")
    e = mo.add(c, d, name="e")
    # Backwards: e; its inputs c, d; theirs a, b; theirs x.
    assert names(execution_order([e])) == ["x", "b", "a", "d", "c", "e"]
    # A node waits for its last consumer: a is both an input of f and of c.
    f = mo.add(e, a, name="f")
    assert names(execution_order([f])) == ["x", "b", "a", "d", "c", "e", "f"]
    assert names(execution_order([c, d])) == ["x", "b", "a", "d", "c"]


def test_targets_given_twice_or_needed_by_each_other() -> None:
    x = mo.Placeholder(name="x")
    a = mo.relu(x, name="a")
    b = mo.relu(a, name="b")
    assert names(execution_order([a, b, a])) == ["x", "a", "b"]
    assert execution_order([]) == []
    first, second = mo.split(x, num_outputs=2, name="s")
    assert names(execution_order([first, second])) == ["x", "s"]


def test_control_edges_bring_nodes_into_the_run() -> None:
    x = mo.Placeholder(name="x")
    aside = mo.relu(x, name="aside")
    y = mo.tanh(x, name="y")
    assert y.run_after(aside) is y
    assert names(execution_order([y])) == ["x", "aside", "y"]
    parts = mo.split(x, num_outputs=2, name="parts")
    parts[1].run_after(y)
    assert names(execution_order([parts[0]])) == ["x", "aside", "y", "parts"]


def test_run_after_takes_nodes() -> None:
    with pytest.raises(UsageError, match="run_after takes nodes; got 'y'"):
        mo.Placeholder().run_after("y")


def test_long_chains_need_no_recursion() -> None:
    node: Any = mo.Placeholder(name="x")
    for _ in range(5000):
        node = -node
    assert len(execution_order([node])) == 5001


# -- control edges when the graph is run -------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_node_waits_for_its_control_edges_across_segments(late: int) -> None:
    log: list[str] = []
    x = mo.Variable([1.0, -1.0])
    nodes = [mo.relu(x, backend=logging_backend(f"logs-{i}", log)) for i in range(3)]
    for node in nodes:
        if node is not nodes[late]:
            nodes[late].run_after(node)
    mo.Session().run(nodes)
    assert sorted(log) == ["logs-0", "logs-1", "logs-2"]
    assert log[-1] == f"logs-{late}"


def test_a_control_edge_added_after_a_run_counts_although_the_order_stays() -> None:
    log: list[str] = []
    left, right = (logging_backend(f"side-{s}", log) for s in ("left", "right"))
    x = mo.Variable([1.0, -1.0])
    c = mo.relu(x, backend=left)
    b = mo.relu(c, backend=right)
    a = mo.relu(x, backend=left)
    d = mo.concat(a, b)
    sess = mo.Session()
    before = sess.run(d)
    assert log == ["side-left", "side-left", "side-right"]
    order = execution_order([d])
    a.run_after(b)
    assert execution_order([d]) == order
    log.clear()
    after = sess.run(d)
    assert log == ["side-left", "side-right", "side-left"]
    assert before.tolist() == after.tolist()


def test_control_edges_of_leaves_hold_for_what_uses_them() -> None:
    log: list[str] = []
    first, second = (logging_backend(f"leaf-{s}", log) for s in ("first", "second"))
    w = mo.Variable([2.0])
    start = mo.relu(mo.Variable([1.0]), backend=first)
    middle = mo.relu(start, backend=second)
    end = mo.relu(w, backend=first)
    # Without this edge the first backend would compute both of its nodes at once.
    w.run_after(middle)
    mo.Session().run(end)
    assert log == ["leaf-first", "leaf-second", "leaf-first"]


def test_control_edges_hold_in_gradients() -> None:
    log: list[str] = []
    x = mo.Variable([1.0, -1.0])
    first = mo.relu(x, backend=logging_backend("early", log))
    second = mo.relu(x, backend=logging_backend("late", log)).run_after(first)
    mo.Session().gradients(mo.reduce_sum(second), x)
    assert log == ["early", "late"]


# -- cycles ------------------------------------------------------------------------------------------------------------


def named_in(error: BaseException) -> list[str]:
    cycle = re.search(r"exists: (.*?)\. Data edges", str(error))
    assert cycle is not None
    return [part.strip("'") for part in cycle[1].split(" -> ")]


def test_a_cycle_through_a_control_edge_names_its_nodes() -> None:
    x = mo.Placeholder(name="x")
    a = mo.relu(x, name="a")
    b = mo.relu(a, name="b")
    c = mo.relu(b, name="c")
    a.run_after(c)
    outside = mo.relu(c, name="outside")
    with pytest.raises(CycleError, match="run_after") as caught:
        mo.Session().run(outside, {x: np.zeros(2, np.float32)})
    assert isinstance(caught.value, GraphError)
    assert named_in(caught.value) in (list("abca"), list("bcab"), list("cabc"))


def test_a_node_cannot_wait_for_itself() -> None:
    a = mo.relu(mo.Placeholder(name="x"), name="a")
    a.run_after(a)
    with pytest.raises(CycleError) as caught:
        execution_order([a])
    assert named_in(caught.value) == ["a", "a"]


def test_a_cycle_elsewhere_does_not_matter() -> None:
    x = mo.Placeholder(name="x")
    a, b = mo.relu(x, name="a"), mo.relu(x, name="b")
    a.run_after(b)
    b.run_after(a)
    assert names(execution_order([mo.tanh(x, name="t")])) == ["x", "t"]


def test_a_cycle_made_after_a_run_is_found_in_the_next() -> None:
    x = mo.Placeholder(name="x")
    a = mo.relu(x, name="a")
    b = mo.relu(a, name="b")
    sess = mo.Session()
    feeds = {x: np.ones(2, np.float32)}
    sess.run(b, feeds)
    sess.gradients(mo.reduce_sum(b), a, feeds)
    a.run_after(b)
    with pytest.raises(CycleError):
        sess.run(b, feeds)


@generated(100)
@given(dags(), st.data())
def test_generated_cycles_are_real_cycles(graph: tuple[list[Node], list[Node]], data: Any) -> None:
    nodes, _ = graph
    producers = [n.producer for n in nodes[2:]]
    late = data.draw(st.sampled_from(producers))
    early = data.draw(st.sampled_from([n for n in execution_order([late]) if n in producers]))
    early.run_after(late)
    with pytest.raises(CycleError) as caught:
        execution_order([late])
    loop = named_in(caught.value)
    by_name = {n.name: n for n in producers}
    assert loop[0] == loop[-1]
    assert len(set(loop)) == len(loop) - 1
    for needed, node in itertools.pairwise(loop):
        assert by_name[needed] in dependencies(by_name[node]), loop


# -- looking up --------------------------------------------------------------------------------------------------------


def test_find_by_name() -> None:
    x = mo.Placeholder(name="x")
    first, second = mo.split(x, num_outputs=2, name="parts")
    y = mo.add(first, second, name="y")
    assert find([y], "x") is x
    assert find([y], "parts.1") is second
    assert find([y], "parts") is first.producer
    assert find([y], "nothing") is None
