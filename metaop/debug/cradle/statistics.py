"""What was measured for many keys (nodes, say) over many inputs, in memory that does not grow with the inputs.

The state depends on what was added and never on the order: sums are exact, and equal values are ordered by the name of
their input. Parts that were collected apart (in several processes, say) merge into what one pass would have found.
"""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from metaop.errors import UsageError

__all__ = ["Statistics", "Summary", "Worst"]

FORMAT = "metaop-statistics"
VERSION = 1

#: an exact sum. Every float64 is a fraction over 2**1074 or less, below 2**2098; longer text was not written here
_EXACT = re.compile(r"(-?[0-9]{1,700})(?:/([0-9]{1,324}))?")


class Worst(NamedTuple):
    """A large value, and the input that it belongs to."""

    input: str
    value: float


@dataclass(frozen=True)
class Summary:
    """What is known of one key.

    >>> Summary(count=2, infinite=0, mean=1.5, max=2.0, worst=(Worst("dog", 2.0), Worst("cat", 1.0))).worst[0].input
    'dog'
    """

    count: int
    #: how many of the values are infinite
    infinite: int
    #: of the finite values, correctly rounded; infinite where there are none
    mean: float
    #: exact
    max: float
    #: the inputs with the largest values, the largest first, equals by name
    worst: tuple[Worst, ...]


class _Tally:
    """The state of one key."""

    __slots__ = ("count", "infinite", "sum", "worst")

    def __init__(self, count: int = 0, infinite: int = 0, sum: Fraction = Fraction(0)) -> None:
        self.count = count
        self.infinite = infinite
        #: of the finite values; at most some 2,100 bits over 1,075, and a few more for their number
        self.sum = sum
        self.worst: list[Worst] = []

    def keep(self, entry: Worst, most: int) -> None:
        if len(self.worst) < most or _severity(entry) < _severity(self.worst[-1]):
            bisect.insort(self.worst, entry, key=_severity)
            del self.worst[most:]


def _severity(entry: Worst) -> tuple[float, str]:
    return -entry.value, entry.input


