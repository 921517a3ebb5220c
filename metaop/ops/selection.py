"""Selection: which elements there are in the result depends on their values, and mostly how many there are too."""

import numpy as np

from metaop.errors import AttributeValueError, ShapeError
from metaop.ops.domain import unit
from metaop.ops.rules import normalise_axis, require_rank, unify_size
from metaop.ops.spec import meta_op
from metaop.types import ANY, BOOL, NUMERIC, TensorType

INT64 = np.dtype("int64")
FLOAT32 = frozenset([np.dtype("float32")])


# -- a fixed number of elements ----------------------------------------------------------------------------------------


def top(x, *, k, axis, largest, sorted):
    if k < 0:
        raise AttributeValueError(f"k {k} must be 0 or more")
    if x.shape is None:
        return x, TensorType(INT64)
    axis = normalise_axis(axis, len(x.shape))
    if x.shape[axis] is not None and k > x.shape[axis]:
        raise ShapeError(f"k {k} is more than 'x' of type {x} has along axis {axis}")
    shape = x.shape[:axis] + (k,) + x.shape[axis + 1 :]
    return x.with_shape(shape), TensorType(INT64, shape)


@meta_op(rule=top, dtypes=NUMERIC, outputs=("values", "indices"))
def topk(x, *, k: int, axis: int = -1, largest: bool = True, sorted: bool = True):
    """The ``k`` largest (or smallest) elements along ``axis``, and their indices as int64.

    They come in order, from the most extreme one on, unless ``sorted`` is false: then any order is right. Of equal
    elements those with lower indices come first. Where NaN belongs is left open.
    """
    # Reversed before and after, so that equal elements, whose order a stable sort keeps, come in the right one.
    order = np.argsort(np.flip(x, axis) if largest else x, axis=axis, kind="stable")
    if largest:
        order = x.shape[axis] - 1 - np.flip(order, axis)
    order = np.take(order, np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


@topk.vjp
def topk_vjp(m, g, y, x, *, k, axis, largest, sorted):
    return (m.scatter_elements(m.zeros_like(x), y[1], g[0], axis=axis),)


@topk.samples
def topk_samples(draw):
    yield draw(x=(3, 4), k=3)
    yield draw(x=(3, 4), k=2, largest=False)
    yield draw(x=(4, 3, 2), k=2, axis=0)
    yield draw(x=(2, 5, 3), k=5, axis=-2, largest=False)
    yield draw(x=(2, 5), k=1, axis=1, sorted=False)
    yield draw(x=(4,), k=0)
    yield draw(x=(0, 3), k=2)
    yield draw(x=[[1.0, 3.0, 3.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0, 2.0]], k=4, special=True)
    yield draw(x=[[1.0, 3.0, 3.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0, 2.0]], k=4, largest=False, special=True)
    yield draw(x=[np.inf, -1.0, -np.inf, 2.0], k=3, special=True)


@topk.rejects
def topk_rejects(reject):
    yield reject(x="float32[3, 4]", k=5, message="k 5 is more than")
    yield reject(x="float32[3, 4]", k=-1, message="k -1")
    yield reject(x="float32[3, 4]", k=1, axis=2, message="axis 2 is out of range")
    yield reject(x="float32[]", k=1, message="axis -1 is out of range")
    yield reject(x="float32[3]", message="'k' is required")


# -- as many as there are ----------------------------------------------------------------------------------------------


def nonzero_type(x):
    return TensorType(INT64, (None if x.shape is None else len(x.shape), None))


@meta_op(rule=nonzero_type, dtypes=ANY, nondifferentiable="its values are integers", sizes_from_data=True)
def nonzero(x):
    """The indices of the elements that are not 0, in row-major order, as int64: one row for each axis of ``x``."""
    if x.ndim == 0:
        return np.zeros((0, int(x != 0)), np.int64)
    return np.stack(np.nonzero(x)).astype(np.int64)


@nonzero.samples
def nonzero_samples(draw):
    yield draw(x=[[1.0, 0.0], [1.0, 1.0]])
    yield draw(x=[0.0, 2.0, 0.0, -1.0])
    yield draw(x=[[[0.0, 2.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 3.0]]])
    yield draw(x=[0.0, 0.0])
    yield draw(x=(0, 3))
    yield draw(x=1.0)
    yield draw(x=[np.nan, -0.0, 0.0, np.inf], special=True)


@nonzero.rejects
def nonzero_rejects(reject):
    yield reject(x="float32[2]", axis=0, message="no attribute")


def compressed(x, condition, *, axis):
    require_rank("'condition'", condition, 1, 1)
    length = None if condition.shape is None else condition.shape[0]
    if axis is None:
        return x.with_shape((None,))
    if x.shape is None:
        return x
    axis = normalise_axis(axis, len(x.shape))
    if length is not None and x.shape[axis] is not None and length > x.shape[axis]:
        raise ShapeError(f"'condition' of type {condition} is longer than 'x' of type {x} along axis {axis}")
    return x.with_shape(x.shape[:axis] + (None,) + x.shape[axis + 1 :])


@meta_op(rule=compressed, dtypes=ANY, also={"condition": BOOL}, sizes_from_data=True)
def compress(x, condition, *, axis: int | None = None):
    """The slices of ``x`` along ``axis`` (``None``: its elements in row-major order) where ``condition`` is true.

    A ``condition`` that is too short leaves out the rest.
    """
    return np.compress(condition, x, axis=axis)


@compress.vjp
def compress_vjp(m, g, y, x, condition, *, axis):
    kept = m.reshape(m.nonzero(condition), shape=(-1,)) if 0 not in m.shape(g) else None
    if kept is None:
        return m.zeros_like(x), None
    shape = m.shape(x)
    if axis is None:
        return m.reshape(m.scatter_add(kept, g, size=int(np.prod(shape))), shape=shape), None
    return m.scatter_add(kept, g, axis=axis, size=shape[axis]), None


@compress.samples
def compress_samples(draw):
    yield draw(x=(3, 2), condition=[False, True, True], axis=0)
    yield draw(x=(3, 4), condition=[False, True], axis=1)
    yield draw(x=(3, 2), condition=[False, True, False, False, True])
    yield draw(x=(2, 3, 2), condition=[True, False, True], axis=-2)
    yield draw(x=(3, 2), condition=[False, False], axis=0)
    yield draw(x=(0, 2), condition=[True, False], axis=1)
    yield draw(x=[np.nan, -0.0, np.inf], condition=[True, True, False], special=True)


@compress.rejects
def compress_rejects(reject):
    yield reject(x="float32[3, 2]", condition="bool[4]", axis=0, message="is longer than 'x'")
    yield reject(x="float32[3, 2]", condition="bool[2, 2]", message="'condition' must have rank 1")
    yield reject(x="float32[3, 2]", condition="int64[2]", message="'condition' takes bool")
    yield reject(x="float32[3, 2]", condition="bool[2]", axis=2, message="axis 2 is out of range")


def distinct(x, *, axis, sorted):
    vector = TensorType(INT64, (None,))
    if axis is None:
        count = None if x.shape is None or None in x.shape else int(np.prod(x.shape))
        return x.with_shape((None,)), vector, TensorType(INT64, (count,)), vector
    if x.shape is None:
        return x, vector, vector, vector
    axis = normalise_axis(axis, len(x.shape))
    shape = x.shape[:axis] + (None,) + x.shape[axis + 1 :]
    return x.with_shape(shape), vector, TensorType(INT64, (x.shape[axis],)), vector


@meta_op(
    rule=distinct,
    dtypes=ANY,
    outputs=("y", "indices", "inverse_indices", "counts"),
    nondifferentiable="a change of one element, however small, may change how many there are",
    sizes_from_data=True,
)
def unique(x, *, axis: int | None = None, sorted: bool = True):
    """The distinct elements of ``x``, or its distinct slices along ``axis``; and three vectors of int64.

    ``indices`` say where each first occurs, ``inverse_indices`` which of them each element or slice of ``x`` is, and
    ``counts`` how often each occurs. They come in ascending order (slices by their first elements first) or, if
    ``sorted`` is false, as they first occur. Whether NaN equals NaN is left open.
    """
    y, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        y = np.take(y, order, axis=axis or 0)
        inverse, first, counts = np.argsort(order)[inverse], first[order], counts[order]
    return y, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@unique.samples
def unique_samples(draw):
    yield draw(x=[2.0, 1.0, 1.0, 3.0, 4.0, 3.0])
    yield draw(x=[2.0, 1.0, 1.0, 3.0, 4.0, 3.0], sorted=False)
    yield draw(x=[[3.0, 1.0, 3.0], [1.0, 2.0, 1.0]])
    yield draw(x=[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 3.0, 4.0]], axis=0)
    yield draw(x=[[4.0, 0.0, 4.0], [1.0, 0.0, 1.0]], axis=-1)
    yield draw(x=[[4.0, 0.0, 4.0], [1.0, 0.0, 1.0]], axis=1, sorted=False)
    yield draw(x=[1.0])
    yield draw(x=(0,))


