"""Results that nobody else has: arrays are copied only where they share memory, which their addresses tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["separate"]

#: to copy so many bytes takes no longer than to find out whether that is needed
SMALL = 1 << 14


def separate(arrays: Sequence[np.ndarray], others: Iterable[np.ndarray]) -> list[np.ndarray]:
    """The arrays, copied where one shares memory with another of them or of ``others``, or repeats its own.

    >>> a = np.zeros(SMALL)
    >>> b, c = separate([a, a], [])
    >>> np.shares_memory(b, c)
    False
    """
    results = [a if a.nbytes > SMALL and a.flags.carray else np.array(a, order="C") for a in arrays]
    spans = [(*_span(a), i) for i, a in enumerate(results) if a.nbytes > SMALL]
    if not spans:
        return results
    spans += [(*_span(a), -1) for a in others if a.size]
    spans.sort()
    # Of all spans that begin before this one, the one that ends last is met if any is; those that end before it and are
    # met too have met each other before.
    end, last = 0, -1
    for start, stop, index in spans:
        if start < end:
            for i in (index, last):
                if i >= 0:
                    results[i] = results[i].copy()
        if stop > end:
            end, last = stop, index
    return results


def _span(array: np.ndarray) -> tuple[int, int]:
    """The addresses between which the elements lie."""
    start = array.__array_interface__["data"][0]
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + array.itemsize
