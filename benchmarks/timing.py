"""Ratios of running times that hold on a noisy machine.

Two functions are timed in turns, in many short rounds, so that both meet the same quiet moments. What disturbs only
adds time: the quickest samples of each side are the ones that say what the code takes, and their ratio is the result
(the median of the ratios scatters three times as much). The clock is the processor's, which does not run while
others have the core, unless several threads are at work.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["QUICK", "Effort", "Ratio", "compare", "geometric_mean"]

Clock = Callable[[], float]


@dataclass(frozen=True)
class Effort:
    """How long to measure, in seconds and in rounds of one sample of each side."""

    sample: float = 0.002
    rounds: int = 120
    #: after so many seconds on the clock only the ``least`` rounds are still made
    most: float = 5.0
    least: int = 15
    clock: Clock = time.process_time


QUICK = Effort(sample=0.0, rounds=2, least=2)


@dataclass(frozen=True)
class Ratio:
    """How many times longer ``ours`` takes than ``theirs``."""

    ratio: float
    #: seconds per call
    ours: float
    theirs: float


def compare(ours: Callable[[], Any], theirs: Callable[[], Any], effort: Effort) -> Ratio:
    """Time two functions against each other; both have been called before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        samples = _rounds(ours, theirs, effort)
    finally:
        if enabled:
            gc.enable()
    first, second = (_undisturbed(side) for side in zip(*samples, strict=True))
    return Ratio(first / second, first, second)


def _undisturbed(samples: Sequence[float]) -> float:
    """The mean of the quickest tenth."""
    return statistics.fmean(sorted(samples)[: max(1, len(samples) // 10)])


def geometric_mean(ratios: Iterable[float]) -> float:
    """The mean for ratios: twice as slow and twice as fast cancel."""
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs))


def _rounds(ours: Callable[[], Any], theirs: Callable[[], Any], effort: Effort) -> list[tuple[float, float]]:
    clock = effort.clock
    once = min(_sample(theirs, 1, clock) for _ in range(3))
    calls = max(1, math.ceil(effort.sample / once))
    _sample(ours, calls, clock)
    samples: list[tuple[float, float]] = []
    end = clock() + effort.most
    while len(samples) < effort.rounds and (len(samples) < effort.least or clock() < end):
        # Turns change sides, so that coming first in a round is worth nothing.
        if len(samples) % 2:
            first, second = _sample(ours, calls, clock), _sample(theirs, calls, clock)
        else:
            second, first = _sample(theirs, calls, clock), _sample(ours, calls, clock)
        samples.append((first, second))
    return samples


def _sample(function: Callable[[], Any], calls: int, clock: Clock) -> float:
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls
