"""Losses: two tensors of one shape in, one number (or one per element) out, in the dtype of the prediction.

Prediction and target never broadcast: a target of shape ``[N]`` against a prediction of shape ``[N, 1]`` is nearly
always a mistake, and in several frameworks a silent one. ``reduction`` is over all that the loss itself has not summed.
"""

import math
from typing import Literal

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain, Draws, integers, reals, simplex, unit
from metaop.ops.rules import normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, INDEX, TensorType

Reduction = Literal["mean", "sum", "none"]

# -- what all of them share -----------------------------------------------------------------------------------------


def same_shape(first, second, names=("prediction", "target")):
    """The shape that two tensors have in common; an unknown size of one takes the other's."""
    if first.shape is None or second.shape is None:
        return second.shape if first.shape is None else first.shape
    if len(first.shape) != len(second.shape):
        raise ShapeError(f"{names[1]} must have the shape of {names[0]}; got {second} for {first}")
    what = f"{names[1]} must have the shape of {names[0]}; got {second} for {first}, axis"
    return tuple(
        unify_size(a, b, f"{what} {i}") for i, (a, b) in enumerate(zip(first.shape, second.shape, strict=True))
    )


def without(shape, axis):
    return None if shape is None else shape[:axis] + shape[axis + 1 :]


def reduced_type(dtype, shape, reduction):
    return TensorType(dtype, shape if reduction == "none" else ())


def _elementwise_loss(prediction, target, *, reduction, **attrs):
    return reduced_type(prediction.dtype, same_shape(prediction, target), reduction)


def _huber_rule(prediction, target, *, delta, reduction):
    if not (math.isfinite(delta) and delta > 0):
        raise AttributeValueError(f"delta must be a finite number > 0; got {delta}")
    return _elementwise_loss(prediction, target, reduction=reduction)


def _along_axis(shape, axis):
    """The shape without the axis along which the classes, or the vectors, lie."""
    return None if shape is None else without(shape, normalise_axis(axis, len(shape)))


def _classes_loss(prediction, target, *, axis, reduction):
    return reduced_type(prediction.dtype, _along_axis(same_shape(prediction, target), axis), reduction)


def _sparse_rule(prediction, target, *, reduction):
    require_rank("prediction ([N, C] or [N, C, d1, ...])", prediction, 2)
    require_rank("target ([N] or [N, d1, ...])", target, 1)
    labels = TensorType(prediction.dtype, without(prediction.shape, 1))
    return reduced_type(
        prediction.dtype, same_shape(labels, target, ("prediction without its axis 1", "target")), reduction
    )


def _cosine_rule(x, y, *, axis, epsilon):
    if not epsilon >= 0:
        raise AttributeValueError(f"epsilon must be a number >= 0; got {epsilon}")
    return TensorType(x.dtype, _along_axis(same_shape(x, y, ("x", "y")), axis))


def reduced(losses, like, reduction):
    losses = np.asarray(losses)
    if reduction == "sum":
        losses = np.sum(losses)
    elif reduction == "mean":
        losses = np.mean(losses) if losses.size else np.nan
    return np.asarray(losses, dtype=like.dtype)


