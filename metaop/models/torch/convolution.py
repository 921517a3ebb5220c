"""Convolutions and poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from metaop.graph.nodes import Node
from metaop.models.torch.table import Call, Refused, aten_op


def _each(values: Sequence[int], count: int) -> tuple[int, ...]:
    """One number per axis; PyTorch takes one for all."""
    return tuple(values) * count if len(values) == 1 else tuple(values)


def _spatial(call: Call, x: Node, count: int) -> None:
    if call.rank(x) != count + 2:
        raise Refused(f"an input of rank {call.rank(x)} without a batch is not supported; give it one of size 1")


def _convolve(
    call: Call,
    x: Node,
    weight: Node,
    bias: Node | None,
    stride: Sequence[int],
    padding: Any,
    dilation: Sequence[int],
    groups: int,
) -> Any:
    count = call.rank(weight) - 2
    _spatial(call, x, count)
    dilation = _each(dilation, count)
    if padding == "same":
        reach = [(k - 1) * d for k, d in zip(call.static(weight)[2:], dilation, strict=True)]
        begins = [r // 2 for r in reach]
        pads = (*begins, *(r - b for r, b in zip(reach, begins, strict=True)))
    else:
        pads = _each([0] if padding == "valid" else padding, count) * 2
    return call.make(
        f"conv{count}d", x, weight, bias, strides=_each(stride, count), pads=pads, dilations=dilation, group=groups
    )


@aten_op("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv(
    call: Call, input: Node, weight: Node, bias: Node | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    return _convolve(call, input, weight, bias, stride, padding, dilation, groups)


@aten_op("convolution")
def convolution(
    call: Call,
    input: Node,
    weight: Node,
    bias: Node | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    if transposed:
        return conv_transpose(call, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolve(call, input, weight, bias, stride, padding, dilation, groups)


@aten_op("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    call: Call,
    input: Node,
    weight: Node,
    bias: Node | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    count = call.rank(weight) - 2
    _spatial(call, input, count)
    return call.make(
        f"conv_transpose{count}d",
        input,
        weight,
        bias,
        strides=_each(stride, count),
        pads=_each(padding, count) * 2,
        output_padding=_each(output_padding, count),
        dilations=_each(dilation, count),
        group=groups,
    )


# -- poolings ----------------------------------------------------------------------------------------------------------


def _max_pool(count: int) -> None:
    @aten_op(f"max_pool{count}d", f"max_pool{count}d_with_indices")
    def mapping(
        call: Call, self: Node, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        _spatial(call, self, count)
        attrs: dict[str, Any] = {
            "kernel_shape": _each(kernel_size, count),
            "strides": _each(stride or kernel_size, count),
            "pads": _each(padding, count) * 2,
            "dilations": _each(dilation, count),
            "ceil_mode": ceil_mode,
        }
        pooled = call.make(f"max_pool{count}d", self, **attrs)
        plane = call.sizes(self)[2:]
        if not isinstance(call.result, list | tuple) or not all(isinstance(s, int) for s in plane):
            return pooled
        # PyTorch counts positions within a plane; these are for whom they serve, else nobody computes them.
        _, places = call.part("positions", "max_pool_with_indices", self, **attrs)
        size = call.value(np.array(math.prod(plane), np.int64), "plane")
        return pooled, call.part("indices", "mod", places, size)


def _average_pool(count: int) -> None:
    @aten_op(f"avg_pool{count}d")
    def mapping(
        call: Call,
        self: Node,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
    ) -> Any:
        _spatial(call, self, count)
        return call.make(
            f"average_pool{count}d",
            self,
            kernel_shape=_each(kernel_size, count),
            strides=_each(stride or kernel_size, count),
            pads=_each(padding, count) * 2,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )


def _adaptive(count: int, aten: str, whole: str, windows: str) -> None:
    @aten_op(aten)
    def mapping(call: Call, self: Node, output_size: Any) -> Any:
        _spatial(call, self, count)
        wanted = (call.result if isinstance(call.result, torch.Tensor) else call.result[0]).shape[2:]
        if set(wanted) == {1}:
            return call.make(whole, self)
        sizes = call.sizes(self)[2:]
        if not all(isinstance(s, int) for s in sizes):
            raise Refused("sizes that are not known are not supported")
        if any(s % w for s, w in zip(sizes, wanted, strict=True)):
            return _uneven(call, self, sizes, wanted, windows.startswith("max"))
        kernel = tuple(s // w for s, w in zip(sizes, wanted, strict=True))
        return call.make(windows, self, kernel_shape=kernel, strides=kernel)


def _uneven(call: Call, x: Node, sizes: Sequence[int], wanted: Sequence[int], largest: bool) -> Any:
    """Windows of different sizes, along one axis after the other; a short one has its last element twice."""
    for i, (old, new) in enumerate(zip(sizes, wanted, strict=True)):
        starts = [j * old // new for j in range(new)]
        ends = [-(-(j + 1) * old // new) for j in range(new)]
        width = max(e - s for s, e in zip(starts, ends, strict=True))
        at = np.array([[min(s + k, e - 1) for k in range(width)] for s, e in zip(starts, ends, strict=True)])
        within = np.array([[s + k < e for k in range(width)] for s, e in zip(starts, ends, strict=True)])
        read = call.part(f"windows_{i}", "gather", x, call.value(at.astype(np.int64), f"positions_{i}"), axis=2 + i)
        if largest:
            x = call.part(f"largest_{i}", "reduce_max", read, axes=(3 + i,))
            continue
        shares = within / within.sum(axis=1, keepdims=True)
        weights = shares.reshape(new, width, *[1] * (len(sizes) - 1 - i)).astype(call.dtype)
        weighted = call.part(f"weighted_{i}", "multiply", read, call.value(weights, f"shares_{i}"))
        x = call.part(f"mean_{i}", "reduce_sum", weighted, axes=(3 + i,))
    return x


for _count in (1, 2, 3):
    _max_pool(_count)
    _average_pool(_count)
    _adaptive(_count, f"adaptive_avg_pool{_count}d", "global_average_pool", f"average_pool{_count}d")
    _adaptive(_count, f"adaptive_max_pool{_count}d", "global_max_pool", f"max_pool{_count}d")