@unique.rejects
def unique_rejects(reject):
    yield reject(x="float32[3, 2]", axis=2, message="axis 2 is out of range")
    yield reject(x="float32[3, 2]", sorted=1, message="'sorted' takes True or False")


# -- boxes -------------------------------------------------------------------------------------------------------------


def chosen_boxes(boxes, scores, *, max_output_boxes_per_class, iou_threshold, score_threshold, center_point_box):
    require_rank("'boxes'", boxes, 3, 3)
    require_rank("'scores'", scores, 3, 3)
    if max_output_boxes_per_class < 0 or not 0 <= iou_threshold <= 1:
        raise AttributeValueError(
            f"max_output_boxes_per_class {max_output_boxes_per_class} is 0 or more, iou_threshold {iou_threshold} is "
            "from 0 to 1"
        )
    if boxes.shape is not None:
        unify_size(boxes.shape[2], 4, "the last axis of 'boxes'")
        if scores.shape is not None:
            unify_size(boxes.shape[0], scores.shape[0], "the batches of 'boxes' and 'scores'")
            unify_size(boxes.shape[1], scores.shape[2], "the numbers of boxes and of scores for each class")
    return TensorType(INT64, (None, 3))


def overlap(a, b):
    """Intersection over union of one box and others, as (low, high) corners; 0 where a box has no area."""
    low, high = np.maximum(a[0], b[:, 0]), np.minimum(a[1], b[:, 1])
    shared = np.prod(np.maximum(high - low, 0), axis=-1)
    areas = np.prod(a[1] - a[0]), np.prod(b[:, 1] - b[:, 0], axis=-1)
    return np.where((areas[0] > 0) & (areas[1] > 0), shared / (areas[0] + areas[1] - shared), 0)