def _times_log(factor, logarithm):
    """The product, with 0 * log 0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where((factor == 0) & np.isneginf(logarithm), np.zeros_like(factor), factor * logarithm)


def _log(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x)


def _log_softmax(x, axis):
    """Shifted by the largest logit, so that no exponential overflows."""
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shifted = x - np.where(np.isfinite(largest), largest, np.zeros_like(largest))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def per_loss(m, g, shape, reduction):
    """The incoming gradient of each single loss, of which there are ``shape``."""
    if reduction == "mean":
        g = m.div(g, float(max(math.prod(shape), 1)))
    return g if m.shape(g) == tuple(shape) else m.expand(g, shape=tuple(shape))


def _per_class(m, g, prediction, axis, reduction):
    """The incoming gradient of each single loss, with an axis of size 1 where the classes lie."""
    shape = m.shape(prediction)
    axis = axis % len(shape)
    return m.unsqueeze(per_loss(m, g, without(shape, axis), reduction), axes=(axis,))


def _common_samples(op, names=("prediction", "target"), scalar=True):
    first, second = names

    @op.samples
    def common(draw):
        yield draw(**{first: (2, 3), second: (2, 3)})
        yield draw(**{first: (2, 3), second: (2, 3)}, reduction="sum")
        yield draw(**{first: (2, 2, 3), second: (2, 2, 3)}, reduction="none")
        yield draw(**{first: (1, 1), second: (1, 1)})
        if scalar:
            yield draw(**{first: (), second: ()})
            yield draw(**{first: (), second: ()}, reduction="none")


def _common_rejects(op):
    @op.rejects
    def common(reject):
        yield reject(
            prediction="float32[2, 3]", target="float32[2, 4]", message="target must have the shape of prediction"
        )
        yield reject(
            prediction="float32[2, 1]", target="float32[2]", message="target must have the shape of prediction"
        )
        yield reject(prediction="float32[2]", target="float32[]", message="target must have the shape of prediction")
        yield reject(prediction="float32[2]", target="float64[2]", message="one dtype")
        yield reject(prediction="int64[2]", target="int64[2]", message="takes")
        yield reject(
            prediction="float32[2]", target="float32[2]", reduction="average", message="'mean' or 'sum' or 'none'"
        )


def _class_rejects(op):
    @op.rejects
    def classes(reject):
        yield reject(prediction="float32[2, ?]", target="float32[2, 3]", axis=2, message="axis 2 is out of range")
        yield reject(prediction="float32[]", target="float32[]", message="axis -1 is out of range")


# -- regression -----------------------------------------------------------------------------------------------------


@meta_op(rule=_elementwise_loss, dtypes=FLOATING)
def mse(prediction, target, *, reduction: Reduction = "mean"):
    """Squared error, ``(prediction - target) ** 2``."""
    return reduced(np.square(prediction - target), prediction, reduction)


@mse.vjp
def mse_vjp(m, g, y, prediction, target, *, reduction):
    g = per_loss(m, g, m.shape(prediction), reduction)
    g = m.multiply(m.multiply(m.subtract(prediction, target), 2.0), g)
    return g, m.negative(g)


@mse.samples
def mse_samples(draw):
    yield draw(
        prediction=[np.nan, np.inf, -np.inf, 1.0], target=[1.0, 1.0, np.inf, 1.0], reduction="none", special=True
    )


_common_samples(mse)
_common_rejects(mse)


@meta_op(rule=_elementwise_loss, dtypes=FLOATING)
def mae(prediction, target, *, reduction: Reduction = "mean"):
    """Absolute error, ``|prediction - target|``; the gradient is 0 where they are equal."""
    return reduced(np.abs(prediction - target), prediction, reduction)


@mae.vjp
def mae_vjp(m, g, y, prediction, target, *, reduction):
    g = m.multiply(m.sign(m.subtract(prediction, target)), per_loss(m, g, m.shape(prediction), reduction))
    return g, m.negative(g)


@mae.samples
def mae_samples(draw):
    yield draw(
        prediction=[np.nan, np.inf, -np.inf, 1.0], target=[1.0, 1.0, np.inf, 1.0], reduction="none", special=True
    )


_common_samples(mae)
_common_rejects(mae)


@meta_op(rule=_huber_rule, dtypes=FLOATING)
def huber(prediction, target, *, delta: float = 1.0, reduction: Reduction = "mean"):
    """Squared error, halved, up to a distance of ``delta``; linear beyond, ``delta * (distance - delta / 2)``."""
    distance = np.abs(prediction - target)
    # An infinite or huge distance takes the linear branch; its square is computed but not used.
    with np.errstate(over="ignore"):
        losses = np.where(distance <= delta, 0.5 * np.square(distance), delta * (distance - 0.5 * delta))
    return reduced(losses, prediction, reduction)


@huber.vjp
def huber_vjp(m, g, y, prediction, target, *, delta, reduction):
    slope = m.clip(m.subtract(prediction, target), min=-delta, max=delta)
    g = m.multiply(slope, per_loss(m, g, m.shape(prediction), reduction))
    return g, m.negative(g)


@huber.samples
def huber_samples(draw):
    yield draw(prediction=(3, 4), target=(3, 4), delta=0.5)
    yield draw(prediction=(3, 4), target=(3, 4), delta=1.75, reduction="none")
    yield draw(prediction=[0.0, 1.0, -3.0], target=[0.0, 0.0, 0.0], reduction="none", special=True)
    yield draw(prediction=[np.nan, np.inf, -np.inf], target=[1.0, 1.0, np.inf], reduction="none", special=True)


@huber.rejects
def huber_rejects(reject):
    yield reject(prediction="float32[2]", target="float32[2]", delta=0.0, message="delta must be")
    yield reject(prediction="float32[...]", target="float32[2]", delta=-1.0, message="delta must be")


_common_samples(huber)
_common_rejects(huber)


# -- two classes ----------------------------------------------------------------------------------------------------


@meta_op(
    rule=_elementwise_loss,
    dtypes=FLOATING,
    domain={
        "prediction": reals(avoid=[-1.0, 1.0]),
        "target": Domain(low=-1.0, high=1.0, spread=(-1.0, 1.0), avoid=(0.0,), text="-1 or 1"),
    },
)
def hinge(prediction, target, *, reduction: Reduction = "mean"):
    """``max(0, 1 - target * prediction)``, with targets -1 and 1."""
    return reduced(np.maximum(1 - target * prediction, 0), prediction, reduction)


@hinge.vjp
def hinge_vjp(m, g, y, prediction, target, *, reduction):
    g = m.negative(per_loss(m, g, m.shape(prediction), reduction))
    inside = m.less(m.multiply(target, prediction), 1.0)
    zero = m.zeros_like(prediction)
    return m.where(inside, m.multiply(g, target), zero), m.where(inside, m.multiply(g, prediction), zero)


@hinge.samples
def hinge_samples(draw):
    signs = np.array([[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]])
    yield draw(prediction=(2, 3), target=signs)
    yield draw(prediction=(2, 3), target=signs, reduction="sum")
    yield draw(prediction=(2, 3), target=signs, reduction="none")
    yield draw(prediction=(1, 1), target=[[-1.0]])
    yield draw(prediction=(), target=-1.0)
    yield draw(prediction=(), target=1.0, reduction="none")
    yield draw(
        prediction=[1.0, -1.0, np.nan, np.inf, -np.inf],
        target=[1.0, -1.0, 1.0, 1.0, 1.0],
        reduction="none",
        special=True,
    )


_common_rejects(hinge)


@meta_op(rule=_elementwise_loss, dtypes=FLOATING, domain={"prediction": unit(), "target": unit()})
def binary_cross_entropy(prediction, target, *, reduction: Reduction = "mean"):
    """``-(target * log(prediction) + (1 - target) * log(1 - prediction))`` of probabilities, with 0 * log 0 = 0.

    Nothing is clamped: a certain and wrong prediction costs infinity.
    """
    losses = -(_times_log(target, _log(prediction)) + _times_log(1 - target, _log(1 - prediction)))
    return reduced(losses, prediction, reduction)


@binary_cross_entropy.vjp
def binary_cross_entropy_vjp(m, g, y, prediction, target, *, reduction):
    g = per_loss(m, g, m.shape(prediction), reduction)
    rest = m.subtract(1.0, prediction)
    error = m.subtract(prediction, target)
    slope = m.where(m.equal(error, 0.0), m.zeros_like(error), m.div(error, m.multiply(prediction, rest)))
    return m.multiply(g, slope), m.multiply(g, m.subtract(m.log(rest), m.log(prediction)))


@binary_cross_entropy.samples
def binary_cross_entropy_samples(draw):
    yield draw(prediction=(2, 3), target=[[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    yield draw(prediction=[0.0, 1.0, 0.5], target=[0.0, 1.0, 1.0], reduction="none", special=True)
    yield draw(prediction=[0.0, 1.0], target=[1.0, 0.0], reduction="none", special=True)


_common_samples(binary_cross_entropy)
_common_rejects(binary_cross_entropy)


@meta_op(rule=_elementwise_loss, dtypes=FLOATING, domain={"target": unit()})
def binary_cross_entropy_with_logits(prediction, target, *, reduction: Reduction = "mean"):
    """The binary cross-entropy of ``sigmoid(prediction)``, computed from the logits without overflow."""
    with np.errstate(invalid="ignore"):
        losses = np.maximum(prediction, 0) - prediction * target + np.log1p(np.exp(-np.abs(prediction)))
    return reduced(losses, prediction, reduction)


@binary_cross_entropy_with_logits.vjp
def binary_cross_entropy_with_logits_vjp(m, g, y, prediction, target, *, reduction):
    g = per_loss(m, g, m.shape(prediction), reduction)
    return m.multiply(g, m.subtract(m.sigmoid(prediction), target)), m.negative(m.multiply(g, prediction))


@binary_cross_entropy_with_logits.samples
def binary_cross_entropy_with_logits_samples(draw):
    yield draw(prediction=(2, 3), target=[[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    yield draw(
        prediction=[100.0, -100.0, 1e4, -1e4, 0.0, np.nan],
        target=[0.0, 1.0, 1.0, 0.0, 0.5, 1.0],
        reduction="none",
        special=True,
    )


_common_samples(binary_cross_entropy_with_logits)
_common_rejects(binary_cross_entropy_with_logits)


# -- many classes ---------------------------------------------------------------------------------------------------

# Probabilities along axis 1, where the domain draws them along the last one.
_MIDDLE = np.array([[[0.2, 0.7], [0.5, 0.1], [0.3, 0.2]], [[0.1, 0.25], [0.1, 0.5], [0.8, 0.25]]])


@meta_op(rule=_classes_loss, dtypes=FLOATING, domain={"prediction": simplex(), "target": simplex()})
def categorical_cross_entropy(prediction, target, *, axis: int = -1, reduction: Reduction = "mean"):
    """``-sum(target * log(prediction))`` along ``axis``, of probabilities, with 0 * log 0 = 0."""
    return reduced(-np.sum(_times_log(target, _log(prediction)), axis=axis), prediction, reduction)


@categorical_cross_entropy.vjp
def categorical_cross_entropy_vjp(m, g, y, prediction, target, *, axis, reduction):
    g = m.negative(_per_class(m, g, prediction, axis, reduction))
    slope = m.where(m.equal(target, 0.0), m.zeros_like(target), m.div(target, prediction))
    return m.multiply(g, slope), m.multiply(g, m.log(prediction))


@categorical_cross_entropy.samples
def categorical_cross_entropy_samples(draw):
    yield draw(prediction=(4,), target=(4,))
    yield draw(prediction=(2, 3), target=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    yield draw(prediction=_MIDDLE, target=_MIDDLE[::-1], axis=1)
    yield draw(prediction=_MIDDLE, target=_MIDDLE[::-1], axis=-2, reduction="none")
    yield draw(prediction=[[0.0, 1.0], [1.0, 0.0]], target=[[0.0, 1.0], [0.0, 1.0]], reduction="none", special=True)


_common_samples(categorical_cross_entropy, scalar=False)
_common_rejects(categorical_cross_entropy)
_class_rejects(categorical_cross_entropy)


@meta_op(rule=_classes_loss, dtypes=FLOATING, domain={"target": simplex()})
def softmax_cross_entropy(prediction, target, *, axis: int = -1, reduction: Reduction = "mean"):
    """``-sum(target * log_softmax(prediction))`` along ``axis``: logits against probabilities."""
    losses = -np.sum(_times_log(target, _log_softmax(prediction, axis)), axis=axis)
    return reduced(losses, prediction, reduction)


@softmax_cross_entropy.vjp
def softmax_cross_entropy_vjp(m, g, y, prediction, target, *, axis, reduction):
    g = _per_class(m, g, prediction, axis, reduction)
    # The sum is 1 for probabilities; kept, so that the rule is the derivative everywhere.
    mass = m.reduce_sum(target, axes=(axis,), keepdims=True)
    slope = m.subtract(m.multiply(m.softmax(prediction, axis=axis), mass), target)
    return m.multiply(g, slope), m.negative(m.multiply(g, m.log_softmax(prediction, axis=axis)))


@softmax_cross_entropy.samples
def softmax_cross_entropy_samples(draw):
    yield draw(prediction=(4,), target=(4,))
    yield draw(prediction=(2, 3), target=[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    yield draw(prediction=(2, 3, 2), target=_MIDDLE, axis=1)
    yield draw(prediction=(2, 3, 2), target=_MIDDLE, axis=-2, reduction="none")
    onehot = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    yield draw(prediction=[[1e3, -1e3, 0.0], [1e3, -1e3, 0.0]], target=onehot, reduction="none", special=True)
    yield draw(prediction=[[-np.inf, 1.0, 2.0], [np.nan, 1.0, 2.0]], target=onehot, reduction="none", special=True)


_common_samples(softmax_cross_entropy, scalar=False)
_common_rejects(softmax_cross_entropy)
_class_rejects(softmax_cross_entropy)


@meta_op(
    rule=_sparse_rule,
    dtypes=FLOATING,
    also={"target": INDEX},
    domain={"target": Domain(low=0, spread=(0.0, 1.0), text="class labels, from 0")},
)
def sparse_softmax_cross_entropy(prediction, target, *, reduction: Reduction = "mean"):
    """``-log_softmax(prediction)`` at the target's class: logits ``[N, C, ...]``, integer labels ``[N, ...]``."""
    classes = prediction.shape[1]
    outside = (target < 0) | (target >= classes)
    if outside.any():
        raise IndexError(
            f"target holds the label {target[outside].flat[0]}; with {classes} classes it is 0 to {classes - 1}"
        )
    labels = np.expand_dims(target, 1).astype(np.int64)
    losses = -np.take_along_axis(_log_softmax(prediction, 1), labels, axis=1).squeeze(1)
    return reduced(losses, prediction, reduction)


