"""How far a result may be off, and which differences are known: the one table of both.

A bound is a function of one problem: how to run it in float64 (``run``), on what (``args``: the inputs, and for
gradients the incoming ones too), and what came out (``values``). It gives, for each result, how far each element may be
off. Bounds follow from the rounding of the arithmetic involved: from the magnitude of the result, from the number and
the magnitude of the terms of a sum, or from what half a unit in the last place of each input does to the result. None
grows with the size of an array alone.

Integers and booleans are exact, always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from packaging.specifiers import SpecifierSet

from metaop.ops import REGISTRY
from metaop.types import TensorType

Arrays = Sequence[np.ndarray]
Run = Callable[..., list[np.ndarray]]


# -- bounds ------------------------------------------------------------------------------------------------------------


def _limits(wanted: TensorType) -> np.finfo:
    return np.finfo(wanted.dtype if wanted.dtype.kind == "f" else np.float64)


def _each(function: Callable[[np.ndarray], np.ndarray], args: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    """``function`` of the floating arguments; the others as they are."""
    return [function(a) if a is not None and a.dtype.kind == "f" else a for a in args]


@dataclass(frozen=True)
class Exact:
    """The float64 result, rounded once."""

    def __call__(self, run: Run, args: Arrays, attrs: dict, values: Arrays, types: Sequence[TensorType]) -> Arrays:
        return [np.zeros(v.shape) for v in values]


@dataclass(frozen=True)
class Ulp:
    """So many units in the last place of the result."""

    units: float

    def __call__(self, run: Run, args: Arrays, attrs: dict, values: Arrays, types: Sequence[TensorType]) -> Arrays:
        # Below the smallest normal number frameworks may flush to zero.
        with np.errstate(all="ignore"):
            return [
                self.units * np.maximum(np.abs(v) * _limits(t).eps, _limits(t).smallest_normal)
                for v, t in zip(values, types, strict=True)
            ]


@dataclass(frozen=True)
class Terms:
    """A sum of products: half a unit for each term, times the sum of the terms' magnitudes.

    The magnitudes come from running the problem on absolute values, the number of terms from running it on ones; where
    the terms are weighted (a mean) ``count`` tells their number instead. ``factors`` is how many roundings one term has
    before it is added.
    """

    factors: int = 1
    count: Callable[[Arrays, dict, np.ndarray], float] | None = None

    def __call__(self, run: Run, args: Arrays, attrs: dict, values: Arrays, types: Sequence[TensorType]) -> Arrays:
        magnitudes = run(*_each(np.abs, args))
        if self.count is None:
            counts = [np.abs(c) for c in run(*_each(np.ones_like, args))]
        else:
            counts = [np.full(v.shape, self.count(args, attrs, v)) for v in values]
        bounds = []
        for size, terms, wanted in zip(magnitudes, counts, types, strict=True):
            roundings = np.maximum(terms - 1, 0) + self.factors
            with np.errstate(invalid="ignore"):
                # Twice, for in float64 the reference rounds as well.
                bounds.append(np.nan_to_num(2 * roundings * _limits(wanted).eps / 2 * np.abs(size), posinf=0.0))
        return bounds


@dataclass(frozen=True)
class Noise:
    """So many times the noise floor: what moving every argument by half a unit in the last place does to the result.

    The floor has a share of the result itself and of its root mean square, for what an element is computed through is
    of the size of its fellows (one minus a value close to one, for example).
    """

    units: float
    draws: int = 8

    def __call__(self, run: Run, args: Arrays, attrs: dict, values: Arrays, types: Sequence[TensorType]) -> Arrays:
        rng = np.random.default_rng(0)
        eps = max(_limits(t).eps for t in types)
        moved = [np.zeros(v.shape) for v in values]
        for _ in range(self.draws):
            near = run(*_each(lambda a: a * (1 + eps / 2 * rng.choice([-1.0, 1.0], a.shape)), args))
            with np.errstate(invalid="ignore"):
                moved = [np.fmax(m, np.abs(n - v)) for m, n, v in zip(moved, near, values, strict=True)]
        bounds = []
        for move, value, wanted in zip(moved, values, types, strict=True):
            size = np.where(np.isfinite(value), np.abs(value), 0.0)
            rms = np.sqrt(np.mean(size**2)) if size.size else 0.0
            floor = np.where(np.isfinite(move), move, 0.0) + eps / 2 * (size + rms) + _limits(wanted).smallest_normal
            bounds.append(self.units * floor)
        return bounds


def _shrinkage(args: Arrays, attrs: dict, value: np.ndarray) -> float:
    """How many elements of the first argument each element of the result was made from."""
    return max(args[0].size / value.size, 1.0) if value.size else 1.0


def _window(args: Arrays, attrs: dict, value: np.ndarray) -> float:
    return float(np.prod(attrs["kernel_shape"]))


EXACT = Exact()
SUM = Terms(factors=0)
SUM_OF_PRODUCTS = Terms(factors=1)

#: How far a value may be off. Operators that are not listed are exact: they move, select, compare, or round once.
FORWARD: dict[str, Any] = {
    **dict.fromkeys(["inv", "square", "sqrt"], Ulp(1)),
    **dict.fromkeys(["exp", "log", "sin", "cos", "erf", "rsqrt"], Ulp(4)),
    **dict.fromkeys(["sigmoid", "tanh", "softplus", "softsign", "silu", "selu", "elu"], Ulp(4)),
    "pow": Ulp(8),
    "leaky_relu": Ulp(1),
    "prelu": Ulp(1),
    "dropout": Ulp(2),
    **dict.fromkeys(["hard_sigmoid", "hard_swish", "gelu", "softmax", "log_softmax"], Noise(8)),
    **dict.fromkeys(["reduce_sum", "cumsum", "scatter_add"], SUM),
    "reduce_mean": Terms(factors=1, count=_shrinkage),
    "global_average_pool": Terms(factors=1, count=_shrinkage),
    **dict.fromkeys(["average_pool1d", "average_pool2d", "average_pool3d"], Terms(factors=1, count=_window)),
    "reduce_prod": Noise(8),
    **dict.fromkeys(["matmul", "einsum"], SUM_OF_PRODUCTS),
    **dict.fromkeys(["conv1d", "conv2d", "conv3d", "depthwise_conv2d"], SUM_OF_PRODUCTS),
    **dict.fromkeys(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"], SUM_OF_PRODUCTS),
    **dict.fromkeys(["batch_norm", "layer_norm", "group_norm", "instance_norm"], Noise(16)),
    **dict.fromkeys(["lstm", "gru", "lstm_cell"], Noise(16)),
    **dict.fromkeys(["mse", "mae", "huber", "hinge"], Noise(8)),
    **dict.fromkeys(["binary_cross_entropy", "binary_cross_entropy_with_logits"], Noise(8)),
    **dict.fromkeys(["categorical_cross_entropy", "softmax_cross_entropy"], Noise(8)),
    **dict.fromkeys(["sparse_softmax_cross_entropy", "kl_div", "cosine_similarity"], Noise(8)),
}

#: Families and operators that are linear in each argument: so are their gradients, which are sums of products too.
MULTILINEAR = frozenset(["movement", "contraction", "convolution"])
MULTILINEAR_OPS = frozenset(["add", "subtract", "multiply", "negative", "identity", "reduce_sum", "cumsum"])


def forward_bound(op: str) -> Any:
    """The bound of an operator's values."""
    return FORWARD.get(op, EXACT)


