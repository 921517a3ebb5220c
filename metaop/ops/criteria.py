"""Further losses: likelihoods, margins, and two more distances. What holds for :mod:`metaop.ops.loss` holds here."""

import math

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import Domain, Draws, integers, positive, reals
from metaop.ops.loss import Reduction, per_loss, reduced, reduced_type, same_shape, without
from metaop.ops.rules import require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import FLOATING, INDEX, TensorType

_NAMES = ("prediction", "target")


def _check_positive(**numbers):
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            raise AttributeValueError(f"{name} must be a finite number > 0; got {number}")


def _alike(tensors):
    """The shape that all tensors, given as (name, type), have in common."""
    (first_name, first), *others = tensors
    shape = first.shape
    for name, tensor in others:
        shape = same_shape(TensorType(first.dtype, shape), tensor, (first_name, name))
    return shape


def _spread_gradient(m, g, x, reduction):
    return per_loss(m, g, m.shape(x), reduction)


def _alike_samples(op, *names, **attrs):
    """Samples and rejects of a loss of tensors of one shape; ``attrs`` are non-default ones."""

    @op.samples
    def alike(draw):
        yield draw(**dict.fromkeys(names, (2, 3)))
        yield draw(**dict.fromkeys(names, (2, 3)), reduction="sum")
        yield draw(**dict.fromkeys(names, (2, 2, 3)), reduction="none")
        yield draw(**dict.fromkeys(names, (2, 3)), **attrs)
        yield draw(**dict.fromkeys(names, (1, 1)), **attrs, reduction="none")

    @op.rejects
    def unlike(reject):
        good = dict.fromkeys(names, "float32[2, 3]")
        yield reject(**{**good, names[-1]: "float32[2, 4]"}, message=f"{names[-1]} must have the shape of")
        yield reject(**{**good, names[-1]: "float32[3]"}, message=f"{names[-1]} must have the shape of")
        yield reject(**{**good, names[-1]: "float64[2, 3]"}, message="one dtype")
        yield reject(**good, reduction="average", message="'mean' or 'sum' or 'none'")


# -- likelihoods ----------------------------------------------------------------------------------------------------


def _nll_rule(prediction, target, weight=None, *, ignore_index, reduction):
    require_rank("prediction ([N, C] or [N, C, d1, ...])", prediction, 2)
    require_rank("target ([N] or [N, d1, ...])", target, 1)
    if weight is not None:
        require_rank("weight ([C])", weight, 1, 1)
        if prediction.shape is not None and weight.shape is not None:
            unify_size(prediction.shape[1], weight.shape[0], "weight and axis 1 of prediction")
    labels = TensorType(prediction.dtype, without(prediction.shape, 1))
    shape = same_shape(labels, target, ("prediction without its axis 1", "target"))
    return reduced_type(prediction.dtype, shape, reduction)


@meta_op(
    rule=_nll_rule,
    dtypes=FLOATING,
    also={"target": INDEX},
    domain={
        "prediction": reals(-3.0, -0.1),
        "target": Domain(low=0, spread=(0.0, 1.0), text="class labels, from 0"),
        "weight": positive(),
    },
)
def nll_loss(prediction, target, weight=None, *, ignore_index: int | None = None, reduction: Reduction = "mean"):
    """``-prediction`` at the target's class, times the weight of that class: log-probabilities ``[N, C, ...]``,
    integer labels ``[N, ...]``, ``weight`` ``[C]``.

    Labels equal to ``ignore_index`` cost nothing and count for nothing; the mean is over the weights of the others.
    """
    classes = prediction.shape[1]
    kept = np.ones(target.shape, bool) if ignore_index is None else target != ignore_index
    outside = kept & ((target < 0) | (target >= classes))
    if outside.any():
        raise IndexError(
            f"target holds the label {target[outside].flat[0]}; with {classes} classes it is 0 to {classes - 1}"
        )
    labels = np.where(kept, target, 0).astype(np.int64)
    picked = np.take_along_axis(prediction, np.expand_dims(labels, 1), axis=1).squeeze(1)
    each = np.ones(classes, prediction.dtype)[labels] if weight is None else weight[labels]
    losses = np.where(kept, -picked * each, 0)
    if reduction != "mean":
        return reduced(losses, prediction, reduction)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sum(losses) / np.sum(np.where(kept, each, 0)), prediction.dtype)