@sparse_softmax_cross_entropy.vjp
def sparse_softmax_cross_entropy_vjp(m, g, y, prediction, target, *, reduction):
    g = _per_class(m, g, prediction, 1, reduction)
    shape = m.shape(prediction)
    classes = m.constant(np.arange(shape[1]).reshape(-1, *(1,) * (len(shape) - 2)), m.dtype(target))
    chosen = m.cast(m.equal(m.unsqueeze(target, axes=(1,)), classes), to=m.dtype(prediction))
    return m.multiply(g, m.subtract(m.softmax(prediction, axis=1), chosen)), None


@sparse_softmax_cross_entropy.samples
def sparse_softmax_cross_entropy_samples(draw):
    yield draw(prediction=(4, 3), target=Draws(integers(0, 3), (4,)))
    yield draw(prediction=(4, 3), target=Draws(integers(0, 3), (4,)), reduction="sum")
    yield draw(prediction=(4, 3), target=Draws(integers(0, 3), (4,)), reduction="none")
    yield draw(prediction=(2, 3, 4), target=Draws(integers(0, 3), (2, 4)))
    yield draw(prediction=(2, 5, 1, 2), target=Draws(integers(0, 5), (2, 1, 2)), reduction="none")
    yield draw(prediction=(1, 2), target=[1])
    yield draw(prediction=(1, 1), target=[0])
    yield draw(prediction=[[1e3, -1e3, 0.0], [-np.inf, 1.0, 2.0]], target=[1, 2], reduction="none", special=True)


