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
    """A sum of products: half a unit for each rounding, times the sum of the terms' magnitudes.

    Roundings fall to both sides, so that of many only about the square root of their number counts; four times that is
    hardly ever exceeded. The magnitudes come from running the problem on absolute values, the number of terms from
    running it on ones; where the terms are weighted (a mean) ``count`` tells their number instead. ``factors`` is how
    many roundings one term has before it is added.
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
            roundings = np.minimum(roundings, 4 * np.sqrt(roundings))
            with np.errstate(invalid="ignore"):
                # Twice, for in float64 the reference rounds as well.
                bounds.append(np.nan_to_num(2 * roundings * _limits(wanted).eps / 2 * np.abs(size), posinf=0.0))
        return bounds


@dataclass(frozen=True)
class Noise:
    """So many times the noise floor: what moving every argument by half a unit in the last place does to the result.

    The floor has a share of the result itself and, if ``pooled``, of the root mean square of all of it, for an element
    is computed through numbers of the size of its fellows. ``inner`` moves every intermediate result of a gradient rule
    too, which shows the noise of terms that cancel; it must not be used where a rule compares computed numbers.
    """

    units: float
    pooled: bool = True
    inner: bool = False
    draws: int = 8

    def __call__(self, run: Run, args: Arrays, attrs: dict, values: Arrays, types: Sequence[TensorType]) -> Arrays:
        rng = np.random.default_rng(0)
        eps = max(_limits(t).eps for t in types)

        def jitter(a: np.ndarray) -> np.ndarray:
            return a * (1 + eps / 2 * rng.choice([-1.0, 1.0], a.shape))

        moved = [np.zeros(v.shape) for v in values]
        for _ in range(self.draws):
            near = run(*_each(jitter, args), jitter=jitter if self.inner else None)
            with np.errstate(invalid="ignore"):
                moved = [np.fmax(m, np.abs(n - v)) for m, n, v in zip(moved, near, values, strict=True)]
        bounds = []
        for move, value, wanted in zip(moved, values, types, strict=True):
            size = np.where(np.isfinite(value), np.abs(value), 0.0)
            fellows = np.sqrt(np.mean(size**2)) if self.pooled and size.size else 0.0
            floor = np.where(np.isfinite(move), move, 0.0) + eps / 2 * (size + fellows)
            bounds.append(self.units * (floor + _limits(wanted).smallest_normal))
        return bounds


@dataclass(frozen=True)
class By:
    """The bound that belongs to the value of an attribute; those that are not listed are exact."""

    attribute: str
    bounds: tuple[tuple[str, Any], ...]

    def __call__(self, run: Run, args: Arrays, attrs: dict, values: Arrays, types: Sequence[TensorType]) -> Arrays:
        return dict(self.bounds).get(attrs[self.attribute], EXACT)(run, args, attrs, values, types)


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
    **dict.fromkeys(["sigmoid", "tanh", "softplus", "softsign", "selu", "elu"], Ulp(4)),
    "silu": Ulp(6),
    "pow": Ulp(8),
    **dict.fromkeys(["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"], Ulp(4)),
    **dict.fromkeys(["log1p", "expm1", "celu"], Ulp(4)),
    **dict.fromkeys(["mish", "swiglu"], Ulp(6)),
    "leaky_relu": Ulp(1),
    "prelu": Ulp(1),
    "dropout": Ulp(2),
    **dict.fromkeys(["hard_sigmoid", "hard_swish", "gelu"], Noise(8, pooled=False)),
    **dict.fromkeys(["softmax", "log_softmax"], Noise(8)),
    **dict.fromkeys(["reduce_sum", "cumsum", "scatter_add"], SUM),
    "reduce_mean": Terms(factors=1, count=_shrinkage),
    "global_average_pool": Terms(factors=1, count=_shrinkage),
    **dict.fromkeys(["average_pool1d", "average_pool2d", "average_pool3d"], Terms(factors=1, count=_window)),
    **dict.fromkeys(["reduce_prod", "cumprod"], Noise(8)),
    "reduce_l1": SUM,
    "reduce_sum_square": Terms(factors=1),
    **dict.fromkeys(["reduce_l2", "reduce_log_sum", "reduce_log_sum_exp"], Noise(8)),
    **dict.fromkeys(["scatter_elements", "scatter_nd"], By("reduction", (("add", SUM), ("mul", Ulp(2))))),
    "det": Noise(16),
    **dict.fromkeys(["matmul", "linear", "einsum"], SUM_OF_PRODUCTS),
    **dict.fromkeys(["conv1d", "conv2d", "conv3d", "depthwise_conv2d"], SUM_OF_PRODUCTS),
    **dict.fromkeys(["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"], SUM_OF_PRODUCTS),
    **dict.fromkeys(["batch_norm", "layer_norm", "group_norm", "instance_norm"], Noise(16)),
    **dict.fromkeys(["lstm", "gru", "rnn", "lstm_cell"], Noise(16)),
    **dict.fromkeys(["dft", "stft"], Noise(8)),
    **dict.fromkeys(["hann_window", "hamming_window", "blackman_window", "mel_weight_matrix"], Noise(8)),
    "dequantize_linear": Ulp(2),
    "dynamic_quantize_linear": Ulp(2),
    "attention": Noise(16),
    "rotary_embedding": Noise(8),
    **dict.fromkeys(["resize", "grid_sample", "affine_grid"], Noise(16)),
    "col2im": SUM,
    **dict.fromkeys(["lp_pool", "global_lp_pool", "lp_normalization", "rms_norm", "lrn"], Noise(16)),
    **dict.fromkeys(["mse", "mae", "huber", "hinge", "smooth_l1", "log_cosh"], Noise(8)),
    **dict.fromkeys(["nll_loss", "poisson_nll", "gaussian_nll", "margin_ranking", "triplet_margin"], Noise(8)),
    **dict.fromkeys(["binary_cross_entropy", "binary_cross_entropy_with_logits"], Noise(8)),
    **dict.fromkeys(["categorical_cross_entropy", "softmax_cross_entropy"], Noise(8)),
    **dict.fromkeys(["sparse_softmax_cross_entropy", "kl_div", "cosine_similarity"], Noise(8)),
}

#: Operators that look at the bits of a floating number, of which float64 has others.
ABOUT_BITS = frozenset(["bit_cast"])

#: Families and operators that are linear in each argument: so are their gradients, which are sums of products too.
MULTILINEAR = frozenset(["movement", "contraction", "convolution"])
MULTILINEAR_OPS = frozenset(["add", "subtract", "multiply", "negative", "identity", "reduce_sum", "cumsum", "col2im"])


def forward_bound(op: str) -> Any:
    """The bound of an operator's values."""
    return FORWARD.get(op, EXACT)