@nll_loss.vjp
def nll_loss_vjp(m, g, y, prediction, target, weight=None, *, ignore_index, reduction):
    shape = m.shape(prediction)
    beside = (-1, *(1,) * (len(shape) - 2))
    row = m.unsqueeze(target, axes=(1,))
    classes = m.constant(np.arange(shape[1]).reshape(beside), m.dtype(target))
    chosen = m.cast(m.equal(row, classes), to=m.dtype(prediction))
    if ignore_index is not None:
        kept = m.not_equal(row, m.constant(ignore_index, m.dtype(target)))
        chosen = m.multiply(chosen, m.cast(kept, to=m.dtype(prediction)))
    weights = chosen if weight is None else m.multiply(chosen, m.reshape(weight, shape=beside))
    if reduction == "none":
        g = m.unsqueeze(g, axes=(1,))
    elif reduction == "mean":
        g = m.div(g, m.reduce_sum(weights))
    found = (m.negative(m.multiply(g, weights)), None)
    if weight is None:
        return found
    inner = m.negative(m.multiply(prediction, chosen))
    if reduction == "mean":
        inner = m.subtract(inner, m.multiply(y, chosen))
    return (*found, m.reduce_sum(m.multiply(g, inner), axes=(0, *range(2, len(shape)))))


@nll_loss.samples
def nll_loss_samples(draw):
    labels = Draws(integers(0, 3), (4,))
    for reduction in ("mean", "sum", "none"):
        yield draw(prediction=(4, 3), target=labels, reduction=reduction)
        yield draw(prediction=(4, 3), target=labels, weight=(3,), reduction=reduction)
        yield draw(prediction=(4, 3), target=[0, 2, 1, 2], weight=(3,), ignore_index=2, reduction=reduction)
    yield draw(prediction=(2, 3, 4), target=[[0, 1, 2, -1], [2, -1, 0, 0]], ignore_index=-1)
    yield draw(prediction=(2, 5, 1, 2), target=Draws(integers(0, 5), (2, 1, 2)), weight=(5,), reduction="none")
    yield draw(prediction=(1, 2), target=[1])
    yield draw(prediction=[[0.0, -np.inf], [np.nan, -1.0]], target=[1, 1], reduction="none", special=True)


@nll_loss.rejects
def nll_loss_rejects(reject):
    good = {"prediction": "float32[4, 3]", "target": "int64[4]"}
    yield reject(prediction="float32[3]", target="int64[]", message="prediction ([N, C]")
    yield reject(**{**good, "target": "int64[5]"}, message="target must have the shape of prediction without")
    yield reject(**{**good, "target": "float32[4]"}, message="takes int32 or int64")
    yield reject(**good, weight="float32[4]", message="weight and axis 1 of prediction")
    yield reject(**good, weight="float32[3, 1]", message="weight ([C]) must have rank 1")
    yield reject(**good, reduction="average", message="'mean' or 'sum' or 'none'")


def _poisson_rule(prediction, target, *, log_input, full, epsilon, reduction):
    _check_positive(epsilon=epsilon)
    return reduced_type(prediction.dtype, same_shape(prediction, target), reduction)