@meta_op(
    rule=chosen_boxes,
    dtypes=FLOAT32,
    domain={"scores": unit()},
    nondifferentiable="its values are integers",
    sizes_from_data=True,
)
@np.errstate(all="ignore")
def non_max_suppression(
    boxes,
    scores,
    *,
    max_output_boxes_per_class: int = 0,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center_point_box: bool = False,
):
    """Which boxes stay, for each class, when those that overlap a better one are left out: ``[n, 3]`` of int64.

    ``boxes [batch, number, 4]`` are two opposite corners ``[y1, x1, y2, x2]`` or, with ``center_point_box``,
    ``[x, y, width, height]`` of the centre; ``scores`` are ``[batch, class, number]``. A row of the result is batch,
    class and number of a box. Rows come by batch, by class and from the best score down (equal ones: the lower number
    first), at most ``max_output_boxes_per_class`` for each class. A box goes if its intersection over union with one
    that stays is above ``iou_threshold``, or its score is not above ``score_threshold``.
    """
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        first, second = first - second / 2, first + second / 2
    corners = np.stack([np.minimum(first, second), np.maximum(first, second)], axis=-2)
    rows = []
    for batch, kind in np.ndindex(scores.shape[:2]):
        values, place = scores[batch, kind], corners[batch]
        order = np.argsort(-values, kind="stable")
        if score_threshold is not None:
            order = order[values[order] > np.float32(score_threshold)]
        kept = []
        while len(order) and len(kept) < max_output_boxes_per_class:
            best, order = order[0], order[1:]
            kept.append(best)
            order = order[overlap(place[best], place[order]) <= np.float32(iou_threshold)]
        rows += [(batch, kind, int(i)) for i in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


BOXES = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
CENTRES = [
    [0.5, 0.5, 1, 1],
    [0.5, 0.6, 1, 1],
    [0.5, 0.4, 1, 1],
    [0.5, 10.5, 1, 1],
    [0.5, 10.6, 1, 1],
    [0.5, 100.5, 1, 1],
]
SCORES = [0.9, 0.75, 0.6, 0.95, 0.5, 0.3]


@non_max_suppression.samples
def non_max_suppression_samples(draw):
    flipped = [[y2, x1, y1, x2] for y1, x1, y2, x2 in BOXES]
    yield draw(boxes=[BOXES], scores=[[SCORES]], max_output_boxes_per_class=3, iou_threshold=0.5)
    yield draw(boxes=[BOXES], scores=[[SCORES]], max_output_boxes_per_class=9, iou_threshold=0.5, score_threshold=0.4)
    yield draw(
        boxes=[CENTRES],
        scores=[[SCORES, SCORES[::-1]]],
        max_output_boxes_per_class=2,
        iou_threshold=0.5,
        center_point_box=True,
    )
    yield draw(
        boxes=[flipped, BOXES[::-1]], scores=[[SCORES], [SCORES]], max_output_boxes_per_class=9, iou_threshold=0.9
    )
    yield draw(boxes=[BOXES], scores=[[[0.5] * 6]], max_output_boxes_per_class=3)
    yield draw(boxes=[BOXES], scores=[[SCORES]])
    yield draw(boxes=(1, 0, 4), scores=(1, 2, 0), max_output_boxes_per_class=3)


@non_max_suppression.rejects
def non_max_suppression_rejects(reject):
    given = {"boxes": "float32[1, 6, 4]", "scores": "float32[1, 2, 6]"}
    yield reject(**given, iou_threshold=1.5, message="iou_threshold 1.5")
    yield reject(**given, max_output_boxes_per_class=-1, message="max_output_boxes_per_class -1")
    yield reject(boxes="float32[1, 6, 5]", scores="float32[1, 2, 6]", message="the last axis of 'boxes'")
    yield reject(boxes="float32[2, 6, 4]", scores="float32[1, 2, 6]", message="sizes 2 and 1 differ")
    yield reject(boxes="float32[1, 6, 4]", scores="float32[1, 2, 5]", message="sizes 6 and 5 differ")
    yield reject(boxes="float32[6, 4]", scores="float32[1, 2, 5]", message="'boxes' must have rank 3")