def gradient_bound(op: str) -> Any:
    """The bound of an operator's gradients."""
    family = REGISTRY[op].family
    if family in MULTILINEAR or op in MULTILINEAR_OPS:
        return SUM_OF_PRODUCTS
    return Noise(16, inner=family == "normalization" or op == "cosine_similarity")


# -- expected differences ----------------------------------------------------------------------------------------------


def when(
    dtypes: str = "", *, special: bool | None = None, empty: bool | None = None, **attrs: Any
) -> Callable[[Any], bool]:
    """The condition that a case has one of the dtypes, special values, an empty tensor, and certain attributes."""

    def holds(case: Any) -> bool:
        return (
            (not dtypes or case.dtype in dtypes.split())
            and (special is None or case.special == special)
            and (empty is None or case.empty == empty)
            and all(v(case.attrs[k]) if callable(v) else case.attrs[k] == v for k, v in attrs.items())
        )

    return holds


def scalar(case: Any) -> bool:
    """The condition that the first tensor has no axes."""
    return case.inputs()[0].ndim == 0


ALWAYS = when()
NEAR_SPECIAL = when(special=True)


@dataclass(frozen=True)
class Expected:
    """A known difference between a backend and the reference. A row that no longer occurs fails its test.

    ``op`` is an operator, or ``*`` for all of which a sample meets the condition.
    ``check`` is ``forward``, ``gradient`` or ``exact``; ``kind`` is the kind of complaint that the row explains, on the
    samples for which ``when`` holds. A wrong value may be off by ``at_most`` times its bound, and by ``error`` in all.
    ``versions`` limits the row to versions of the framework. What shows on some runs only is not ``steady``.
    """

    backend: str
    op: str
    kind: str
    reason: str
    when: Callable[[Any], bool] = ALWAYS
    at_most: float = np.inf
    error: float = np.inf
    versions: str | None = None
    check: str = "forward"
    steady: bool = True

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(f"the expected difference of {self.op} on {self.backend} must say why it is expected")

    def __str__(self) -> str:
        return f"{self.check} of {self.op} on {self.backend}, {self.kind} ({self.reason})"

    def explains(self, case: Any, complaint: Any) -> bool:
        near = complaint.excess <= self.at_most and complaint.error <= self.error
        return complaint.kind == self.kind and near and self.when(case)


def differ(
    backend: str, ops: str, kinds: str, reason: str, condition: Callable[[Any], bool] = ALWAYS, **more: Any
) -> list:
    """One row for each of the operators and kinds of complaint."""
    checks = more.pop("check", "forward").split()
    return [
        Expected(backend, op, kind, reason, condition, check=check, **more)
        for op in ops.split()
        for kind in kinds.split()
        for check in checks
    ]


