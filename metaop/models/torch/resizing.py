"""Images in other sizes, and read at other places."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from metaop.graph.nodes import Node
from metaop.models.torch.movement import inferable
from metaop.models.torch.table import Call, Refused, aten_op


def _known(call: Call, x: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes before and after, without batch and channels."""
    before, after = tuple(call.sizes(x)[2:]), tuple(call.shape[2:])
    if not all(isinstance(s, int) for s in (*before, *after)):
        raise Refused("sizes that are not known are not supported")
    return before, after


def _factors(
    count: int, scale_factors: Any, scales: Any = None, scales_d: Any = None, scales_h: Any = None, scales_w: Any = None
) -> list[float | None]:
    """The factor along each axis, where one was given and not a size."""
    if scale_factors is not None:
        return list(scale_factors)
    return [scales] if count == 1 else [scales_d, scales_h, scales_w][-count:]


# -- the nearest element -----------------------------------------------------------------------------------------------


def _upsample_nearest(name: str, count: int) -> None:
    kernel = getattr(torch.ops.aten, f"{name}1d").default

    @aten_op(f"{name}{count}d", f"{name}{count}d.vec", told=("output_size",))
    def mapping(
        call: Call,
        self: Node,
        scale_factors: Any = None,
        scales: Any = None,
        scales_d: Any = None,
        scales_h: Any = None,
        scales_w: Any = None,
    ) -> Any:
        before, after = _known(call, self)
        factors = _factors(count, scale_factors, scales, scales_d, scales_h, scales_w)
        whole = all(b % a == 0 for a, b in zip(before, after, strict=True))
        if whole and all(f is None or f == int(f) for f in factors):
            return _repeated(call, self, before, after)
        # Which element is the nearest depends on how PyTorch rounds, so that it says so itself.
        x = self
        for i, (old, new, factor) in enumerate(zip(before, after, factors, strict=True)):
            found = kernel(torch.arange(old, dtype=torch.float32).reshape(1, 1, old), [new], factor)
            positions = call.value(found.reshape(new).numpy().astype(np.int64), f"positions_{i}")
            x = (
                call.make("gather", x, positions, axis=2 + i)
                if i + 1 == count
                else call.part(f"axis_{i}", "gather", x, positions, axis=2 + i)
            )
        return x


def _repeated(call: Call, x: Node, before: tuple[int, ...], after: tuple[int, ...]) -> Any:
    apart = [s for a in before for s in (a, 1)]
    copies = [s for a, b in zip(before, after, strict=True) for s in (a, b // a)]
    y = call.part("apart", "reshape", x, shape=inferable(call, [*call.sizes(x)[:2], *apart]))
    y = call.part("copies", "expand", y, shape=(1, 1, *copies))
    return call.make("reshape", y, shape=inferable(call, call.shape))


# -- means of neighbours -----------------------------------------------------------------------------------------------


def _upsample(name: str, count: int, **attrs: Any) -> None:
    @aten_op(name, f"{name}.vec", told=("output_size",))
    def mapping(
        call: Call,
        self: Node,
        align_corners: bool,
        scale_factors: Any = None,
        scales: Any = None,
        scales_d: Any = None,
        scales_h: Any = None,
        scales_w: Any = None,
    ) -> Any:
        before, after = _known(call, self)
        factors = _factors(count, scale_factors, scales, scales_d, scales_h, scales_w)
        sized: dict[str, Any] = {"sizes": after}
        if not align_corners and any(
            f is not None and f * a != b for f, a, b in zip(factors, before, after, strict=True)
        ):
            # The factor itself says then where elements lie, and not the sizes.
            given = zip(factors, before, after, strict=True)
            sized = {"scales": tuple(b / a if f is None else float(f) for f, a, b in given)}
        transformation = "align_corners" if align_corners else "half_pixel"
        return call.make(
            "resize",
            self,
            axes=tuple(range(2, 2 + count)),
            coordinate_transformation_mode=transformation,
            **sized,
            **attrs,
        )


for _count, _kind in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    _upsample_nearest("upsample_nearest", _count)
    _upsample_nearest("_upsample_nearest_exact", _count)
    _upsample(f"upsample_{_kind}{_count}d", _count, mode="linear")
_upsample("upsample_bicubic2d", 2, mode="cubic")
_upsample("_upsample_bilinear2d_aa", 2, mode="linear", antialias=True)
_upsample("_upsample_bicubic2d_aa", 2, mode="cubic", antialias=True, cubic_coeff_a=-0.5)


# -- other places ------------------------------------------------------------------------------------------------------


@aten_op("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    call: Call, input: Node, grid: Node, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    return call.make(
        "grid_sample",
        input,
        grid,
        mode=("linear", "nearest", "cubic")[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=align_corners,
    )


@aten_op("affine_grid_generator")
def affine_grid(call: Call, theta: Node, size: Any, align_corners: bool) -> Any:
    if not all(isinstance(s, int) for s in size):
        raise Refused("sizes that depend on the batch are not supported")
    return call.make("affine_grid", theta, size=tuple(size), align_corners=align_corners)