@meta_op(rule=_poisson_rule, dtypes=FLOATING, domain={"prediction": positive(0.1, 2.0), "target": positive(0.1, 3.0)})
def poisson_nll(
    prediction,
    target,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: Reduction = "mean",
):
    """Poisson's negative log-likelihood of counts: ``exp(prediction) - target * prediction``, where the prediction is
    the logarithm of a rate; ``prediction - target * log(prediction + epsilon)`` without ``log_input``.

    ``full`` adds Stirling's approximation of ``log(target!)`` to targets above 1.
    """
    if log_input:
        losses = np.exp(prediction) - target * prediction
    else:
        losses = prediction - target * np.log(prediction + epsilon)
    if full:
        above = np.maximum(target, 1)
        stirling = above * np.log(above) - above + 0.5 * np.log(2 * np.pi * above)
        losses = losses + np.where(target > 1, stirling, 0)
    return reduced(losses, prediction, reduction)


@poisson_nll.vjp
def poisson_nll_vjp(m, g, y, prediction, target, *, log_input, full, epsilon, reduction):
    g = _spread_gradient(m, g, prediction, reduction)
    if log_input:
        slope, pull = m.subtract(m.exp(prediction), target), m.negative(prediction)
    else:
        rate = m.add(prediction, epsilon)
        slope, pull = m.subtract(1.0, m.div(target, rate)), m.negative(m.log(rate))
    if full:
        steep = m.add(m.log(target), m.div(0.5, target))
        pull = m.add(pull, m.where(m.greater(target, 1.0), steep, m.zeros_like(steep)))
    return m.multiply(g, slope), m.multiply(g, pull)


@poisson_nll.samples
def poisson_nll_samples(draw):
    yield draw(prediction=(2, 3), target=(2, 3), full=True)
    yield draw(prediction=(2, 3), target=(2, 3), log_input=False, full=True, reduction="none")


@poisson_nll.rejects
def poisson_nll_rejects(reject):
    yield reject(prediction="float32[2]", target="float32[2]", epsilon=0.0, message="epsilon must be")


_alike_samples(poisson_nll, *_NAMES, log_input=False, epsilon=0.01)


def _gaussian_rule(prediction, target, var, *, full, epsilon, reduction):
    _check_positive(epsilon=epsilon)
    shape = _alike([("prediction", prediction), ("target", target), ("var", var)])
    return reduced_type(prediction.dtype, shape, reduction)


@meta_op(rule=_gaussian_rule, dtypes=FLOATING, domain={"var": positive(0.5, 3.0)})
def gaussian_nll(prediction, target, var, *, full: bool = False, epsilon: float = 1e-6, reduction: Reduction = "mean"):
    """The negative log-likelihood of normally distributed targets: half of ``log(var) + (prediction - target)**2 /
    var``, with ``var`` held above ``epsilon``; ``full`` adds ``log(2 * pi) / 2``.
    """
    spread = np.maximum(var, var.dtype.type(epsilon))
    losses = 0.5 * (np.log(spread) + np.square(prediction - target) / spread)
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, prediction, reduction)


@gaussian_nll.vjp
def gaussian_nll_vjp(m, g, y, prediction, target, var, *, full, epsilon, reduction):
    g = _spread_gradient(m, g, prediction, reduction)
    spread = m.maximum(var, epsilon)
    ratio = m.div(m.subtract(prediction, target), spread)
    pull = m.multiply(g, ratio)
    slope = m.multiply(m.subtract(m.div(1.0, spread), m.square(ratio)), 0.5)
    slope = m.where(m.greater(var, epsilon), slope, m.zeros_like(slope))
    return pull, m.negative(pull), m.multiply(g, slope)


@gaussian_nll.rejects
def gaussian_nll_rejects(reject):
    good = dict.fromkeys(("prediction", "target", "var"), "float32[2]")
    yield reject(**good, epsilon=-1.0, message="epsilon must be")


_alike_samples(gaussian_nll, *_NAMES, "var", full=True, epsilon=0.01)


# -- distances ------------------------------------------------------------------------------------------------------


def _smooth_l1_rule(prediction, target, *, beta, reduction):
    _check_positive(beta=beta)
    return reduced_type(prediction.dtype, same_shape(prediction, target), reduction)


