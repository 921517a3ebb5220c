"""Sorting and selecting."""

import numpy as np

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename({"compress": node("Compress", axis="axis")})


@bind
def nonzero(o, x):
    if not x.rank:
        o.no_kernel("its NonZero takes a scalar for a vector, whose indices have a row that ONNX says there is not")
    return o.NonZero(x)


@bind
def topk(o, x, *, k, axis, largest, sorted):
    return o.TopK(x, (k,), axis=axis, largest=largest, sorted=sorted, outputs=2)


@bind
def unique(o, x, *, axis, sorted):
    return o.Unique(x, axis=axis, sorted=sorted, outputs=4)


@bind
def non_max_suppression(
    o, boxes, scores, *, max_output_boxes_per_class, iou_threshold, score_threshold, center_point_box
):
    return o.NonMaxSuppression(
        boxes,
        scores,
        o.constant(max_output_boxes_per_class, np.dtype(np.int64)),
        iou_threshold,
        score_threshold,
        center_point_box=center_point_box,
    )