@sparse_softmax_cross_entropy.rejects
def sparse_softmax_cross_entropy_rejects(reject):
    yield reject(prediction="float32[3]", target="int64[]", message="prediction ([N, C]")
    yield reject(prediction="float32[...]", target="int64[]", message="target ([N]")
    yield reject(
        prediction="float32[4, 3]", target="int64[5]", message="target must have the shape of prediction without"
    )
    yield reject(
        prediction="float32[4, 3]", target="int64[4, 3]", message="target must have the shape of prediction without"
    )
    yield reject(prediction="float32[4, 3]", target="float32[4]", message="takes int32 or int64")
    yield reject(prediction="int64[4, 3]", target="int64[4]", message="takes")


# -- distributions and directions -----------------------------------------------------------------------------------


@meta_op(rule=_elementwise_loss, dtypes=FLOATING, domain={"prediction": reals(-3.0, -0.1), "target": simplex()})
def kl_div(prediction, target, *, reduction: Reduction = "mean"):
    """``target * (log(target) - prediction)``, with log-probabilities as prediction; 0 where the target is 0."""
    with np.errstate(invalid="ignore"):
        losses = _times_log(target, _log(target)) - _times_log(target, prediction)
    return reduced(losses, prediction, reduction)


@kl_div.vjp
def kl_div_vjp(m, g, y, prediction, target, *, reduction):
    g = per_loss(m, g, m.shape(prediction), reduction)
    slope = m.add(m.subtract(m.log(target), prediction), 1.0)
    return m.negative(m.multiply(g, target)), m.multiply(g, slope)