@meta_op(rule=_smooth_l1_rule, dtypes=FLOATING)
def smooth_l1(prediction, target, *, beta: float = 1.0, reduction: Reduction = "mean"):
    """The distance, less ``beta / 2``, beyond ``beta``; up to there its square over ``2 * beta``.

    This is :func:`huber` with ``delta=beta``, divided by ``beta``: its slope far out is 1.
    """
    distance = np.abs(prediction - target)
    with np.errstate(over="ignore"):
        losses = np.where(distance < beta, np.square(distance) / (2 * beta), distance - 0.5 * beta)
    return reduced(losses, prediction, reduction)


@smooth_l1.vjp
def smooth_l1_vjp(m, g, y, prediction, target, *, beta, reduction):
    slope = m.clip(m.div(m.subtract(prediction, target), beta), min=-1.0, max=1.0)
    g = m.multiply(slope, _spread_gradient(m, g, prediction, reduction))
    return g, m.negative(g)


@smooth_l1.samples
def smooth_l1_samples(draw):
    yield draw(prediction=[0.0, 1.0, -3.0], target=[0.0, 0.0, 0.0], reduction="none", special=True)
    yield draw(prediction=[np.nan, np.inf, -np.inf], target=[1.0, 1.0, np.inf], reduction="none", special=True)


@smooth_l1.rejects
def smooth_l1_rejects(reject):
    yield reject(prediction="float32[2]", target="float32[2]", beta=0.0, message="beta must be")


_alike_samples(smooth_l1, *_NAMES, beta=0.5)


def _two_rule(prediction, target, *, reduction):
    return reduced_type(prediction.dtype, same_shape(prediction, target), reduction)


@meta_op(rule=_two_rule, dtypes=FLOATING)
def log_cosh(prediction, target, *, reduction: Reduction = "mean"):
    """``log(cosh(prediction - target))``: about half the square of a small distance, the distance itself of a large."""
    distance = np.abs(prediction - target)
    return reduced(distance + np.log1p(np.exp(-2 * distance)) - math.log(2), prediction, reduction)


@log_cosh.vjp
def log_cosh_vjp(m, g, y, prediction, target, *, reduction):
    g = m.multiply(m.tanh(m.subtract(prediction, target)), _spread_gradient(m, g, prediction, reduction))
    return g, m.negative(g)


@log_cosh.samples
def log_cosh_samples(draw):
    yield draw(prediction=[100.0, -100.0, np.inf, np.nan], target=[0.0, 0.0, 0.0, 1.0], reduction="none", special=True)


_alike_samples(log_cosh, *_NAMES)


# -- margins --------------------------------------------------------------------------------------------------------

_SIGNS = Domain(low=-1.0, high=1.0, spread=(-1.0, 1.0), avoid=(0.0,), text="-1 or 1")


def _ranking_rule(x1, x2, target, *, margin, reduction):
    shape = _alike([("x1", x1), ("x2", x2), ("target", target)])
    return reduced_type(x1.dtype, shape, reduction)


@meta_op(rule=_ranking_rule, dtypes=FLOATING, domain={"target": _SIGNS})
def margin_ranking(x1, x2, target, *, margin: float = 0.0, reduction: Reduction = "mean"):
    """``max(0, margin - target * (x1 - x2))``: where the target is 1, ``x1`` should rank above ``x2``; below for -1."""
    return reduced(np.maximum(margin - target * (x1 - x2), 0), x1, reduction)


@margin_ranking.vjp
def margin_ranking_vjp(m, g, y, x1, x2, target, *, margin, reduction):
    g = _spread_gradient(m, g, x1, reduction)
    ahead = m.subtract(x1, x2)
    g = m.where(m.less(m.multiply(target, ahead), margin), g, m.zeros_like(g))
    pull = m.multiply(g, target)
    return m.negative(pull), pull, m.negative(m.multiply(g, ahead))


@margin_ranking.samples
def margin_ranking_samples(draw):
    signs = np.array([[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]])
    yield draw(x1=(2, 3), x2=(2, 3), target=signs, margin=0.3)


_alike_samples(margin_ranking, "x1", "x2", "target", margin=0.5)


