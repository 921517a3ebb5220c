"""Which inputs make a pair of backends inconsistent, and which inconsistencies are the same (CRADLE, section III-B)."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metaop.debug.cradle.localization import highlighted
from metaop.errors import UsageError

__all__ = ["Inconsistency", "Metric", "class_metric", "detect", "mad_metric", "unique_inconsistencies"]


@dataclass(frozen=True)
class Metric:
    """From which distance on an input triggers, and how distances are binned into a pattern.

    ``edges`` are where bins begin: bin i counts ``edges[i] <= distance < edges[i + 1]``, the last one everything finite
    from its edge on; one more counts infinite distances.

    >>> Metric("mine", threshold=2.0, edges=(0.0, 1.0)).pattern([0.5, 0.7, 3.0, math.inf])
    (2, 1, 1)
    """

    name: str
    threshold: float
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise UsageError(f"metric {self.name!r}: the threshold is 0 or more; got {self.threshold}")
        rising = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        if not self.edges or self.edges[0] != 0 or not rising or self.edges[-1] == math.inf:
            raise UsageError(f"metric {self.name!r}: edges are finite and rise from 0; got {self.edges}")

    def triggers(self, distance: float) -> bool:
        """Whether an input at that distance triggers: at the threshold, or above it.

        The paper says "larger than", yet calls the largest possible distance its strictest threshold, which then could
        never trigger, and has every input trigger at a threshold of 0.
        """
        return distance >= self.threshold

    def pattern(self, distances: Iterable[float]) -> tuple[int, ...]:
        """How many of the distances lie in each bin, infinite ones in the last."""
        counts = [0] * (len(self.edges) + 1)
        for distance in distances:
            if not distance >= 0:
                raise UsageError(f"metric {self.name!r}: a distance is 0 or more, or infinite; got {distance}")
            counts[-1 if distance == math.inf else bisect.bisect_right(self.edges, distance) - 1] += 1
        return tuple(counts)


def class_metric(threshold: float | None = None, k: int = 5) -> Metric:
    """D_CLASS: bins begin at 0 and at the powers of two up to ``2**(k - 1)``; the threshold is ``2**(k - 2)``.

    >>> class_metric()
    Metric(name='class', threshold=8.0, edges=(0.0, 1.0, 2.0, 4.0, 8.0, 16.0))
    """
    edges = (0.0, *(2.0**power for power in range(k)))
    return Metric("class", 2.0 ** (k - 2) if threshold is None else threshold, edges)


def mad_metric(threshold: float = 0.2, bins: int = 5) -> Metric:
    """D_MAD: equal bins from 0 to 1; the distance 1 is in the last.

    >>> mad_metric()
    Metric(name='mad', threshold=0.2, edges=(0.0, 0.2, 0.4, 0.6, 0.8))
    """
    return Metric("mad", threshold, tuple(i / bins for i in range(bins)))


@dataclass(frozen=True)
class Inconsistency:
    """A model on which two backends are inconsistent; made by :func:`detect`."""

    model: str
    pair: tuple[str, str]
    metric: Metric
    #: of every input, also of those that do not trigger
    distances: Mapping[str, float]
    #: what may differ between occurrences of the same inconsistency, such as versions
    setting: str = ""
    #: R of each node by name in order of execution, from the localisation map of the worst input, where there is one
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def triggering(self) -> tuple[str, ...]:
        """The inputs that trigger, the most severe first, equals by name."""
        found = [name for name, distance in self.distances.items() if self.metric.triggers(distance)]
        return tuple(sorted(found, key=lambda name: (-self.distances[name], name)))

    @property
    def worst(self) -> str:
        """The most inconsistent input, which is the one to localise on."""
        return self.triggering[0]

    @property
    def pattern(self) -> tuple[int, ...]:
        """The distribution of the distances over all inputs."""
        return self.metric.pattern(self.distances.values())

    @property
    def highlighted(self) -> tuple[str, ...]:
        """The nodes that the localisation map highlights, in order of execution."""
        return tuple(highlighted(self.rates))


def detect(
    model: str,
    pair: tuple[str, str],
    distances: Mapping[str, float],
    metric: Metric,
    *,
    percent: float = 0.0,
    setting: str = "",
    rates: Mapping[str, float] | None = None,
) -> Inconsistency | None:
    """The inconsistency of two backends, or None where at most a few inputs trigger.

    The pair is inconsistent if at least one input triggers, and at least ``percent`` of them do.

    >>> found = detect("lenet", ("tf", "cntk"), {"seven": 0.0, "nine": 8.0, "two": 16.0}, class_metric())
    >>> found.triggering, found.worst, found.pattern
    (('two', 'nine'), 'two', (1, 0, 0, 0, 1, 1, 0))
    >>> detect("lenet", ("tf", "cntk"), {"seven": 0.0, "nine": 8.0}, class_metric(threshold=16)) is None
    True
    """
    if not distances:
        raise UsageError(f"detect: no inputs of model {model!r} were compared, so that nothing can be said of it")
    if not 0 <= percent <= 100:
        raise UsageError(f"detect: percent lies between 0 and 100; got {percent}")
    found = Inconsistency(model, pair, metric, dict(distances), setting, dict(rates or {}))
    metric.pattern(distances.values())  # refuses what is no distance: a NaN would trigger nothing
    triggering = len(found.triggering)
    return found if triggering and 100 * triggering >= percent * len(distances) else None


def unique_inconsistencies(found: Iterable[Inconsistency]) -> list[tuple[Inconsistency, ...]]:
    """Groups of what is one inconsistency: the same model, pair of backends (in either order), metric and pattern.

    Groups come in the order of their first members, which represent them. Versions belong into ``setting`` rather than
    into the names of the pair: recurrence from version to version is what the paper groups.

    >>> inputs = {"nine": 8.0, "two": 16.0}
    >>> old = detect("lenet", ("tf", "cntk"), inputs, class_metric(), setting="keras 2.2.1")
    >>> new = detect("lenet", ("cntk", "tf"), inputs, class_metric(), setting="keras 2.2.2")
    >>> fixed = detect("lenet", ("tf", "cntk"), inputs | {"two": 0.0}, class_metric(), setting="keras 2.2.3")
    >>> [[one.setting for one in group] for group in unique_inconsistencies([old, new, fixed])]
    [['keras 2.2.1', 'keras 2.2.2'], ['keras 2.2.3']]
    """
    groups: dict[object, list[Inconsistency]] = {}
    for one in found:
        groups.setdefault((one.model, tuple(sorted(one.pair)), one.metric, one.pattern), []).append(one)
    return [tuple(group) for group in groups.values()]
