"""What several frameworks ask of a resizing before they know whether it is one of theirs.

This module is also loaded inside isolated environments: it must stay importable on Python 3.6.
"""

from typing import Any, List, Sequence, Tuple


def has_ties(sizes: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a new element lies half way between two old ones."""
    return any((2 * i + 1) * old % (2 * out) == 0 for old, out in zip(sizes, new) for i in range(out))


def changing(shape: Sequence[int], sizes: Any, scales: Any, axes: Any, roi: Any) -> Tuple[List[int], Any, Any, Any]:
    """The axes, sizes, scales and region without batch and channels, where these stay as they are.

    Models whose sizes are computed name all axes, though they resize images.
    """
    rank = len(shape)
    order = list(range(rank) if axes is None else (a % rank for a in axes))

    def stays(i: int) -> bool:
        whole = roi is None or (roi[i], roi[i + len(order)]) == (0.0, 1.0)
        same = sizes is None or sizes[i] == shape[order[i]]
        return whole and same and (scales is None or scales[i] == 1.0)

    kept = [i for i in range(len(order)) if order[i] > 1 or not stays(i)]
    if not kept:
        return order, sizes, scales, roi

    def of(numbers: Any) -> Any:
        return None if numbers is None else tuple(numbers[i] for i in kept)

    cut = None if roi is None else of(roi) + of(roi[len(order) :])
    return [order[i] for i in kept], of(sizes), of(scales), cut
