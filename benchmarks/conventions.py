"""What correct frameworks do differently, or with different rounding, and what is no bug: small graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import metaop as mo
from benchmarks.debugged import Build, Network

__all__ = ["conventions"]


def _around_a_gelu(approximate: str) -> Network:
    b = Build(0)
    h = mo.gelu(mo.add(b.normal("x", 64, 32), b.vector("shift", 32), name="shifted"), approximate=approximate)
    return Network(f"gelu {approximate}", mo.reduce_mean(mo.square(h)), b.feeds)


def _batch_norm(training: bool) -> Network:
    b = Build(0)
    mean, var = b.normal("mean", 6), b.feed("var", b.rng.uniform(0.5, 2, 6).astype(np.float32))
    h = mo.batch_norm(
        b.normal("x", 8, 6, 5, 5), b.vector("scale", 6, 1.0), b.vector("bias", 6), mean, var, training=training
    )
    h = h[0] if isinstance(h, tuple) else h
    return Network(f"batch_norm training={training}", mo.reduce_mean(mo.square(h)), b.feeds)


def _average_pool(count_include_pad: bool) -> Network:
    b = Build(0)
    w = b.weight("w", 4, 3, 3, 3, fan=27)
    h = mo.conv2d(b.normal("x", 2, 3, 10, 10), w, pads=(1, 1, 1, 1))
    h = mo.average_pool2d(
        h, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), count_include_pad=count_include_pad
    )
    return Network(f"average_pool2d count_include_pad={count_include_pad}", mo.reduce_mean(mo.square(h)), b.feeds)


def _whole(b: Build, *shape: int) -> mo.Node:
    """Few different numbers, zeros among them, so that there are ties."""
    return mo.Variable(b.rng.integers(-1, 2, shape).astype(np.float32), name="whole")


def _at_kinks(name: str, build: Callable[[mo.Node], mo.Node], *shape: int) -> Network:
    b = Build(0)
    y = build(_whole(b, *(shape or (8, 6))))
    return Network(name, mo.reduce_sum(mo.multiply(y, b.rng.standard_normal(y.shape).astype(np.float32))), b.feeds)


def _round() -> Network:
    b = Build(0)
    x = b.feed("x", np.arange(-4.5, 5, 0.5, dtype=np.float32))
    return Network("round half", mo.reduce_sum(mo.multiply(mo.round(x), b.vector("w", 19))), b.feeds)


def _integers(name: str, op: Callable[[mo.Node, mo.Node], mo.Node]) -> Network:
    b = Build(0)
    x, y = b.feed("x", np.arange(-9, 9, dtype=np.int32)), b.feed("y", np.int32([-4, -2, 3] * 6))
    return Network(name, mo.reduce_sum(mo.multiply(mo.cast(op(x, y), to="float32"), b.vector("w", 18))), b.feeds)


def _matmul() -> Network:
    b = Build(0)
    h = mo.matmul(b.normal("x", 256, 256), mo.Variable(b.rng.standard_normal((256, 256)).astype(np.float32), name="w"))
    return Network("matmul 256x256", mo.reduce_sum(h), b.feeds)


def _long_sum(size: int) -> Network:
    b = Build(0)
    h = mo.square(mo.multiply(b.normal("x", size, size), b.vector("w", size, 1.0)))
    return Network(f"sum of {size * size} squares", mo.reduce_sum(h), b.feeds)


def _weight_gradient(images: int, channels: int) -> Network:
    b = Build(0)
    w = b.weight("w", channels, channels, 3, 3, fan=9 * channels)
    h = mo.conv2d(b.normal("x", images, channels, 28, 28), w, pads=(1, 1, 1, 1))
    return Network(f"weight gradient of conv2d {images}x{channels}x28x28", mo.reduce_sum(h), b.feeds)


def _all(quick: bool) -> Iterator[Callable[[], Network]]:
    for approximate in ("none", "tanh"):
        yield lambda approximate=approximate: _around_a_gelu(approximate)
    for flag in (False, True):
        yield lambda flag=flag: _batch_norm(flag)
        yield lambda flag=flag: _average_pool(flag)
    pool = {"kernel_shape": (2, 2), "strides": (2, 2)}
    kinks: dict[str, Callable[[mo.Node], mo.Node]] = {
        "maximum(a, a)": lambda a: mo.maximum(a, a),
        "minimum(a, a)": lambda a: mo.minimum(a, a),
        "maximum at ties": lambda a: mo.maximum(a, mo.negative(a)),
        "reduce_max at ties": lambda a: mo.reduce_max(a, axes=(1,)),
        "reduce_min at ties": lambda a: mo.reduce_min(a, axes=(1,)),
        "relu at 0": mo.relu,
        "leaky_relu at 0": mo.leaky_relu,
        "abs at 0": mo.abs,
        "clip at its bounds": lambda a: mo.clip(a, min=-1.0, max=1.0),
    }
    for name, build in kinks.items():
        yield lambda name=name, build=build: _at_kinks(name, build)
    yield lambda: _at_kinks("max_pool2d at ties", lambda a: mo.max_pool2d(a, **pool), 2, 3, 8, 8)
    yield _round
    yield lambda: _integers("trunc_div of negatives", mo.trunc_div)
    yield lambda: _integers("mod of negatives", lambda x, y: mo.mod(x, y, fmod=False))
    yield lambda: _integers("fmod of negatives", lambda x, y: mo.mod(x, y, fmod=True))
    yield _matmul
    yield lambda: _long_sum(64 if quick else 1024)
    yield lambda: _weight_gradient(*((2, 8) if quick else (16, 64)))


def conventions(quick: bool = False) -> list[Network]:
    """The graphs; ``quick`` has a smaller convolution."""
    return [build() for build in _all(quick)]
