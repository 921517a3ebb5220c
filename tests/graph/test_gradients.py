"""Gradients: accumulation, broadcasting, intermediate nodes, what has none; segments against single nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from metaop.errors import FrameworkError, GradientError, UsageError
from tests.graph.support import (
    BACKENDS,
    SMOOTH,
    Recipe,
    assert_bits,
    bindings_for,
    generated,
    gradients_by_node,
    recipes,
)

needs_torch = pytest.mark.skipif("torch" not in BACKENDS, reason="about PyTorch")


def data(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


# -- by hand -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_contributions_of_several_paths_are_summed(backend: str) -> None:
    w = mo.Variable(np.float32([2, 3]))
    square = w * w
    total = mo.reduce_sum(square + square * w + w)
    # d/dw (w^2 + w^3 + w)
    assert_bits(mo.Session(backend).gradients(total, w), np.float32([2 * 2 + 3 * 4 + 1, 2 * 3 + 3 * 9 + 1]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_node_as_both_arguments(backend: str) -> None:
    w = mo.Variable(np.float32([[1, 2], [3, 4]]))
    for y, expected in (
        (w * w, 2 * w.value),
        (w + w, np.full((2, 2), 2)),
        (w - w, np.zeros((2, 2))),
        (w @ w, np.ones((2, 2)) @ w.value.T + w.value.T @ np.ones((2, 2))),
        (mo.concat(w, w), np.full((2, 2), 2)),
    ):
        assert_bits(mo.Session(backend).gradients(mo.reduce_sum(y), w), np.asarray(expected, np.float32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_broadcasting_is_undone(backend: str) -> None:
    x = data(4, 2, 3)
    for shape in ((), (1,), (3,), (2, 1), (1, 3), (2, 3), (1, 1, 1), (4, 1, 3), (4, 2, 3)):
        w = mo.Variable(data(*shape, seed=1))
        found = mo.Session(backend).gradients(mo.reduce_sum(mo.Constant(x) * w), w)
        assert found.shape == shape
        stretched = np.broadcast_to(x.astype(np.float64), (4, 2, 3))
        axes = tuple(range(3 - len(shape))) + tuple(i + 3 - len(shape) for i, n in enumerate(shape) if n == 1)
        expected = stretched.sum(axis=axes, keepdims=True).reshape(shape) if axes else stretched
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_intermediate_nodes(backend: str) -> None:
    x = mo.Placeholder(shape=(3,), dtype="float32")
    hidden = x * 3.0
    squared = hidden * hidden
    loss = mo.reduce_sum(squared)
    values = np.float32([1, 2, 3])
    found = mo.Session(backend).gradients(loss, [x, hidden, squared, loss], {x: values})
    assert_bits(found, [18 * values, 6 * values, np.ones(3, np.float32), np.float32(1)])
    # Asked for alone each must be the same.
    for node, expected in zip((x, hidden, squared, loss), found, strict=True):
        assert_bits(mo.Session(backend).gradients(loss, node, {x: values}), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_intermediate_node_that_is_used_again_further_down(backend: str) -> None:
    w = mo.Variable(np.float32([1, 2]))
    a = w * 2.0
    b = a * a
    c = b + a
    loss = mo.reduce_sum(c * a)
    av = np.float32([2, 4])
    # c a = a^3 + a^2
    found = mo.Session(backend).gradients(loss, [w, a, b, c], {})
    assert_bits(found, [2 * (3 * av**2 + 2 * av), 3 * av**2 + 2 * av, av, av])


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_output_of_several(backend: str) -> None:
    w = mo.Variable(np.arange(6, dtype=np.float32))
    first, second, third = mo.split(w, num_outputs=3)
    loss = mo.reduce_sum(first * 2.0) + mo.reduce_sum(third * third)
    found = mo.Session(backend).gradients(loss, [w, first, second, third])
    assert_bits(found, [np.float32([2, 2, 0, 0, 8, 10]), np.float32([2, 2]), np.float32([0, 0]), np.float32([8, 10])])
    # The operator itself stands for its first output.
    assert_bits(mo.Session(backend).gradients(loss, first.producer), np.float32([2, 2]))


def test_a_target_with_respect_to_itself() -> None:
    w = mo.Variable(np.float32([1, 2]))
    y = w * 2.0
    for backend in BACKENDS:
        sess = mo.Session(backend)
        assert_bits(sess.gradients(y, y, grad_output=np.float32([5, 7])), np.float32([5, 7]))
        assert_bits(sess.gradients(w, w, grad_output=np.float32([5, 7])), np.float32([5, 7]))
        assert_bits(sess.gradients(y, [w, y], grad_output=[5, 7]), [np.float32([10, 14]), np.float32([5, 7])])


def test_constants_and_placeholders_have_gradients_too() -> None:
    x, c = mo.Placeholder(name="x"), mo.Constant([3.0])
    assert_bits(mo.Session().gradients(mo.reduce_sum(x * c), [x, c], {x: [2.0]}), [np.float32([3]), np.float32([2])])


@pytest.mark.parametrize("backend", BACKENDS)
def test_unconnected_nodes_have_zeros_or_an_error(backend: str) -> None:
    w, other = mo.Variable([1.0, 2.0], name="w"), mo.Variable(np.ones((2, 3), np.float32), name="other")
    aside = mo.exp(other, name="aside")
    loss = mo.reduce_sum(w * w, name="loss")
    sess = mo.Session(backend)
    assert_bits(
        sess.gradients(loss, [other, w, aside]),
        [np.zeros((2, 3), np.float32), np.float32([2, 4]), np.zeros((2, 3), np.float32)],
    )
    with pytest.raises(GradientError, match="'loss' does not depend on 'other'"):
        sess.gradients(loss, [w, other], unconnected="error")
    assert_bits(sess.gradients(loss, [w], unconnected="error"), [np.float32([2, 4])])
    with pytest.raises(UsageError, match="'zeros' or 'error'; got 'none'"):
        sess.gradients(loss, [w], unconnected="none")


def test_a_control_edge_is_no_connection() -> None:
    w, v = mo.Variable([1.0], name="w"), mo.Variable([2.0], name="v")
    loss = mo.reduce_sum(w * w).run_after(v * v)
    assert_bits(mo.Session().gradients(loss, v), np.float32([0]))
    with pytest.raises(GradientError, match="does not depend on 'v'"):
        mo.Session().gradients(loss, v, unconnected="error")


@pytest.mark.parametrize("backend", BACKENDS)
def test_connected_with_a_gradient_of_zero(backend: str) -> None:
    w = mo.Variable(np.float32([1.5, -2.5]))
    for op in (mo.floor, mo.sign, mo.round):
        found = mo.Session(backend).gradients(mo.reduce_sum(op(w)), w, unconnected="error")
        assert_bits(found, np.zeros(2, np.float32))


def test_a_gradient_that_a_backend_leaves_out_is_zero_and_no_error() -> None:
    mo.derive("numpy", name="sparing", gradient={"add": lambda g, y, a, b: (g, None)})
    a, b = mo.Variable([1.0]), mo.Variable([2.0])
    found = mo.Session("sparing").gradients(mo.reduce_sum(a + b), [a, b], unconnected="error")
    assert_bits(found, [np.float32([1]), np.float32([0])])


# -- what has no gradient ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_path_without_a_gradient_is_an_error_that_names_it(backend: str) -> None:
    w = mo.Variable([1.0, 2.0], name="w")
    step = mo.greater(w, 1.5, name="step")
    loss = mo.reduce_sum(mo.cast(step, to="float32"), name="loss")
    with pytest.raises(GradientError, match=r"'loss' depends on 'w' only through .* 'step' \(greater: .*steps"):
        mo.Session(backend).gradients(loss, w)
    best = mo.argmax(w, name="best")
    loss = mo.reduce_sum(mo.cast(best, to="float32"), name="loss")
    with pytest.raises(GradientError, match=r"'best' \(argmax: its result is a position\)"):
        mo.Session(backend).gradients(loss, w)
    whole = mo.cast(mo.cast(w, to="int64"), to="float32")
    with pytest.raises(GradientError, match="only through operators without a gradient: integer values"):
        mo.Session(backend).gradients(mo.reduce_sum(whole), w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_path_with_a_gradient_is_enough(backend: str) -> None:
    w = mo.Variable([1.0, 2.0])
    loss = mo.reduce_sum(mo.where(w > 1.5, w * w, w))
    assert_bits(mo.Session(backend).gradients(loss, w), np.float32([1, 4]))


def test_only_floating_values_have_gradients() -> None:
    w = mo.Variable([1.0], name="w")
    count = mo.Variable(np.array([1, 2]), name="count")
    with pytest.raises(GradientError, match=r"'count' is int64\[2\]: only floating values"):
        mo.Session().gradients(mo.reduce_sum(w), count)
    best = mo.argmax(w, name="best")
    with pytest.raises(GradientError, match=r"'best' is int64\[\]: only floating values"):
        mo.Session().gradients(best, w)


def test_a_target_that_is_no_scalar_needs_an_incoming_gradient() -> None:
    w = mo.Variable([1.0, 2.0], name="w")
    y = mo.multiply(w, w, name="y")
    sess = mo.Session()
    with pytest.raises(GradientError, match=r"target 'y' is float32\[2\], not a scalar: give grad_output"):
        sess.gradients(y, w)
    assert_bits(sess.gradients(y, w, grad_output=[1.0, 10.0]), np.float32([2, 40]))
    for wrong, got in ((np.ones(3, np.float32), r"float32\[3\]"), (np.ones(2), r"float64\[2\]"), (1.0, r"float32\[\]")):
        with pytest.raises(GradientError, match=rf"grad_output is {got}; the target 'y' is float32\[2\]"):
            sess.gradients(y, w, grad_output=wrong)
    with pytest.raises(GradientError, match="grad_output of 'y' cannot be made an array"):
        sess.gradients(y, w, grad_output="ones")
    one = mo.reduce_sum(y, axes=[0], keepdims=True)
    with pytest.raises(GradientError, match="not a scalar"):
        sess.gradients(one, w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_incoming_gradients_of_any_layout(backend: str) -> None:
    w = mo.Variable(data(2, 3))
    g = data(2, 3, seed=1)
    readonly = g.view()
    readonly.flags.writeable = False
    for incoming in (g, g.tolist(), np.asfortranarray(g), readonly, g.astype(">f4"), np.repeat(g, 2, axis=1)[:, ::2]):
        assert_bits(mo.Session(backend).gradients(w * 2.0, w, grad_output=incoming), g * 2)


def test_gradient_of_the_wrong_shape_is_reported() -> None:
    w = mo.Variable([1.0, 2.0], name="w")
    mo.derive("numpy", name="wrong-shape", gradient={"relu": lambda g, y, x: (g[:1],)})
    y = mo.relu(w, name="r")
    with pytest.raises(FrameworkError, match=r"'r' \(relu\).*wrong-shape.*'w' is float32\[1\].*float32\[2\]") as caught:
        mo.Session("wrong-shape").gradients(mo.reduce_sum(y), w)
    assert (caught.value.node, caught.value.op, caught.value.backend) == ("r", "relu", "wrong-shape")


# -- segments against single nodes -------------------------------------------------------------------------------------


@needs_torch
@generated(80)
@given(recipes(least=3), st.data())
def test_torch_segments_equal_single_nodes_bit_for_bit(recipe: Recipe, choice: Any) -> None:
    built = recipe.build()
    wrt = choice.draw(st.lists(st.sampled_from(built.leaves + built.values), min_size=1, max_size=4, unique=True))
    with mo.Session("torch") as sess:
        found = sess.gradients(built.loss, wrt, built.feeds)
        single = gradients_by_node(built.loss, wrt, built.feeds, sess.backend_of)
    assert_gradients(found, single)


@generated(40)
@given(recipes(least=3), st.data())
def test_mixed_segments_equal_single_nodes(recipe: Recipe, choice: Any) -> None:
    built = recipe.build()
    bindings = choice.draw(bindings_for(built.operators))
    wrt = choice.draw(st.lists(st.sampled_from(built.leaves + built.values), min_size=1, max_size=4, unique=True))
    with mo.Session(bindings=bindings) as sess:
        found = sess.gradients(built.loss, wrt, built.feeds)
        again = sess.gradients(built.loss, wrt, built.feeds)
        single = gradients_by_node(built.loss, wrt, built.feeds, sess.backend_of)
    assert_bits(found, again)
    # Nodes that alternate between backends are visited in another order, and sums rounded in another order.
    for a, b in zip(found, single, strict=True):
        np.testing.assert_allclose(a, 0.0 if b is None else b, rtol=1e-4, atol=1e-6)


def assert_gradients(found: Sequence[np.ndarray], single: Sequence[np.ndarray | None]) -> None:
    for a, b in zip(found, single, strict=True):
        if b is None:
            assert not a.any()
        else:
            assert_bits(a, b)


@needs_torch
def test_torch_segments_equal_single_nodes_on_a_network_with_branches() -> None:
    rng = np.random.default_rng(3)
    x = mo.Placeholder(shape=(2, 3, 8, 8), dtype="float32")
    kernel, scale = (mo.Variable(rng.normal(0, 0.3, s).astype(np.float32)) for s in ((3, 3, 3, 3), (3,)))
    bias = mo.Variable(np.zeros(3, np.float32))
    h: mo.Node = x
    for _ in range(3):
        # The same parameters at every depth: their gradients are sums of three contributions or more.
        inner = mo.conv2d(h, kernel, bias, pads=[1, 1, 1, 1])
        inner = mo.batch_norm(inner, scale, bias, bias, scale * scale, training=True)
        h = mo.relu(inner + h) + mo.tanh(h) * mo.sigmoid(h)
    flat = mo.flatten(mo.global_average_pool(h))
    loss = mo.reduce_mean(mo.log_softmax(flat) * flat)
    feeds = {x: rng.normal(0, 1, (2, 3, 8, 8)).astype(np.float32)}
    with mo.Session("torch") as sess:
        wrt = [kernel, scale, bias, x]
        found = sess.gradients(loss, wrt, feeds)
        assert_gradients(found, gradients_by_node(loss, wrt, feeds, sess.backend_of))
        assert all(np.abs(g).max() > 0 for g in found)


@needs_torch
def test_torch_equals_autograd_written_by_hand_bit_for_bit() -> None:
    import torch

    shapes = {"x": (5, 4), "w1": (4, 6), "b1": (6,), "w2": (6, 4)}
    arrays = {name: data(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items())}
    x = mo.Placeholder(shape=(5, 4), dtype="float32")
    w1, b1, w2 = (mo.Variable(arrays[n]) for n in ("w1", "b1", "w2"))
    h = mo.tanh(x @ w1 + b1)
    y = mo.relu(h @ w2) + x * mo.sigmoid(x)
    loss = mo.reduce_mean(y * y) + mo.reduce_sum(h * h) * 0.125

    t = {n: torch.from_numpy(a.copy()).requires_grad_(True) for n, a in arrays.items()}
    # Statement by statement as above, in metaop's order of execution: the last contribution is added first.
    skip = torch.sigmoid(t["x"])
    th = torch.tanh(torch.matmul(t["x"], t["w1"]) + t["b1"])
    ty = torch.relu(torch.matmul(th, t["w2"])) + t["x"] * skip
    tloss = torch.mean(ty * ty) + torch.sum(th * th) * 0.125
    tloss.backward()
    sess = mo.Session("torch")
    assert_bits(sess.run(loss, {x: arrays["x"]}), tloss.detach().numpy())
    found = sess.gradients(loss, [w1, b1, w2], {x: arrays["x"]})
    assert_bits(found, [t[n].grad.numpy() for n in ("w1", "b1", "w2")])
    np.testing.assert_allclose(sess.gradients(loss, x, {x: arrays["x"]}), t["x"].grad.numpy(), rtol=1e-5, atol=1e-7)


@needs_torch
@generated(40)
@given(recipes(least=3))
def test_torch_equals_autograd_over_the_same_calls_bit_for_bit(recipe: Recipe) -> None:
    import torch

    from metaop.backends import get
    from metaop.graph.program import value_of
    from tests.graph.support import program_of

    built = recipe.build()
    wrt = built.leaves
    program, arrays = program_of([built.loss, *wrt], built.feeds)
    tensors: dict[Any, Any] = {}
    for node in program.order:
        if isinstance(node, mo.Operator):
            binding = get("torch").bindings.find(node.op.name)
            inputs = [tensors[value_of(n)] for n in node.inputs]
            tensors[node, 0] = binding.function(*inputs, **binding.keywords(node.attrs))
        else:
            array = arrays[node] if isinstance(node, mo.Placeholder) else program.stored.get((node, 0))
            tensors[node, 0] = torch.from_numpy(np.array(node.value if array is None else array))
            if node in wrt:
                tensors[node, 0].requires_grad_(True)
    leaves = [tensors[n, 0] for n in wrt]
    theirs = torch.autograd.grad(tensors[value_of(built.loss)], leaves, allow_unused=True)
    found = mo.Session("torch").gradients(built.loss, wrt, built.feeds)
    assert_gradients(found, [None if g is None else g.numpy() for g in theirs])


# -- against finite differences ----------------------------------------------------------------------------------------


def differences(built: Any, leaf: mo.Node) -> np.ndarray:
    """The gradient of the loss by central differences, on NumPy in float64."""
    sess = mo.Session()
    center = leaf.value if isinstance(leaf, mo.Variable) else built.feeds[leaf]
    result = np.zeros(center.shape)
    for place in np.ndindex(center.shape):
        sides = []
        for h in (1e-5, -1e-5):
            moved = center.copy()
            moved[place] += h
            if leaf in built.feeds:
                sides.append(sess.run(built.loss, {**built.feeds, leaf: moved}))
            else:
                leaf.value = moved
                sides.append(sess.run(built.loss, built.feeds))
                leaf.value = center
        result[place] = (sides[0] - sides[1]) / 2e-5
    return result


@generated(25)
@given(recipes(least=2, most=8, steps=SMOOTH), st.data())
def test_mixed_gradients_equal_finite_differences(recipe: Recipe, choice: Any) -> None:
    built = recipe.build(np.float64)
    bindings = choice.draw(bindings_for(built.operators))
    found = mo.Session(bindings=bindings).gradients(built.loss, built.leaves, built.feeds)
    single = recipe.build(np.float32)
    narrow = dict(zip(single.operators, bindings.values(), strict=True))
    rounded = mo.Session(bindings=narrow).gradients(single.loss, single.leaves, single.feeds)
    for leaf, gradient, in_float32 in zip(built.leaves, found, rounded, strict=True):
        expected = differences(built, leaf)
        assert gradient.dtype == np.float64
        # Of the differences themselves: rounding of the loss over the step, and the third derivative.
        np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-9)
        scale = max(1.0, float(np.abs(gradient).max()))
        np.testing.assert_allclose(in_float32, gradient, rtol=0, atol=2e-5 * scale)
