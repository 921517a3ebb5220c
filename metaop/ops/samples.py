"""Sample generators that families share, and the special values that every elementwise operator meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from metaop.ops.spec import MetaOp, Reject, Sample

__all__ = ["SPECIAL", "binary_samples", "unary_samples"]

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0])


def unary_samples(op: MetaOp, special: Any = SPECIAL, **attrs: Any) -> None:
    """Give a one-tensor elementwise operator the samples that all of them need.

    ``attrs`` are non-default attributes, tried in a sample of their own; ``special=None`` leaves special values out.
    """

    @op.samples
    def unary(draw: Callable[..., Sample]) -> Iterator[Sample]:
        yield draw(x=(2, 3))
        yield draw(x=(4, 1, 5))
        yield draw(x=())
        yield draw(x=(0, 3))
        if attrs:
            yield draw(x=(2, 3), **attrs)
        if special is not None:
            yield draw(x=special, special=True)

    @op.rejects
    def wrong_dtype(reject: Callable[..., Reject]) -> Iterator[Reject]:
        if np.dtype("bool") not in op.dtypes:
            yield reject(x="bool[2, 3]", message="takes")
        yield reject(x="float32[2, 3]", surely_no_such_attribute=1, message="no attribute")


def binary_samples(op: MetaOp, special: bool = True) -> None:
    """Give a two-tensor broadcasting operator the samples that all of them need."""
    first, second = (p.name for p in op.params)

    @op.samples
    def binary(draw: Callable[..., Sample]) -> Iterator[Sample]:
        yield draw(**{first: (2, 3), second: (2, 3)})
        yield draw(**{first: (4, 1, 3), second: (5, 1)})
        yield draw(**{first: (2, 3), second: ()})
        yield draw(**{first: (), second: ()})
        yield draw(**{first: (0, 3), second: (1, 3)})
        if special:
            a, b = np.meshgrid(SPECIAL, SPECIAL)
            yield draw(**{first: a.ravel(), second: b.ravel()}, special=True)

    @op.rejects
    def do_not_fit(reject: Callable[..., Reject]) -> Iterator[Reject]:
        dtype = "float32" if np.dtype("float32") in op.dtypes else "bool"
        yield reject(**{first: f"{dtype}[2, 3]", second: f"{dtype}[2, 4]"}, message="do not broadcast")
        if dtype == "float32":
            yield reject(**{first: "float32[2]", second: "float64[2]"}, message="one dtype")
