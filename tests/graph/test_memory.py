"""Results share memory with nothing, and are not copied where they already do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from metaop.graph import memory
from metaop.graph.memory import separate
from tests.graph.support import BACKENDS, generated

SIZE = 64
slices = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE), st.sampled_from([1, 1, 1, 2, -1, -3]))


def view(buffer: np.ndarray, bounds: tuple[int, int, int]) -> np.ndarray:
    first, second, step = bounds
    return buffer[min(first, second) : max(first, second)][::step]


@generated(300)
@given(st.lists(slices, max_size=6), st.lists(slices, max_size=6), st.sampled_from([0, 32, memory.SMALL]))
def test_separate(results: list[Any], others: list[Any], small: int) -> None:
    before, memory.SMALL = memory.SMALL, small
    try:
        buffer = np.arange(float(SIZE))
        given_ = [view(buffer, s) for s in results]
        around = [view(buffer, s) for s in others]
        found = separate(given_, around)
    finally:
        memory.SMALL = before
    for i, array in enumerate(found):
        np.testing.assert_array_equal(array, given_[i])
        assert array.flags.carray
        assert not any(np.shares_memory(array, other) for other in (*around, *found[:i], *found[i + 1 :]))


def test_nothing_is_copied_without_need() -> None:
    arrays = [np.zeros(memory.SMALL) for _ in range(3)]
    whole = np.zeros(3 * memory.SMALL)
    arrays += [whole[: memory.SMALL], whole[memory.SMALL :]]
    found = separate(arrays, [np.zeros(memory.SMALL)])
    assert all(a is b for a, b in zip(found, arrays, strict=True))


def test_repeated_memory_is_copied() -> None:
    repeated = np.broadcast_to(np.float32(1), (100, 100))
    (found,) = separate([repeated], [])
    found[0, 0] = 2
    assert found[1, 1] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_gradients_are_nobody_elses(backend: str) -> None:
    data = np.linspace(-1, 1, 90 * 100, dtype=np.float32).reshape(90, 100)
    x, a, b = mo.Placeholder(data.shape, "float32"), mo.Variable(data), mo.Variable(data + 1)
    incoming = np.ones_like(data)
    with mo.Session(backend) as sess:
        for target in (a + b + x, a * b, mo.transpose(mo.transpose(a)) + x * b, mo.identity(a)):
            found = sess.gradients(target, [a, b, a, x], {x: data}, grad_output=incoming)
            for i, gradient in enumerate(found):
                others = (data, incoming, a._value, b._value, *found[:i])
                assert not any(np.shares_memory(gradient, other) for other in others)
                gradient[...] = np.nan
            for again in sess.gradients(target, [a, b], {x: data}, grad_output=incoming):
                assert not np.isnan(again).any()


def test_a_gradient_that_is_an_input_is_copied() -> None:
    mo.derive("numpy", name="numpy-passing", gradient={"multiply": lambda g, y, a, b: (b, a)})
    a, b = (mo.Variable(np.full((90, 100), v, np.float32)) for v in (2.0, 3.0))
    with mo.Session("numpy-passing") as sess:
        for _ in range(2):
            found = sess.gradients(mo.reduce_sum(a * b), [a, b])
            assert (found[0] == 3).all()
            assert (found[1] == 2).all()
            for gradient in found:
                gradient[...] = 0
