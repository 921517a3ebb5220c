"""Arrays as files and as source text, every bit kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metaop.debug.capsule.compare import BFLOAT16

__all__ = ["array_literal", "differ", "file_name", "literal", "read", "same_bits", "stored", "write"]


def file_name(name: str, dtype: np.dtype | None) -> str:
    """The name under which an array stands in a file."""
    return name + BFLOAT16 if dtype is not None and dtype.name == "bfloat16" else name


def stored(array: np.ndarray) -> np.ndarray:
    """The array as NumPy's own files hold it: of bfloat16, which is no dtype of NumPy's, the bits."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file that NumPy alone can read."""
    found: dict[str, Any] = {file_name(k, a.dtype): stored(np.asarray(a)) for k, a in arrays.items()}
    np.savez_compressed(path, **found)


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of such a file as they stand there: of bfloat16 the bits."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal dtype, shape and bits, but for the bits of a NaN, which say nothing."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind not in "fc":
        return False
    either = np.isnan(a) | np.isnan(b)
    return bool(np.array_equal(np.isnan(a), np.isnan(b)) and a[~either].tobytes() == b[~either].tobytes())


def differ(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> list[str]:
    """The names that two sets of arrays do not agree on."""
    return [k for k in sorted({*a, *b}) if k not in a or k not in b or not same_bits(a[k], b[k])]


def literal(value: Any) -> str:
    """An attribute as Python source, in which ``np`` and, for bfloat16, ``ml_dtypes`` are known.

    >>> literal((1, 0.5, float("inf"), "same", None, np.dtype("int8")))
    '(1, 0.5, float("inf"), \\'same\\', None, np.dtype("int8"))'
    """
    if isinstance(value, np.dtype):
        return "np.dtype(ml_dtypes.bfloat16)" if value.name == "bfloat16" else f'np.dtype("{value.name}")'
    if isinstance(value, tuple | list):
        inner = ", ".join(map(literal, value))
        left, right = ("(", ")") if isinstance(value, tuple) else ("[", "]")
        return left + inner + ("," if isinstance(value, tuple) and len(value) == 1 else "") + right
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if type(value) is float and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or type(value) in (bool, int, float, str, bytes):
        return ascii(value)
    if isinstance(value, np.generic):
        return f"{array_literal(np.asarray(value))}[()]"
    raise TypeError(f"{type(value).__name__} is no plain value")


def array_literal(array: np.ndarray) -> str:
    """An array as Python source, exactly; of bfloat16 the bits."""
    array = stored(np.asarray(array))
    dtype = f'"{array.dtype.name}"'
    if array.size and array.ndim and len({x.tobytes() for x in array.reshape(-1)[:1000]}) == 1 and _uniform(array):
        return f"np.full({array.shape}, {_number(array.reshape(-1)[0])}, {dtype})"
    if not array.size:
        return f"np.zeros({array.shape}, {dtype})"
    return f"np.array({_nested(array)}, {dtype})"


def _uniform(array: np.ndarray) -> bool:
    return array.size > 8 and array.tobytes() == array.reshape(-1)[:1].tobytes() * array.size


def _nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return _number(array[()])
    return "[" + ", ".join(_nested(a) for a in array) + "]"


def _number(x: Any) -> str:
    if x.dtype.kind != "f":
        return str(x.item())
    if not np.isfinite(x):
        return f'float("{x}")'
    text = str(x)
    # The shortest text for a float32 is read as a float64 first, which might be rounded the other way.
    return text if x.dtype.type(float(text)).tobytes() == x.tobytes() else repr(float(x))