def gradient_bound(op: str) -> Any:
    """The bound of an operator's gradients."""
    linear = REGISTRY[op].family in MULTILINEAR or op in MULTILINEAR_OPS
    return SUM_OF_PRODUCTS if linear else Noise(16)


# -- expected differences ----------------------------------------------------------------------------------------------


def always(case: Any) -> bool:
    return True


def special(case: Any) -> bool:
    return case.special


@dataclass(frozen=True)
class Expected:
    """A known difference between a backend and the reference. A row that no longer occurs fails its test.

    ``check`` is ``forward``, ``gradient`` or ``exact``; ``kind`` is the kind of complaint that the row explains, on the
    samples for which ``when`` holds. ``at_most`` limits a wrong value to so many times its bound. ``versions`` limits
    the row to versions of the framework.
    """

    backend: str
    op: str
    kind: str
    reason: str
    when: Callable[[Any], bool] = always
    at_most: float = np.inf
    versions: str | None = None
    check: str = "forward"

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(f"the expected difference of {self.op} on {self.backend} must say why it is expected")

    def __str__(self) -> str:
        return f"{self.check} of {self.op} on {self.backend}, {self.kind} ({self.reason})"

    def explains(self, case: Any, complaint: Any) -> bool:
        return complaint.kind == self.kind and complaint.excess <= self.at_most and self.when(case)


EXPECTED: list[Expected] = []


def expected(check: str, backend: str, op: str, version: str) -> list[Expected]:
    """The rows for one check of one operator on one backend at a version."""
    return [
        row
        for row in EXPECTED
        if (row.check, row.backend, row.op) == (check, backend, op)
        and (row.versions is None or version.partition("+")[0] in SpecifierSet(row.versions))
    ]
