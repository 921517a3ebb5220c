"""The localisation map: where in the graph the difference of two backends comes in (CRADLE, section III-C).

Both backends run the same graph on the same input; each node is given the distance of its two hidden outputs. As
deviations propagate, a large one says little about its node; how much it grew over what came in says more.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from metaop.debug.compare import mean_absolute_distance
from metaop.errors import UsageError
from metaop.graph.nodes import Operator

__all__ = ["EPSILON", "Execution", "deviations", "highlighted", "localization_map", "rates_of_change", "third_quartile"]

Key = TypeVar("Key")

#: keeps the rate of change finite where nothing deviates before a node
EPSILON = 1e-7


def deviations(
    hidden_a: Mapping[Operator, Sequence[np.ndarray]], hidden_b: Mapping[Operator, Sequence[np.ndarray]]
) -> dict[Operator, float]:
    """How far the outputs of each operator are apart on two backends; of several outputs the farthest counts.

    >>> import metaop as mo
    >>> y = mo.relu(mo.Variable([1.0, 2.0]))
    >>> deviations({y: [np.array([1.0, 2.0])]}, {y: [np.array([1.0, 3.0])]})[y]
    0.5
    """
    apart = [node.name for node in (*hidden_a, *hidden_b) if node not in hidden_a or node not in hidden_b]
    if apart:
        raise UsageError(f"deviations: node {apart[0]!r} has outputs on one side only; both must cover the same nodes")
    found = {}
    for node, outputs in hidden_a.items():
        others = hidden_b[node]
        if len(outputs) != len(others):
            raise UsageError(f"deviations: node {node.name!r} has {len(outputs)} outputs on A and {len(others)} on B")
        found[node] = max((mean_absolute_distance(x, y) for x, y in zip(outputs, others, strict=True)), default=0.0)
    return found


def rates_of_change(operators: Sequence[Operator], distance: Mapping[Operator, float]) -> dict[Operator, float]:
    """R of each operator: ``(d - d_pre) / (d_pre + 1e-7)``, d_pre being the largest distance among its predecessors.

    Predecessors are the operators that compute its inputs; placeholders, variables and constants are the same on both
    sides, so that without any such operator d_pre is 0. An operator that computes the value of an open attribute counts
    where it has a distance. Control edges carry nothing.

    R is at least -1. Infinite distances (a NaN on one side only, say) are taken to the limit: where an infinite
    distance comes in and goes out R is 0, for the node passes on what it got; where only its output is infinitely far
    apart R is infinite; where it takes an infinite distance away R is -1.

    >>> import metaop as mo
    >>> x = mo.Variable([1.0])
    >>> y = mo.relu(x)
    >>> z = mo.exp(y)
    >>> rates = rates_of_change([y, z], {y: 0.5, z: 1.5})
    >>> round(rates[y]), round(rates[z], 3)      # 0.5 / 1e-7, and (1.5 - 0.5) / 0.5
    (5000000, 2.0)
    """
    for node, value in distance.items():
        if not value >= 0:
            raise UsageError(f"rates_of_change: a distance is 0 or more, or infinite; node {node.name!r} has {value}")
    return {node: _rate(_distance(node, distance, node), _before(node, distance)) for node in operators}


def third_quartile(rates: Iterable[float]) -> float:
    """The third quartile, between two ranks interpolated linearly; infinite once an infinite rate takes part in it.

    >>> third_quartile([0.0, 1.0, 2.0, 3.0, math.inf])
    3.0
    >>> third_quartile([0.0, 1.0])
    0.75
    """
    ordered = sorted(rates)
    if not ordered or any(math.isnan(rate) for rate in ordered):
        raise UsageError("third_quartile: needs at least one rate, and none may be NaN")
    whole, quarters = divmod(3 * (len(ordered) - 1), 4)
    low = ordered[whole]
    if not quarters or low == ordered[whole + 1]:
        return low
    return low + quarters / 4 * (ordered[whole + 1] - low)


def highlighted(rates: Mapping[Key, float]) -> list[Key]:
    """The nodes whose rate is above the third quartile of all, or infinite, in the order given.

    Quartiles are relative: a quarter of infinite rates would hide them all, if they were not named; and something is
    highlighted wherever rates differ at all, also where nothing but rounding does.

    >>> highlighted({"conv": 0.1, "norm": 9.0, "relu": -0.2, "dense": 0.3})
    ['norm']
    """
    if not rates:
        return []
    bound = third_quartile(rates.values())
    return [node for node, rate in rates.items() if rate > bound or rate == math.inf]


@dataclass(frozen=True)
class Execution:
    """One node of a localisation map.

    >>> import metaop as mo
    >>> Execution(mo.relu(mo.Variable([1.0])), deviation=0.0, rate=0.0, highlighted=False).highlighted
    False
    """

    node: Operator
    #: the distance of the hidden outputs of both backends
    deviation: float
    #: R, the inconsistency introduction rate
    rate: float
    #: whether the rate lies above the third quartile of the map, or is infinite
    highlighted: bool


def localization_map(operators: Sequence[Operator], distance: Mapping[Operator, float]) -> list[Execution]:
    """The map, in the order of ``operators``: in order of execution the first one highlighted is the first to look at.

    >>> import metaop as mo
    >>> a = mo.relu(mo.Variable([1.0])); b = mo.exp(a); c = mo.sin(b); d = mo.cos(c)
    >>> [e.node.op.name for e in localization_map([a, b, c, d], {a: 0.0, b: 0.0, c: 0.25, d: 0.3}) if e.highlighted]
    ['sin']
    """
    rates = rates_of_change(operators, distance)
    marked = set(highlighted(rates))
    return [Execution(node, float(distance[node]), rate, node in marked) for node, rate in rates.items()]


def _before(node: Operator, distance: Mapping[Operator, float]) -> float:
    sources = [source.producer for source in node.inputs if source is not None]
    found = [_distance(source, distance, node) for source in sources if isinstance(source, Operator)]
    steering = [source.producer for source in node.open.values()]
    found += [distance[source] for source in steering if isinstance(source, Operator) and source in distance]
    return max(found, default=0.0)


def _distance(node: Operator, distance: Mapping[Operator, float], wanted_for: Operator) -> float:
    # To take a missing distance for 0 would put the blame on the node behind it.
    if node not in distance:
        raise UsageError(f"rates_of_change: no distance of node {node.name!r}, needed for {wanted_for.name!r}")
    return float(distance[node])


def _rate(after: float, before: float) -> float:
    if before == math.inf:
        return 0.0 if after == math.inf else -1.0
    rate = (after - before) / (before + EPSILON)
    # Only an infinite distance may make an infinite rate.
    return rate if after == math.inf else min(rate, sys.float_info.max)