def above_zero(number: float) -> bool:
    return number > 0


def any_of(values: Sequence[int] | None) -> bool:
    return any(values or ())


def above_one(sizes: Sequence[int]) -> bool:
    return any(size > 1 for size in sizes)


def not_default(value: float) -> bool:
    return value in (1.5, 1.25)


def shape_at(case: Any, index: int) -> Any:
    """The shape of a tensor of the sample; ``None`` where it is left out."""
    inputs = case.inputs()
    return inputs[index].shape if index < len(inputs) and inputs[index] is not None else None


POOLS = "max_pool1d max_pool2d max_pool3d"
CONVS = "conv1d conv2d conv3d"
CONVS_TRANSPOSED = "conv_transpose1d conv_transpose2d conv_transpose3d"
HALF_AND_DOUBLE = "float16 float64"

EXPECTED: list[Expected] = [
    # -- PyTorch
    *differ(
        "torch",
        "gelu",
        "nan infinity",
        "its vectorised erf kernel gives gelu(inf) = NaN",
        when("float32", special=True),
    ),
    *differ(
        "torch",
        "gelu",
        "value",
        "0.5 * (1 + erf) and 0.5 * (1 + tanh) cancel in the left tail: gelu(-6) = 0 (pytorch#187806)",
        when("float32 float64", special=True),
        error=1e-7,
    ),
    *differ("torch", "sign", "nan", "PyTorch's convention: sign(NaN) = 0", NEAR_SPECIAL),
    *differ(
        "torch", "binary_cross_entropy", "infinity", "PyTorch clamps logarithms at -100, by documentation", NEAR_SPECIAL
    ),
    *differ("torch", "softmax_cross_entropy", "nan", "a target of 0 times a log-probability of -Inf", NEAR_SPECIAL),
    *differ("torch", "kl_div", "nan", "a target of 0 times a log-probability of -Inf", NEAR_SPECIAL),
    *differ("torch", "instance_norm", "raised", "its kernel indexes into the batch, empty or not", when(empty=True)),
    *differ("torch", "det", "raised", "no float16 kernel on the CPU", when("float16")),
    *differ("torch", "space_to_depth", "refused", "an empty tensor is left in the shape that it has", when(empty=True)),
    *differ(
        "torch",
        "depth_to_space",
        "raised",
        "its gradient is what pixel_unshuffle makes of an empty tensor, which has the wrong shape",
        when(empty=True),
        check="gradient",
    ),
    *differ("torch", "average_pool3d", "raised", "no float16 kernel on the CPU", when("float16")),
    *differ(
        "torch",
        "reduce_max reduce_min",
        "refused",
        "amax and amin reduce no axis that has nothing on it",
        when(empty=True),
    ),
    *differ("torch", "thresholded_relu shrink", "nan", "NaN is below no threshold to it, and stays", NEAR_SPECIAL),
    *differ(
        "torch",
        "shrink",
        "refused",
        "it has hard and soft shrinkage, and nothing between",
        when(bias=lambda b: b == 0.25),
    ),
    *differ(
        "torch",
        "celu",
        "value",
        "its gradient takes 1 / alpha through float32",
        when("float64", alpha=0.7),
        error=1e-8,
        check="gradient",
    ),
    *differ("torch", "attention", "refused", "scaled_dot_product_attention has no softcap", when(softcap=above_zero)),
    *differ(
        "torch",
        "attention",
        "primal",
        "a bias that needs a gradient is served by another kernel than one that does not",
        when(is_causal=True),
        check="gradient",
    ),
    *differ(
        "torch",
        "nll_loss",
        "refused",
        "no gradient in the weights of the classes",
        lambda case: shape_at(case, 2) is not None,
        check="gradient",
    ),
    *differ("torch", "dft stft", "refused", "no float16 transforms on the CPU", when("float16")),
    *differ("torch", "conv_integer", "refused", "no integer kernel of dilated convolutions", when(dilations=(2, 1))),
    *differ(
        "torch",
        "resize",
        "refused",
        "interpolate knows two ways to place and to round coordinates, and resizes all axes after the first two",
    ),
    *differ(
        "torch", "resize", "raised", "no float16 kernel with antialias on the CPU", when("float16", antialias=True)
    ),
    *differ(
        "torch", "affine_grid", "raised", "a single element is a constant that has no float16 kernel", when("float16")
    ),
    *differ("torch", "lp_pool", "refused", "odd powers keep their sign in lp_pool", when(p=lambda p: p % 2 == 1)),
    *differ("torch", "lp_pool", "refused", "lp_pool has no pads", when(pads=any_of)),
    *differ("torch", "lp_pool", "refused", "lp_pool has no dilations", when(dilations=any_of)),
    *differ(
        "torch", "lp_pool", "refused", "lp_pool miscounts a window that reaches over the end", when(ceil_mode=True)
    ),
    *differ("torch", "col2im", "refused", "fold makes images of two axes", when(image_shape=lambda s: len(s) != 2)),
    *differ("torch", "col2im", "refused", "fold pads both ends alike", when(pads=(0, 0, 0, 1))),
    *differ("torch", "lp_pool lrn", "raised", "no float16 kernel of avg_pool3d on the CPU", when("float16")),
    *differ("torch", "lrn", "refused", "of an even size it takes one channel more before than after", when(size=4)),
    *differ(
        "torch",
        "average_pool1d average_pool2d average_pool3d",
        "refused",
        "its average pooling has no dilations",
        when(dilations=above_one),
    ),
    # -- TensorFlow
    *differ("tensorflow", "gather_nd", "raised", "its kernel takes nothing from an empty tensor", when(empty=True)),
    *differ(
        "tensorflow",
        "scatter_nd",
        "raised",
        "its kernel writes nothing into an empty tensor",
        when(empty=True, reduction="add"),
    ),
    *differ("tensorflow", "det", "raised", "no float16 kernel", when("float16")),
    *differ("tensorflow", "nonzero", "refused", "tf.where takes no scalars", scalar),
    *differ(
        "tensorflow",
        "unique",
        "refused",
        "its distinct slices come as they first occur, and nothing sorts slices",
        when(axis=lambda axis: axis is not None, sorted=True),
    ),
    *differ("tensorflow", "unique", "refused", "nothing sorts booleans", when("bool", axis=None, sorted=True)),
    *differ(
        "tensorflow",
        "gelu",
        "value",
        "0.5 * (1 + tanh) cancels in the left tail",
        when("float32", special=True),
        error=1e-7,
    ),
    *differ(
        "tensorflow",
        "gelu leaky_relu",
        "value",
        "its constants go through float32",
        when("float64"),
        error=1e-7,
        check="forward gradient",
    ),
    *differ(
        "tensorflow",
        "selu",
        "value",
        "its built-in constants are not ONNX's, which went through float32",
        when("float64", special=False),
        error=1e-7,
        check="forward gradient",
    ),
    *differ("tensorflow", "selu", "value", "the same, at 1000", when("float64", special=True), error=1e-4),
    *differ("tensorflow", "selu", "refused", "its constants are built in", when(alpha=not_default)),
    *differ(
        "tensorflow",
        "softmax",
        "nan",
        "its oneDNN kernel gives softmax([0, Inf]) = [0, 0]",
        when("float32", special=True),
    ),
    *differ("tensorflow", "erf", "nan", "its double kernel gives erf(Inf) = NaN", when("float64", special=True)),
    *differ(
        "tensorflow", "softmax_cross_entropy", "nan", "a target of 0 times a log-probability of -Inf", NEAR_SPECIAL
    ),
    *differ("tensorflow", "argmax argmin", "value", "NaN is no extreme element to it", NEAR_SPECIAL),
    *differ("tensorflow", POOLS, "nan", "max-pooling drops NaN (tensorflow#2501)", NEAR_SPECIAL),
    *differ("tensorflow", POOLS, "infinity", "max-pooling starts from the lowest finite number", NEAR_SPECIAL),
    *differ(
        "tensorflow",
        CONVS,
        "raised",
        "its oneDNN kernel gives an empty batch the input's shape",
        when("float32", empty=True),
    ),
    *differ(
        "tensorflow",
        "depthwise_conv2d",
        "shape",
        "its oneDNN kernel gives an empty batch the input's shape",
        when("float32", empty=True),
    ),
    *differ(
        "tensorflow",
        "conv_transpose2d conv_transpose3d",
        "shape",
        "its oneDNN kernel gives an empty batch the shape of its input, on the way back too",
        when("float32", empty=True),
        check="gradient",
    ),
    *differ(
        "tensorflow",
        "depthwise_conv2d",
        "value nan infinity unrepeatable",
        "the weight gradient of an empty batch is memory that nothing was written to",
        when(empty=True),
        check="gradient",
        steady=False,
    ),
    *differ(
        "tensorflow",
        CONVS_TRANSPOSED,
        "refused",
        "no kernel for that on the CPU",
        when(HALF_AND_DOUBLE, dilations=above_one),
    ),
    *differ("tensorflow", "max_pool3d average_pool3d", "refused", "3-D pooling of float32 only", when(HALF_AND_DOUBLE)),
    *differ(
        "tensorflow",
        "conv2d",
        "bits",
        "the kernels with groups or dilations have no gradient, so that the binding goes another way",
        when("float64", dilations=above_one),
        check="exact",
    ),
    *differ("tensorflow", "hardmax", "value", "NaN is no extreme element to it", NEAR_SPECIAL),
    *differ("tensorflow", "mod", "refused", "no float16 kernel of TruncateMod", when("float16", fmod=True)),
    *differ("tensorflow", "mod", "raised", "TruncateMod has no gradient", when(fmod=True), check="gradient"),
    *differ("tensorflow", "bit_cast", "refused", "it reads no booleans as something else", when("bool")),
    *differ(
        "tensorflow",
        "cumprod",
        "value",
        "its gradient divides by each factor, and takes 0 / 0 for 0 (tensorflow#119430)",
        lambda case: (case.inputs()[0] == 0).any(),
        check="gradient",
    ),
    *differ("tensorflow", "dft stft", "refused", "complex numbers of float32 and float64 only", when("float16")),
    *differ(
        "tensorflow",
        "hann_window",
        "value",
        "a periodic window of odd length comes out symmetric",
        when(periodic=True, size=7),
    ),
    *differ("tensorflow", "conv_integer", "refused", "strides or dilations, not both", when(dilations=(2, 1))),
    *differ(
        "tensorflow",
        "resize",
        "refused",
        "it resizes two axes, in float32, by three ways to place coordinates and one cubic kernel",
    ),
    *differ(
        "tensorflow",
        "resize",
        "value",
        "ResizeBicubic takes its weights from a table of 1024 places",
        when("float32", mode="cubic", antialias=False),
        error=2e-3,
        check="forward gradient",
    ),
    *differ("tensorflow", "max_pool_with_indices", "refused", "max_pool_with_argmax is for images, without pads"),
    *differ("tensorflow", "max_pool_with_indices", "raised", "its kernel takes no empty tensors", when(empty=True)),
    *differ("tensorflow", "lp_normalization", "refused", "it normalizes by the L2 norm only", when(p=1)),
    *differ("tensorflow", "lrn", "refused", "it is for images and odd sizes, and has no float64 kernel"),
    # -- TensorFlow Lite
    *differ(
        "tflite", "*", "refused", "many of its kernels fail on empty tensors, some kill the process", when(empty=True)
    ),
    *differ(
        "tflite",
        "hann_window",
        "value",
        "a periodic window of odd length comes out symmetric, as TensorFlow makes it",
        when(periodic=True, size=7),
    ),
    *differ("tflite", "selu", "refused", "its constants are built in", when(alpha=not_default)),
    *differ("tflite", "lp_normalization", "refused", "it normalizes by the L2 norm only", when(p=1)),
    *differ("tflite", "lrn", "refused", "it is for images and odd sizes"),
    *differ("tflite", "resize", "refused", "it resizes two axes, linearly or to the nearest, to whole sizes"),
    *differ(
        "tflite",
        "einsum",
        "refused",
        "the converter knows only what it can turn into a product of matrices",
        when(
            equation=lambda e: (
                "ii" in e
                or e in ("iji,jk->ki", "ijk->ki", "ij->", "i,i->", "ij,kj->k", "a...b,...b->...", ",ij->ji", "->")
            )
        ),
    ),
    *differ(
        "tflite", "conv3d", "refused", "the shape rule of Conv3D mixes up the dilated axes", when(dilations=above_one)
    ),
    *differ(
        "tflite",
        "conv_transpose1d conv_transpose2d",
        "refused",
        "TRANSPOSE_CONV has no dilations",
        when(dilations=above_one),
    ),
    *differ(
        "tflite",
        "conv3d",
        "refused",
        "the gradient of a strided convolution is a dilated one, which see",
        when(strides=above_one),
        check="gradient",
    ),
    *differ("tflite", "gelu", "refused", "no kernel of Erf", when(approximate="none"), check="gradient"),
    *differ(
        "tflite",
        "reduce_prod",
        "refused",
        "the rule takes an empty slice of an axis of size 1",
        when(axes=(1,)),
        check="gradient",
    ),
    *differ("tflite", "softplus", "nan infinity", "converted as log(1 + exp(x)), and its exp(NaN) is 0", NEAR_SPECIAL),
    *differ("tflite", "softplus mish", "value", "converted with log(1 + exp(x))", NEAR_SPECIAL, error=1e-5),
    *differ("tflite", "log1p", "value", "converted as log(1 + x)", NEAR_SPECIAL, error=1e-7),
    *differ("tflite", "expm1", "value", "converted as exp(x) - 1", error=2e-4),
    *differ("tflite", "mod", "refused", "no builtin kernel of TruncateMod", when(fmod=True)),
    *differ("tflite", "log_cosh", "infinity", "its softplus is log(1 + exp(x)), of 200 here", NEAR_SPECIAL),
    *differ(
        "tflite",
        "gelu",
        "value",
        "0.5 * (1 + erf) and 0.5 * (1 + tanh) cancel in the left tail",
        NEAR_SPECIAL,
        error=1e-7,
    ),
    *differ("tflite", "selu", "value", "converted with exp(x) - 1", at_most=3.0),
    *differ("tflite", "cos", "value", "converted as a sine, shifted by a rounded quarter of a turn", error=1e-6),
    *differ("tflite", "exp expm1 selu", "nan", "its exp(NaN) is 0", NEAR_SPECIAL),
    *differ("tflite", "reduce_log_sum_exp", "nan infinity", "the maximum drops NaN", NEAR_SPECIAL),
    *differ("tflite", "sqrt rsqrt", "nan infinity", "its kernel gives NaN at 0 or Inf", NEAR_SPECIAL),
    *differ("tflite", "sign", "nan", "its sign(NaN) is 0", NEAR_SPECIAL),
    *differ("tflite", "maximum minimum", "nan infinity", "NaN loses against a number on one side", NEAR_SPECIAL),
    *differ("tflite", "reduce_max reduce_min global_max_pool", "nan", "NaN is dropped", NEAR_SPECIAL),
    *differ("tflite", "argmax argmin", "value", "NaN is no extreme element to it", NEAR_SPECIAL),
    *differ(
        "tflite",
        "max_pool1d max_pool2d average_pool1d average_pool2d",
        "nan infinity",
        "the clamp to the range of a fused activation turns NaN into -Inf",
        NEAR_SPECIAL,
    ),
    *differ(
        "tflite", "conv3d", "nan", "the clamp to the range of a fused activation turns NaN into a number", NEAR_SPECIAL
    ),
    *differ(
        "tflite", "linear", "infinity", "the clamp to the range of a fused activation makes Inf finite", NEAR_SPECIAL
    ),
    *differ(
        "tflite",
        "conv2d",
        "bits",
        "its own kernel has groups; the binding is TensorFlow's, which goes group by group",
        when(group=2),
        check="exact",
    ),
    *differ(
        "tflite",
        "scatter_elements scatter_nd",
        "refused",
        "no builtin kernels for TensorFlow's TensorScatterMax and TensorScatterMin",
        when(reduction=lambda reduction: reduction in ("max", "min")),
    ),
    *differ(
        "tflite",
        "tensor_scatter",
        "refused",
        "the gradient rule divides integers, for which there is no builtin kernel",
        when(mode="circular"),
        check="gradient",
    ),
    *differ(
        "tflite",
        "scatter_elements scatter_nd",
        "nan",
        "the converter makes a product with 0 of what is replaced, and NaN stays NaN",
        when(special=True, reduction="none"),
    ),
    # -- ONNX Runtime
    *differ(
        "onnxruntime",
        "scatter_elements scatter_nd",
        "refused",
        "its kernels do not reduce in float16",
        when("float16", reduction=lambda reduction: reduction in ("add", "mul")),
    ),
    *differ(
        "onnxruntime",
        "scatter_nd",
        "refused",
        "its kernel does not reduce in float16",
        when("float16", reduction=lambda reduction: reduction in ("max", "min")),
    ),
    *differ("onnxruntime", "one_hot", "refused", "no kernel for these dtypes", when("float64 int32 bool")),
    *differ("onnxruntime", "one_hot", "refused", "its OneHot takes no scalar for indices", scalar),
    *differ(
        "onnxruntime",
        "depth_to_space space_to_depth",
        "refused",
        "no kernel for these dtypes",
        when("int64 int32 bool"),
    ),
    *differ(
        "onnxruntime",
        "reverse_sequence",
        "refused",
        "ONNX's ReverseSequence has batch and time in the first two axes",
        when(time_axis=-1),
    ),
    *differ("onnxruntime", "eye_like", "refused", "no kernel for bool", when("bool")),
    *differ("onnxruntime", "det", "refused", "no kernel for float64", when("float64")),
    *differ("onnxruntime", "nonzero", "refused", "no kernel for float64", when("float64")),
    *differ("onnxruntime", "nonzero", "refused", "its NonZero gives a scalar's index a row too many", scalar),
    *differ("onnxruntime", "unique", "refused", "no kernel for these dtypes", when("int32 bool")),
    *differ(
        "onnxruntime",
        "sigmoid silu swiglu",
        "value",
        "its rational approximation has an absolute, not a relative, accuracy in the tails",
        when("float32 float64", special=True),
        error=2e-6,
    ),
    *differ(
        "onnxruntime",
        "gelu",
        "value",
        "0.5 * (1 + erf) and 0.5 * (1 + tanh) cancel in the left tail",
        when("float32", special=True),
        error=1e-7,
    ),
    *differ(
        "onnxruntime", "gelu", "value", "ONNX's function body has its constants in float32", when("float64"), error=2e-8
    ),
    *differ(
        "onnxruntime",
        "batch_norm layer_norm group_norm rms_norm",
        "value",
        "epsilon is an attribute, and those of ONNX are float32",
        when("float64"),
        error=1e-8,
    ),
    *differ(
        "onnxruntime",
        "group_norm",
        "value",
        "ONNX's function body takes the variance as the mean square less the squared mean, which cancel",
        when("float32"),
        at_most=4.0,
    ),
    *differ("onnxruntime", "cos", "value", "a little off near the zeros", when("float64"), at_most=4.0),
    *differ(
        "onnxruntime", "log_softmax", "nan infinity", "its double kernel knows no Inf", when("float64", special=True)
    ),
    *differ("onnxruntime", "sign", "nan", "its float16 kernel gives sign(NaN) = 0", when("float16", special=True)),
    *differ("onnxruntime", "max_pool2d", "nan", "max-pooling drops NaN", when("float32 float16", special=True)),
    *differ(
        "onnxruntime", "max_pool1d max_pool3d", "nan", "max-pooling drops NaN", when("float32 float16", special=True)
    ),
    *differ(
        "onnxruntime",
        "max_pool1d max_pool3d",
        "infinity",
        "max-pooling starts from the lowest finite number",
        when("float32", special=True),
    ),
    *differ("onnxruntime", "global_max_pool", "nan", "max-pooling drops NaN", NEAR_SPECIAL),
    *differ("onnxruntime", "reduce_max reduce_min", "nan", "NaN is dropped (onnxruntime#10514)", NEAR_SPECIAL),
    *differ(
        "onnxruntime",
        "hardmax",
        "value",
        "NaN is no extreme element to it",
        when("float32 float16", special=True),
    ),
    *differ("onnxruntime", "argmax argmin", "value", "NaN is no extreme element to it", NEAR_SPECIAL),
    *differ(
        "onnxruntime",
        "reduce_mean",
        "nan",
        "the mean of nothing is 0 to it",
        when(empty=True, axes=lambda a: a != (1,)),
    ),
    *differ(
        "onnxruntime",
        "tan asin acos atan sinh cosh asinh acosh atanh celu mish thresholded_relu hardmax "
        "softplus softsign leaky_relu prelu elu selu hard_sigmoid hard_swish erf binary_cross_entropy_with_logits "
        "depthwise_conv2d average_pool1d average_pool2d average_pool3d global_average_pool global_max_pool "
        f"instance_norm lstm gru rnn lstm_cell quantize_linear dequantize_linear {CONVS} {CONVS_TRANSPOSED}",
        "refused",
        "no float64 kernel",
        when("float64"),
    ),
    *differ(
        "onnxruntime",
        "attention",
        "refused",
        "no float64 kernel; ONNX's function body takes the softmax in float32",
        when("float64"),
    ),
    *differ("onnxruntime", "lrn", "refused", "LRN is for images and odd sizes", when("float32 float16")),
    *differ("onnxruntime", "attention", "refused", "Attention takes no empty tensors", when(empty=True)),
    *differ(
        "onnxruntime",
        "rotary_embedding resize lp_pool global_lp_pool lrn col2im",
        "refused",
        "no float64 kernel",
        when("float64"),
    ),
    *differ("onnxruntime", "gelu", "refused", "no float64 kernel of Erf", when("float64", approximate="none")),
    *differ("onnxruntime", "where bit_cast", "refused", "no kernel for booleans", when("bool")),
    *differ("onnxruntime", "celu", "refused", "ONNX's Celu is of float32 only, before opset 28", when("float16")),
    *differ(
        "onnxruntime",
        "shrink",
        "value",
        "its double kernel computes in float32",
        when("float64"),
        error=1e-6,
    ),
    *differ(
        "onnxruntime",
        "reduce_max reduce_min",
        "refused",
        "of booleans it fails where there are none",
        when("bool", empty=True),
    ),
    *differ("onnxruntime", "scatter_add", "refused", "ScatterND does not add in float16", when("float16")),
    *differ("onnxruntime", "einsum", "refused", "its Einsum divides by zero, and the process dies", when(empty=True)),
    *differ("onnxruntime", "einsum", "oracle", "its Einsum does not broadcast ...", check="exact"),
    *differ(
        "onnxruntime",
        CONVS_TRANSPOSED,
        "refused",
        "ConvTranspose wants an output padding below the stride",
        when("float32 float16", strides=lambda s: set(s) == {1}, output_padding=any),
    ),
    *differ(
        "onnxruntime",
        "matmul_integer",
        "refused",
        "one zero point for all rows",
        lambda case: shape_at(case, 2) == (2,),
    ),
    *differ(
        "onnxruntime", "qlinear_matmul", "refused", "one scale for all rows", lambda case: shape_at(case, 1) == (2,)
    ),
    *differ(
        "onnxruntime",
        "conv_integer",
        "refused",
        "one zero point for all channels",
        lambda case: shape_at(case, 3) == (2,),
    ),
    *differ(
        "onnxruntime",
        "quantize_linear",
        "value",
        "its float16 kernel makes the smallest integer, not the largest, of +Inf",
        when("float16", special=True),
    ),
    *differ(
        "onnxruntime",
        "dft stft",
        "value",
        "lengths that are no powers of two go through Bluestein's chirps, which round more often",
        when("float32 float64"),
        at_most=4.0,
    ),
    *differ(
        "onnxruntime",
        "dft",
        "value",
        "the same, in the rule of the inverse",
        when("float32"),
        at_most=4.0,
        check="gradient",
    ),
    *differ(
        "onnxruntime", "dft", "value", "the inverse divides by a float32", when("float64", inverse=True), error=1e-7
    ),
    *differ(
        "onnxruntime",
        "hamming_window blackman_window",
        "value",
        "its coefficients are float32, whatever is asked for",
        when(output_datatype=np.dtype("float64")),
        error=3e-8,
    ),
    *differ(
        "onnxruntime",
        "hann_window hamming_window blackman_window",
        "refused",
        "no float16 windows",
        when(output_datatype=np.dtype("float16")),
    ),
    *differ("onnxruntime", "split", "refused", "Split leaves no chunk empty", when(num_outputs=3)),
    *differ("onnxruntime", "slice", "refused", "Slice takes no scalars", when(starts=())),
    *differ("onnxruntime", "pad", "refused", "Pad takes no scalars", when(pads=())),
    *differ("onnxruntime", "group_norm", "refused", "GroupNormalization fails on empty tensors", when(empty=True)),
    # -- JAX
    *differ(
        "jax",
        "div",
        "value",
        "XLA takes the reciprocal of a divisor before it is broadcast, and multiplies: rounded twice",
        when("float32 float64"),
        error=1e-6,
    ),
    # Not steady, for only a thorough run has it.
    *differ("jax", "div", "value", "the same, in float16", when("float16"), error=5e-3, steady=False),
    *differ(
        "jax",
        "gelu",
        "value",
        "0.5 * (1 + tanh) cancels in the left tail",
        when("float32 float64", special=True, approximate="tanh"),
        error=1e-7,
    ),
    *differ(
        "jax",
        "gelu",
        "value",
        "its erfc is off by 1e-13 of a value of 1e-196",
        when("float64", special=True, approximate="none"),
        error=1e-22,
    ),
    *differ(
        "jax",
        "depthwise_conv2d",
        "nan",
        "in float64 XLA convolves all channels, with zeros between the groups: the NaN of one gets into the others",
        when("float64", special=True),
    ),
    *differ(
        "jax",
        "average_pool1d average_pool2d average_pool3d",
        "refused",
        "it does not differentiate sums over dilated windows",
        when(dilations=above_one),
        check="forward gradient",
    ),
    *differ(
        "jax",
        "sinh cosh",
        "value",
        "XLA takes exp(x - log 2), whose argument is rounded: of 30, to a millionth",
        when("float32 float64", special=True),
        at_most=2.0,
    ),
    # Not steady, for only a thorough run has matrices that are large enough.
    *differ("jax", "det", "refused", "no factorisation in float16", when("float16"), steady=False),
    *differ(
        "jax",
        "scatter_elements scatter_nd",
        "refused",
        "JAX differentiates products at places that are known to be named once only",
        when(reduction="mul"),
        check="gradient",
    ),
    *differ(
        "jax",
        "resize",
        "refused",
        "it takes the nearest element by one rule, has zeros for what lies outside, and two cubic kernels",
        check="forward gradient",
    ),
    *differ(
        "jax",
        "grid_sample",
        "refused",
        "map_coordinates interpolates linearly at most",
        when(mode="cubic"),
        check="forward gradient",
    ),
]


def expected(check: str, backend: str, op: str, version: str) -> list[Expected]:
    """The rows for one check of one operator on one backend at a version."""
    return [
        row
        for row in EXPECTED
        if (row.check, row.backend) == (check, backend)
        and row.op in (op, "*")
        and (row.versions is None or version.partition("+")[0] in SpecifierSet(row.versions))
    ]