class Statistics:
    """Count, mean, maximum and the worst inputs of any number of keys.

    ``worst`` says how many inputs are remembered for each key. Infinite values are counted apart; NaN is refused.

    >>> found = Statistics(worst=2)
    >>> for name, distance in [("cat", 1.0), ("dog", math.inf), ("owl", 2.0)]:
    ...     found.add("conv_1", name, distance)
    >>> found["conv_1"].count, found["conv_1"].infinite, found["conv_1"].mean, found["conv_1"].worst[0].input
    (3, 1, 1.5, 'dog')
    """

    def __init__(self, worst: int = 5) -> None:
        if isinstance(worst, bool) or not isinstance(worst, int) or worst < 1:
            raise UsageError(f"Statistics: worst says how many inputs to remember, at least 1; got {worst!r}")
        self._most = worst
        self._tallies: dict[str, _Tally] = {}

    def add(self, key: str, input: str, value: float) -> None:
        """Take a value of ``key`` on ``input`` into account."""
        value = float(value)
        if math.isnan(value) or value == -math.inf:
            raise UsageError(f"Statistics: {key!r} on input {input!r} is {value}; only finite numbers and inf count")
        tally = self._tallies.setdefault(key, _Tally())
        tally.count += 1
        if value == math.inf:
            tally.infinite += 1
        else:
            tally.sum += Fraction(value)
        tally.keep(Worst(input, value), self._most)

    def update(self, input: str, values: Mapping[str, float]) -> None:
        """Take the values of many keys on one input into account.

        >>> found = Statistics()
        >>> found.update("cat", {"conv_1": 0.5, "relu_1": 0.25})
        >>> list(found)
        ['conv_1', 'relu_1']
        """
        for key, value in values.items():
            self.add(key, input, value)

    def merge(self, other: Statistics) -> None:
        """Take everything into account that ``other`` did; it must remember as many inputs.

        >>> first, second = Statistics(), Statistics()
        >>> first.add("conv_1", "cat", 1.0)
        >>> second.add("conv_1", "dog", 2.0)
        >>> first.merge(second)
        >>> first["conv_1"].mean
        1.5
        """
        if other._most != self._most:
            raise UsageError(f"Statistics: cannot merge the {other._most} worst inputs into the {self._most} worst")
        for key, theirs in list(other._tallies.items()):
            tally = self._tallies.setdefault(key, _Tally())
            tally.count += theirs.count
            tally.infinite += theirs.infinite
            tally.sum += theirs.sum
            for entry in list(theirs.worst):
                tally.keep(entry, self._most)

    def __getitem__(self, key: str) -> Summary:
        if key not in self._tallies:
            raise UsageError(f"Statistics: nothing was added for {key!r}")
        tally = self._tallies[key]
        finite = tally.count - tally.infinite
        mean = float(tally.sum / finite) if finite else math.inf
        return Summary(tally.count, tally.infinite, mean, tally.worst[0].value, tuple(tally.worst))

    def __contains__(self, key: object) -> bool:
        return key in self._tallies

    def __iter__(self) -> Iterator[str]:
        return iter(self._tallies)

    def __len__(self) -> int:
        return len(self._tallies)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics):
            return NotImplemented
        return self._plain() == other._plain()

    __hash__ = None  # type: ignore[assignment]  # it changes

    # -- JSON ---------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """All of it as strict JSON; infinite numbers are the string ``"inf"``, exact sums the string of a fraction.

        >>> found = Statistics()
        >>> found.add("conv_1", "cat", math.inf)
        >>> Statistics.from_json(found.to_json()) == found
        True
        """
        return json.dumps(self._plain(), indent=1, allow_nan=False)

    def _plain(self) -> dict[str, Any]:
        keys = {}
        for key, tally in self._tallies.items():
            summary = self[key]
            keys[key] = {
                "count": tally.count,
                "infinite": tally.infinite,
                "mean": _to_plain(summary.mean),
                "max": _to_plain(summary.max),
                "sum": str(tally.sum),
                "worst": [[entry.input, _to_plain(entry.value)] for entry in tally.worst],
            }
        return {"format": FORMAT, "format_version": VERSION, "worst": self._most, "keys": keys}

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """What :meth:`to_json` wrote; mean and max, which are there for readers, are computed again."""
        try:
            data = json.loads(text, parse_constant=_refuse)
            if data["format"] != FORMAT or data["format_version"] != VERSION:
                raise ValueError(f"the format is {data['format']!r}, version {data['format_version']!r}")
            found = cls(_whole(data["worst"], least=1))
            for key, row in data["keys"].items():
                found._tallies[key] = _read_tally(row, found._most)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            raise UsageError(
                f"no statistics that metaop wrote: {type(error).__name__}: {error}; "
                f"expected the format {FORMAT!r}, version {VERSION}"
            ) from None
        return found


def _read_tally(row: Any, most: int) -> _Tally:
    exact = _EXACT.fullmatch(row["sum"])
    if not exact or int(exact[2] or 1) == 0:
        raise ValueError("a sum is no fraction")
    count = _whole(row["count"], least=1)
    tally = _Tally(count, _whole(row["infinite"], most=count), Fraction(int(exact[1]), int(exact[2] or 1)))
    entries = [Worst(name, _from_plain(value)) for name, value in row["worst"]]
    if not all(isinstance(entry.input, str) for entry in entries) or len(entries) != min(count, most):
        raise ValueError("the worst inputs are not as many as the count says, or have no names")
    tally.worst = sorted(entries, key=_severity)
    if sum(entry.value == math.inf for entry in entries) != min(tally.infinite, most):
        raise ValueError("the worst inputs are not as many infinite ones as were counted")
    if tally.infinite < count:
        float(tally.sum / (count - tally.infinite))  # overflows where it is no sum of float64 numbers
    return tally


def _to_plain(value: float) -> float | str:
    return "inf" if value == math.inf else value


def _from_plain(value: Any) -> float:
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _whole(value: Any, least: int = 0, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        raise ValueError(f"{value!r} is no count")
    return value


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not strict JSON")
