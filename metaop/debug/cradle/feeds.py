"""Many inputs one after the other, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from metaop.errors import FeedError

__all__ = ["Feeds", "FeedsSource", "SizedFeeds", "open_feeds", "read_feeds"]

#: what is fed at one run: values by placeholder or by its name
Feed = Mapping[Any, Any]
FeedsSource = str | PathLike[str] | Iterable[Any]


class Feeds:
    """Pairs of a name and what is fed; made by :func:`open_feeds`.

    Lists, files and folders can be gone through again and again, a generator once; a second attempt is refused.

    >>> [name for name, feed in open_feeds(iter([{"x": 1.0}, {"x": 2.0}]))]
    ['0', '1']
    """

    def __init__(self, start: Callable[[], Iterator[tuple[str, Feed]]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[tuple[str, Feed]]:
        return self._start()


class SizedFeeds(Feeds):
    """Feeds of which it is known how many there are.

    >>> len(open_feeds([{"x": 1.0}, {"x": 2.0}]))
    2
    """

    def __init__(self, start: Callable[[], Iterator[tuple[str, Feed]]], length: int) -> None:
        super().__init__(start)
        self._length = length

    def __len__(self) -> int:
        return self._length


def open_feeds(source: FeedsSource) -> Feeds:
    """The inputs in ``source``: a list or any iterable of dicts, a folder of ``.npz`` files, or one such file.

    Names are positions from 0, or those of the files, which come in the order of their names; the items may also be
    pairs of a name and a dict. A folder is looked at once, its files are read one by one as they are reached. Links
    that leave the folder are refused. :class:`SizedFeeds` is returned where the number of inputs is known.

    >>> for name, feed in open_feeds([("usual", {"x": 1.0}), ("outlier", {"x": 1e9})]):
    ...     print(name, feed)
    usual {'x': 1.0}
    outlier {'x': 1000000000.0}
    """
    if isinstance(source, str | PathLike):
        paths = _paths(Path(source))
        return SizedFeeds(lambda: ((path.name.removesuffix(".npz"), read_feeds(path)) for path in paths), len(paths))
    if isinstance(source, Feeds):
        return source
    if isinstance(source, Mapping):
        raise FeedError("this is one feed; to go through several, or just this one, put them into a list")
    if isinstance(source, np.ndarray | bytes) or not isinstance(source, Iterable):
        raise FeedError(f"inputs are a list or an iterable of dicts, or a folder of .npz; got {type(source).__name__}")
    if isinstance(source, Iterator):
        return Feeds(_once(source))
    try:
        length = len(source)  # type: ignore[arg-type]  # some have none, and some do not know it
    except TypeError:
        return Feeds(lambda: _named(source))
    return SizedFeeds(lambda: _named(source), length)


def read_feeds(path: str | PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by name; never pickled objects.

    >>> read_feeds("no/such.npz")
    Traceback (most recent call last):
    ...
    metaop.errors.FeedError: the data 'no/such.npz' do not exist
    """
    name = fspath(path)
    try:
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise FeedError(f"{name!r} holds an array without a name: use numpy.savez(file, name=array)")
        with archive:
            if len(set(archive.files)) < len(archive.files):
                raise FeedError(f"{name!r} holds two arrays of one name: {', '.join(map(repr, archive.files))}")
            arrays = {member: archive[member] for member in archive.files}
    except FeedError:
        raise
    except FileNotFoundError:
        raise FeedError(f"the data {name!r} do not exist") from None
    except Exception as error:
        # Damaged archives raise whatever NumPy, zipfile and zlib happen to trip over.
        reason = str(error) or type(error).__name__
        raise FeedError(f"{name!r} is not an .npz file, or holds what is no plain array ({reason})") from None
    for member, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise FeedError(f"{name!r} holds {member!r}, which is no array")
    return arrays


def _paths(source: Path) -> list[Path]:
    """The files of a folder in order; or the one file."""
    if not source.exists():
        raise FeedError(f"the data {str(source)!r} do not exist")
    if not source.is_dir():
        return [source]
    try:
        found = sorted((path for path in source.iterdir() if path.suffix.lower() == ".npz"), key=lambda path: path.name)
    except OSError as error:
        raise FeedError(f"the folder {str(source)!r} cannot be read ({error})") from None
    if not found:
        raise FeedError(f"the folder {str(source)!r} holds no .npz file")
    inside = source.resolve()
    for path in found:
        try:
            leaves = not path.resolve(strict=True).is_relative_to(inside)
        except (OSError, RuntimeError) as error:  # a link to nothing, or in a circle
            raise FeedError(f"{str(path)!r} cannot be read ({error})") from None
        if leaves:
            raise FeedError(f"{str(path)!r} is a link that leaves its folder; copy the file, or link the whole folder")
        if not path.is_file():
            raise FeedError(f"{str(path)!r} is not a file")
    return found


def _once(source: Iterator[Any]) -> Callable[[], Iterator[tuple[str, Feed]]]:
    used = False

    def start() -> Iterator[tuple[str, Feed]]:
        # No inputs at all would look like inputs that all agree.
        nonlocal used
        if used:
            raise FeedError("these inputs came from a generator and are used up; give a list to go through them again")
        used = True
        return _named(source)

    return start


def _named(items: Iterable[Any]) -> Iterator[tuple[str, Feed]]:
    """The items by position or, if they are pairs, by their own names."""
    names: set[str] = set()
    for position, item in enumerate(items):
        paired = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)
        name, feed = item if paired else (str(position), item)
        if not isinstance(feed, Mapping):
            raise FeedError(
                f"input {name!r} must be a dict from placeholders or their names to data; got {type(feed).__name__}"
            )
        if position and paired != bool(names):
            raise FeedError(f"input {name!r}: either all inputs are given with a name, or none")
        if name in names:
            raise FeedError(f"input {name!r} is given twice; what is found is told by the inputs' names")
        if paired:
            names.add(name)
        yield name, feed