@kl_div.samples
def kl_div_samples(draw):
    yield draw(prediction=[-1.0, -2.0, -0.5], target=[0.0, 0.0, 1.0], reduction="none", special=True)
    yield draw(prediction=[-np.inf, -np.inf, np.nan], target=[0.0, 1.0, 0.5], reduction="none", special=True)


_common_samples(kl_div)
_common_rejects(kl_div)


@meta_op(rule=_cosine_rule, dtypes=FLOATING)
def cosine_similarity(x, y, *, axis: int = -1, epsilon: float = 1e-8):
    """``sum(x * y) / max(|x| |y|, epsilon)`` along ``axis``; the other axes stay."""
    lengths = np.sqrt(np.sum(np.square(x), axis=axis)) * np.sqrt(np.sum(np.square(y), axis=axis))
    with np.errstate(invalid="ignore", divide="ignore"):
        similarity = np.sum(x * y, axis=axis) / np.maximum(lengths, x.dtype.type(epsilon))
    return np.asarray(similarity, dtype=x.dtype)


@cosine_similarity.vjp
def cosine_similarity_vjp(m, g, y, x, other, *, axis, epsilon):
    axes = (axis % len(m.shape(x)),)
    g, similarity = m.unsqueeze(g, axes=axes), m.unsqueeze(y, axes=axes)
    squares = [m.reduce_sum(m.square(v), axes=axes, keepdims=True) for v in (x, other)]
    lengths = m.multiply(m.sqrt(squares[0]), m.sqrt(squares[1]))
    divided = m.greater(lengths, epsilon)
    lengths = m.maximum(lengths, epsilon)

    def toward(v, square, w):
        # Below epsilon the divisor is a constant, and what moves it is not divided by a square that may be 0.
        turned = m.div(m.multiply(similarity, v), m.where(divided, square, m.add(m.zeros_like(square), 1.0)))
        turned = m.where(divided, turned, m.zeros_like(turned))
        return m.multiply(g, m.subtract(m.div(w, lengths), turned))

    return toward(x, squares[0], other), toward(other, squares[1], x)


