"""Long generated functions are written in parts where a backend asks for that; nothing else may change by it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metaop as mo
from tests.graph.support import Recipe, assert_bits, generated, recipes


def in_parts(name: str, lines: int, **forward: Any) -> str:
    mo.derive("numpy", name=name, forward=forward).lines_per_function = lines
    return name


@generated(60)
@given(recipes(), st.integers(1, 8))
def test_parts_do_not_change_results(recipe: Recipe, lines: int) -> None:
    built = recipe.build()
    expected = mo.Session("numpy").run([built.target, *built.values], built.feeds)
    with mo.Session(in_parts("numpy-parts", lines)) as sess:
        assert_bits(sess.run(built.target, built.feeds), expected[0])
        assert_bits(sess.run([built.target, *built.values], built.feeds), expected)


def test_a_part_keeps_no_tensor_of_the_part_before() -> None:
    alive: list[int] = []
    born: list[weakref.ref] = []

    def tanh(x: np.ndarray) -> np.ndarray:
        alive.append(sum(ref() is not None for ref in born))
        result = np.tanh(x)
        born.append(weakref.ref(result))
        return result

    y: mo.Node = mo.Variable(np.ones(3, np.float32))
    for _ in range(20):
        y = mo.tanh(y)
    backend = in_parts("numpy-counted", 4, tanh=tanh)
    gc.disable()
    try:
        mo.Session(backend).run(y)
    finally:
        gc.enable()
    assert alive == [0] + [1] * 19


@pytest.mark.parametrize("position", [0, 7, 19])
def test_the_failing_node_is_named_in_every_part(position: int) -> None:
    def exp(x: np.ndarray) -> np.ndarray:
        raise RuntimeError("no kernel")

    y: mo.Node = mo.Variable(np.ones(3, np.float32))
    for i in range(20):
        y = mo.exp(y, name="culprit") if i == position else mo.tanh(y)
    with pytest.raises(mo.FrameworkError, match="culprit"):
        mo.Session(in_parts("numpy-failing", 4, exp=exp)).run(y)
