"""Pooling."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import OPSET, NoKernel, node

bind.rename({"global_average_pool": node("GlobalAveragePool"), "global_max_pool": node("GlobalMaxPool")})


def _max_pool(o, x, **attributes):
    return o.MaxPool(x, auto_pad="NOTSET", storage_order=0, **attributes)


@bind
def max_pool1d(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return _max_pool(
        o, x, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil_mode
    )


@bind
def max_pool2d(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return _max_pool(
        o, x, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil_mode
    )


@bind
def max_pool3d(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode):
    return _max_pool(
        o, x, kernel_shape=kernel_shape, strides=strides, pads=pads, dilations=dilations, ceil_mode=ceil_mode
    )


def _average_pool(o, x, dilations, **attributes):
    if OPSET >= 19:
        attributes["dilations"] = dilations
    elif any(d != 1 for d in dilations):
        raise NoKernel("its AveragePool has no dilations before opset 19")
    return o.AveragePool(x, auto_pad="NOTSET", **attributes)


@bind
def average_pool1d(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return _average_pool(
        o,
        x,
        dilations,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


@bind
def average_pool2d(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return _average_pool(
        o,
        x,
        dilations,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )


@bind
def average_pool3d(o, x, *, kernel_shape, strides, pads, dilations, ceil_mode, count_include_pad):
    return _average_pool(
        o,
        x,
        dilations,
        kernel_shape=kernel_shape,
        strides=strides,
        pads=pads,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