@cosine_similarity.samples
def cosine_similarity_samples(draw):
    yield draw(x=(2, 3), y=(2, 3))
    yield draw(x=(2, 3, 4), y=(2, 3, 4), axis=1)
    yield draw(x=(2, 3, 4), y=(2, 3, 4), axis=-3)
    yield draw(x=(3,), y=(3,))
    yield draw(x=(2, 1), y=(2, 1), axis=0)
    yield draw(x=(2, 3), y=(2, 3), epsilon=100.0)
    yield draw(x=[[0.0, 0.0], [1.0, 1.0]], y=[[1.0, 2.0], [0.0, 0.0]], epsilon=0.5, special=True)
    yield draw(x=[[np.nan, 0.0], [np.inf, 1.0]], y=[[1.0, 2.0], [1.0, 2.0]], special=True)


@cosine_similarity.rejects
def cosine_similarity_rejects(reject):
    yield reject(x="float32[2, 3]", y="float32[2, 4]", message="y must have the shape of x")
    yield reject(x="float32[2, 3]", y="float32[3]", message="y must have the shape of x")
    yield reject(x="float32[2, 3]", y="float32[?, ?]", axis=-3, message="axis -3 is out of range")
    yield reject(x="float32[]", y="float32[]", message="axis -1 is out of range")
    yield reject(x="float32[2]", y="float32[2]", epsilon=-1.0, message="epsilon must be")
    yield reject(x="float32[2]", y="float64[2]", message="one dtype")
