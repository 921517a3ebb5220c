"""The type of a tensor: a dtype and a shape, either of which may be partly unknown while a graph is built."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metaop.errors import DtypeError, ShapeError

__all__ = [
    "ANY",
    "BOOL",
    "FLOATING",
    "INDEX",
    "INTEGER",
    "NUMERIC",
    "SIGNED",
    "Ints",
    "Shape",
    "TensorType",
    "as_dtype",
    "as_shape",
    "describe_dtypes",
    "epsilon",
    "is_floating",
    "takes",
]

Shape = tuple[int | None, ...]
Ints = tuple[int, ...]


def _dtypes(names: str) -> frozenset[np.dtype]:
    return frozenset(np.dtype(name) for name in names.split())


FLOATING = _dtypes("float16 float32 float64")
INTEGER = _dtypes("int8 int16 int32 int64 uint8 uint16 uint32 uint64")
SIGNED = FLOATING | _dtypes("int8 int16 int32 int64")
NUMERIC = FLOATING | INTEGER
BOOL = _dtypes("bool")
ANY = NUMERIC | BOOL
INDEX = _dtypes("int32 int64")


def describe_dtypes(dtypes: Iterable[np.dtype]) -> str:
    """A readable list, in a fixed order: ``float16, float32 or float64``."""
    names = [d.name for d in sorted(dtypes, key=lambda d: ("biuf".index(d.kind), d.itemsize))]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]


def is_floating(dtype: np.dtype | None) -> bool:
    """Whether values of the dtype are rounded real numbers, and so may have gradients.

    >>> is_floating(np.dtype("float16")), is_floating(np.dtype("int8"))
    (True, False)
    """
    # bfloat16 comes from the package ml_dtypes, and NumPy knows only that it is none of its own kinds.
    return dtype is not None and (dtype.kind == "f" or dtype.name == "bfloat16")


def takes(dtypes: Container[np.dtype], dtype: np.dtype) -> bool:
    """Whether ``dtype`` is among ``dtypes``; bfloat16 goes wherever float16 does.

    >>> takes(FLOATING, as_dtype("bfloat16"))
    True
    """
    return dtype in dtypes or (dtype.name == "bfloat16" and np.dtype("float16") in dtypes)


def epsilon(dtype: np.dtype) -> float:
    """The distance from 1 to the next larger number of a floating dtype.

    >>> epsilon(as_dtype("bfloat16"))
    0.0078125
    """
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def _bfloat16() -> np.dtype:
    try:
        import ml_dtypes
    except ImportError:
        raise DtypeError("bfloat16 needs the package ml_dtypes: pip install ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def as_dtype(dtype: Any) -> np.dtype:
    """The dtype meant by a name, a NumPy type or a NumPy dtype; byte order is always the machine's own.

    >>> as_dtype("float32")
    dtype('float32')
    """
    if isinstance(dtype, str) and dtype == "bfloat16":
        return _bfloat16()
    try:
        found = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        found = None
    if found is None or not takes(ANY, found):
        raise DtypeError(f"{dtype!r} is not a dtype that metaop knows; use one of {describe_dtypes(ANY)}, or bfloat16")
    return found


def as_shape(shape: Any) -> Shape | None:
    """A tuple of sizes, with ``None`` for an unknown size; ``None`` itself means that even the rank is unknown.

    >>> as_shape([None, 3])
    (None, 3)
    """
    if shape is None:
        return None
    if isinstance(shape, int | np.integer):
        shape = (shape,)
    sizes: list[int | None] = []
    for size in shape:
        if size is not None and not (isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0):
            raise ShapeError(f"shape {tuple(shape)!r}: a size is an integer >= 0, or None where unknown; got {size!r}")
        sizes.append(None if size is None else int(size))
    return tuple(sizes)


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor before it exists.

    >>> str(TensorType(np.dtype("float32"), (None, 3)))
    'float32[?, 3]'
    """

    dtype: np.dtype | None = None
    shape: Shape | None = None

    @property
    def rank(self) -> int | None:
        """The number of axes, or ``None`` where unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def known(self) -> bool:
        """Whether dtype and every size are known."""
        return self.dtype is not None and self.shape is not None and None not in self.shape

    def with_shape(self, shape: Shape | None) -> TensorType:
        """The same dtype with another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: np.dtype | None) -> TensorType:
        """The same shape with another dtype."""
        return TensorType(dtype, self.shape)

    def admits(self, other: TensorType) -> bool:
        """Whether a value of type ``other`` may stand where this type is declared."""
        if self.dtype is not None and other.dtype is not None and self.dtype != other.dtype:
            return False
        if self.shape is None or other.shape is None:
            return True
        return len(self.shape) == len(other.shape) and all(
            a is None or b is None or a == b for a, b in zip(self.shape, other.shape, strict=True)
        )

    def __str__(self) -> str:
        dtype = "?" if self.dtype is None else self.dtype.name
        if self.shape is None:
            return f"{dtype}[...]"
        return f"{dtype}[{', '.join('?' if s is None else str(s) for s in self.shape)}]"