def _triplet_rule(anchor, positive, negative, *, margin, p, epsilon, swap, reduction):
    _check_positive(margin=margin, p=p)
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise AttributeValueError(f"epsilon must be a finite number >= 0; got {epsilon}")
    shape = _alike([("anchor", anchor), ("positive", positive), ("negative", negative)])
    if shape == ():
        raise ShapeError("anchor, positive and negative are vectors along their last axis; got scalars")
    return reduced_type(anchor.dtype, None if shape is None else shape[:-1], reduction)


def _distance(x, y, p, epsilon):
    return np.sum(np.abs(x - y + x.dtype.type(epsilon)) ** p, axis=-1) ** (1 / p)


@meta_op(rule=_triplet_rule, dtypes=FLOATING)
def triplet_margin(
    anchor,
    positive,
    negative,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: Reduction = "mean",
):
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` of vectors along the last axis.

    ``d`` is the ``p``-norm of the difference plus ``epsilon``. With ``swap`` the negative is held against whichever of
    anchor and positive it is nearer to.
    """
    near, far = _distance(anchor, positive, p, epsilon), _distance(anchor, negative, p, epsilon)
    if swap:
        far = np.minimum(far, _distance(positive, negative, p, epsilon))
    return reduced(np.maximum(margin + near - far, 0), anchor, reduction)


@triplet_margin.vjp
def triplet_margin_vjp(m, g, y, anchor, positive, negative, *, margin, p, epsilon, swap, reduction):
    def apart(a, b):
        """The distance, and its slope in ``a``; both with an axis of size 1 or more at the end."""
        u = m.add(m.subtract(a, b), epsilon)
        d = m.pow(m.reduce_sum(m.pow(m.abs(u), p), axes=(-1,), keepdims=True), 1 / p)
        return d, m.div(m.multiply(m.sign(u), m.pow(m.abs(u), p - 1)), m.pow(d, p - 1))

    near, near_slope = apart(anchor, positive)
    far, far_slope = apart(anchor, negative)
    g = m.unsqueeze(per_loss(m, g, m.shape(anchor)[:-1], reduction), axes=(len(m.shape(anchor)) - 1,))
    swapped = None
    if swap:
        other, other_slope = apart(positive, negative)
        swapped = m.less(other, far)
        far = m.minimum(far, other)
    g = m.where(m.greater(m.subtract(m.add(near, margin), far), 0.0), g, m.zeros_like(g))
    toward = m.multiply(g, near_slope)
    if not swap:
        away = m.multiply(g, far_slope)
        return m.subtract(toward, away), m.negative(toward), away
    nothing = m.zeros_like(toward)
    from_anchor = m.where(swapped, nothing, m.multiply(g, far_slope))
    from_positive = m.where(swapped, m.multiply(g, other_slope), nothing)
    return (
        m.subtract(toward, from_anchor),
        m.negative(m.add(toward, from_positive)),
        m.add(from_anchor, from_positive),
    )


@triplet_margin.samples
def triplet_margin_samples(draw):
    three = ("anchor", "positive", "negative")
    yield draw(**dict.fromkeys(three, (5, 3)), swap=True)
    yield draw(**dict.fromkeys(three, (5, 3)), swap=True, p=1.0, reduction="none")
    yield draw(**dict.fromkeys(three, (2, 3)), p=3.0)
    yield draw(**dict.fromkeys(three, (4,)))


@triplet_margin.rejects
def triplet_margin_rejects(reject):
    good = dict.fromkeys(("anchor", "positive", "negative"), "float32[2, 3]")
    yield reject(**good, margin=0.0, message="margin must be")
    yield reject(**good, p=-1.0, message="p must be")
    yield reject(**good, epsilon=-1.0, message="epsilon must be")
    yield reject(**dict.fromkeys(good, "float32[]"), message="got scalars")


_alike_samples(triplet_margin, "anchor", "positive", "negative", margin=2.0, epsilon=1e-3)
