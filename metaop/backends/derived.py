"""Derived gradients: a meta operator's gradient rule, computed with one backend's own forwards.

A rule is written in meta operators. :class:`Vocabulary` is what it receives as ``m``: every meta operator as a function
on one backend's tensors, and a few words about shapes. Python numbers stand for constants of the dtype around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.backends.base import Backend, Pullback
from metaop.errors import GradientError, InternalError
from metaop.ops import REGISTRY

__all__ = ["Vocabulary", "derived_pullback"]


class Vocabulary:
    """Every meta operator as a function on one backend's tensors.

    >>> from metaop.backends import get
    >>> m = Vocabulary(get("numpy"))
    >>> m.multiply(np.float32([1, 2]), 3.0)
    array([3., 6.], dtype=float32)
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = REGISTRY.get(name)
        if op is None:
            raise InternalError(f"a gradient rule uses {name!r}, which is not a meta operator")

        def apply(*inputs: Any, **attrs: Any) -> Any:
            outputs = self._backend.call(op.name, op.complete(attrs), self._lift(inputs))
            return outputs[0] if op.outputs is not None and len(op.outputs) == 1 else outputs

        apply.__name__ = name
        setattr(self, name, apply)
        return apply

    def _lift(self, inputs: Sequence[Any]) -> list[Any]:
        """Python numbers as tensors of the first floating dtype in sight."""
        # By exact type: np.float64 is a float too, and NumPy gives it for a tensor of rank 0.
        numbers = [type(x) in (int, float) for x in inputs]
        if not any(numbers):
            return list(inputs)
        dtypes = [self.dtype(x) for x, number in zip(inputs, numbers, strict=True) if x is not None and not number]
        numeric = [d for d in dtypes if d.kind != "b"] or dtypes
        return [self.constant(x, numeric[0]) if number else x for x, number in zip(inputs, numbers, strict=True)]

    def constant(self, value: Any, dtype: Any) -> Any:
        """The value as a tensor of this backend."""
        return self._backend.from_numpy(np.asarray(value, dtype=dtype))

    def shape(self, x: Any) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self._backend.type_of(x)[1])

    def dtype(self, x: Any) -> np.dtype:
        """The dtype of a tensor."""
        return self._backend.type_of(x)[0]

    def zeros_like(self, x: Any) -> Any:
        """Zeros of the shape and dtype of ``x``."""
        return self.constant(np.zeros(self.shape(x)), self.dtype(x))

    def sum_to(self, g: Any, x: Any) -> Any:
        """Undo broadcasting: ``g`` summed over the axes along which ``x`` was stretched to the shape of ``g``."""
        target, shape = self.shape(x), self.shape(g)
        if shape == target:
            return g
        extra = len(shape) - len(target)
        stretched = [i + extra for i, n in enumerate(target) if n == 1 and shape[i + extra] != 1]
        axes = tuple(range(extra)) + tuple(stretched)
        if axes:
            g = self.reduce_sum(g, axes=axes, keepdims=True)
        return self.reshape(g, shape=target) if self.shape(g) != target else g


def derived_pullback(
    backend: Backend,
    name: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    wrt: Sequence[int],
) -> Pullback:
    """The pullback of one call by the meta operator's own gradient rule."""
    op = REGISTRY[name]
    m = Vocabulary(backend)

    def pullback(grads: Sequence[Any]) -> list[Any]:
        rule = op.gradient
        if rule is None:
            raise GradientError(f"{name} has no gradient: {op.nondifferentiable or 'no rule is declared'}")
        full = [m.zeros_like(y) if g is None else g for g, y in zip(grads, outputs, strict=True)]
        g, y = (full[0], outputs[0]) if len(outputs) == 1 else (tuple(full), tuple(outputs))
        found = rule(m, g, y, *inputs, **attrs)
        if len(found) != len(inputs):
            raise InternalError(f"the gradient rule of {name} gave {len(found)} gradients for {len(inputs)} inputs")
        return [found[i] for i in wrt]

    return pullback
