"""The geometry of sliding windows, which convolution and pooling share: checks and sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.rules import require_rank
from metaop.types import Ints, Shape, TensorType

__all__ = ["accumulator", "axes_of", "extents", "per_axis", "window_count"]


def axes_of(what: str, tensor: TensorType, spatial: int) -> Shape:
    """The sizes of a tensor with ``spatial`` axes after the first two; all unknown where the rank is."""
    require_rank(what, tensor, spatial + 2, spatial + 2)
    return (None,) * (spatial + 2) if tensor.shape is None else tensor.shape


def per_axis(spatial: int, **attrs: Ints) -> None:
    """Refuse attributes that have not one value per spatial axis (``pads``: two), or a value that is too small."""
    for name, value in attrs.items():
        count = 2 * spatial if name == "pads" else spatial
        least = 0 if name in ("pads", "output_padding") else 1
        if len(value) != count or min(value) < least:
            order = " (all begins, then all ends)" if name == "pads" else ""
            plural = "integers" if count > 1 else "integer"
            raise AttributeValueError(f"{name} takes {count} {plural} >= {least}{order}; got {value}")


def extents(kernel: Sequence[int], dilations: Ints) -> Ints:
    """How far a window reaches along each axis, gaps included."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


def window_count(
    what: str, size: int | None, extent: int | None, stride: int, begin: int, end: int, ceil: bool = False
) -> int | None:
    """How many windows fit along one axis.

    With ``ceil`` a last window may reach beyond the padded input, if it starts inside the input or the padding before
    it.
    """
    if size is None or extent is None:
        return None
    room = size + begin + end - extent
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= size + begin:
        count -= 1
    if count < 1:
        raise ShapeError(
            f"{what}: the window spans {extent} elements but the input only {size + begin + end} "
            f"(size {size}, pads {begin} and {end}); use a smaller window or larger pads"
        )
    return count


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums are taken: float16 is too coarse to add up many terms, and no framework does."""
    return np.result_type(dtype, np.float32)
