"""Inputs from wherever they come; what cannot be read is named, and nothing is passed over in silence."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from metaop.debug.cradle import Feeds, SizedFeeds, open_feeds
from metaop.debug.cradle.feeds import read_feeds
from metaop.errors import FeedError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "inputs"
    made.mkdir()
    for name, value in [("b", 2.0), ("a", 1.0), ("a10", 3.0)]:
        np.savez(made / f"{name}.npz", x=np.float32(value))
    (made / "notes.txt").write_text("not an input")
    return made


def test_a_list() -> None:
    feeds = open_feeds([{"x": 1}, {"x": 2}])
    assert isinstance(feeds, SizedFeeds)
    assert len(feeds) == 2
    for _ in range(2):
        assert list(feeds) == [("0", {"x": 1}), ("1", {"x": 2})]
    assert open_feeds(feeds) is feeds
    assert list(open_feeds([])) == []


def test_items_with_names() -> None:
    assert list(open_feeds([("cat", {"x": 1}), ("0", {"x": 2})])) == [("cat", {"x": 1}), ("0", {"x": 2})]
    for wrong in ([("cat", {}), {}], [{}, ("cat", {})]):
        with pytest.raises(FeedError, match="all inputs are given with a name, or none"):
            list(open_feeds(wrong))
    with pytest.raises(FeedError, match="'cat' is given twice"):
        list(open_feeds([("cat", {}), ("dog", {}), ("cat", {})]))


def test_a_generator_is_read_lazily_and_once() -> None:
    drawn = []

    def generate() -> Iterator[dict[str, int]]:
        for i in range(3):
            drawn.append(i)
            yield {"x": i}

    feeds = open_feeds(generate())
    assert not isinstance(feeds, SizedFeeds)
    with pytest.raises(TypeError):
        len(feeds)  # type: ignore[arg-type]
    assert bool(feeds)
    running = iter(feeds)
    assert drawn == []
    assert next(running) == ("0", {"x": 0})
    assert drawn == [0]
    assert [name for name, _ in running] == ["1", "2"]
    with pytest.raises(FeedError, match="used up"):
        iter(feeds)


def test_an_iterable_that_may_or_may_not_know_its_length() -> None:
    class Loader:
        def __init__(self, length: int | None) -> None:
            self.length = length

        def __iter__(self) -> Iterator[dict[str, int]]:
            return iter([{"x": 1}, {"x": 2}])

        def __len__(self) -> int:
            if self.length is None:
                raise TypeError("the length is not known")
            return self.length

    sized, unsized = open_feeds(Loader(2)), open_feeds(Loader(None))
    assert isinstance(sized, SizedFeeds)
    assert len(sized) == 2
    assert type(unsized) is Feeds
    assert list(sized) == list(unsized) == list(unsized)


@pytest.mark.parametrize("source", [{"x": 1.0}, np.zeros(3), b"inputs", 3, None], ids=lambda s: type(s).__name__)
def test_what_is_no_source(source: object) -> None:
    with pytest.raises(FeedError):
        open_feeds(source)  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [1.0, "x", np.zeros(2), [("x", 1)], ("a", "b"), (1, {})])
def test_an_item_that_is_no_feed_is_named(item: object) -> None:
    with pytest.raises(FeedError, match=r"input '(1|a)' must be a dict"):
        list(open_feeds([item] if isinstance(item, tuple) and item[0] == "a" else [{}, item]))


# -- folders -----------------------------------------------------------------------------------------------------------


def test_a_folder_in_the_order_of_names(folder: Path) -> None:
    for source in (folder, str(folder), folder / ".." / folder.name):
        feeds = open_feeds(source)
        assert isinstance(feeds, SizedFeeds)
        assert len(feeds) == 3
        assert [(name, float(feed["x"])) for name, feed in feeds] == [("a", 1.0), ("a10", 3.0), ("b", 2.0)]
    (folder / "c.NPZ").write_bytes((folder / "a.npz").read_bytes())
    assert "c.NPZ" in [name for name, _ in open_feeds(folder)]


def test_one_file(folder: Path) -> None:
    assert [(name, list(feed)) for name, feed in open_feeds(folder / "b.npz")] == [("b", ["x"])]


def test_what_is_not_there(folder: Path) -> None:
    with pytest.raises(FeedError, match="do not exist"):
        open_feeds(folder / "nothing")
    (folder / "empty").mkdir()
    with pytest.raises(FeedError, match=r"holds no \.npz"):
        open_feeds(folder / "empty")
    feeds = open_feeds(folder)
    (folder / "b.npz").unlink()
    with pytest.raises(FeedError, match=r"b\.npz' do not exist"):
        list(feeds)


def test_links(folder: Path, tmp_path: Path) -> None:
    (folder / "c.npz").symlink_to("a.npz")
    assert [name for name, _ in open_feeds(folder)] == ["a", "a10", "b", "c"]
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    assert len(list(open_feeds(linked))) == 4, "the folder itself may be a link"

    np.savez(tmp_path / "secret.npz", x=1.0)
    np.savez(tmp_path / "inputs-2.npz", x=1.0)
    for target in (tmp_path / "secret.npz", Path("../secret.npz"), Path("../inputs-2.npz")):
        (folder / "d.npz").symlink_to(target)
        with pytest.raises(FeedError, match=r"d\.npz' is a link that leaves its folder"):
            open_feeds(folder)
        (folder / "d.npz").unlink()
    for target in ("nothing.npz", "d.npz"):
        (folder / "d.npz").symlink_to(target)
        with pytest.raises(FeedError, match=r"d\.npz' cannot be read"):
            open_feeds(folder)
        (folder / "d.npz").unlink()


def test_what_is_no_file(folder: Path) -> None:
    (folder / "d.npz").mkdir()
    with pytest.raises(FeedError, match=r"d\.npz' is not a file"):
        open_feeds(folder)
    (folder / "d.npz").rmdir()
    os.mkfifo(folder / "d.npz")
    with pytest.raises(FeedError, match=r"d\.npz' is not a file"):
        open_feeds(folder)


def test_a_file_that_cannot_be_read_is_named_and_those_before_it_are_read(folder: Path) -> None:
    (folder / "a10.npz").write_bytes(b"PK\x03\x04 and no more")
    running = iter(open_feeds(folder))
    assert next(running)[0] == "a"
    with pytest.raises(FeedError, match=r"a10\.npz"):
        next(running)


class Harmful:
    """Unpickling it would be seen."""

    def __reduce__(self) -> tuple:
        return (pytest.fail, ("unpickled",))


def test_hostile_files(folder: Path) -> None:
    path = folder / "a.npz"
    np.savez(path, x=np.array([Harmful()], dtype=object))
    with pytest.raises(FeedError, match="no plain array"):
        read_feeds(path)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FeedError, match="without a name"):
        read_feeds(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "hello")
    with pytest.raises(FeedError, match="'readme', which is no array"):
        read_feeds(path)
    array = (folder / "x.npy", np.zeros(3))
    np.save(*array)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(array[0], "x.npy")
        archive.write(array[0], "x")
    with pytest.raises(FeedError, match="two arrays of one name"):
        read_feeds(path)


def test_any_damage_is_a_feed_error_or_harmless(folder: Path) -> None:
    """Every byte of a compressed file, and every length."""
    path = folder / "a.npz"
    np.savez_compressed(path, x=np.arange(4, dtype=np.float32))
    whole = path.read_bytes()
    messages = []
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 0xFF
        for damaged in (bytes(flipped), whole[:position]):
            path.write_bytes(damaged)
            with contextlib.suppress(FeedError):
                read_feeds(path)
                continue
            with pytest.raises(FeedError) as caught:
                read_feeds(path)
            messages.append(str(caught.value))
    assert len(messages) > len(whole)
    assert all("a.npz" in message for message in messages)
