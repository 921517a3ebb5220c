"""A model's file without its weights.

Protobuf would hold the weights once as the file's bytes, once in its message, and hand them out as one more copy. Here
the few bytes around them are copied instead, and the weights are read from where they lie, once, into their arrays.
Whatever is unusual in the file is left to protobuf altogether.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Span", "skim"]

#: where the bytes of a tensor begin and end in the file
Span = tuple[int, int]

#: smaller tensors stay in the message
LEAST = 1024
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _UnusualError(Exception):
    """Bytes that protobuf may make sense of."""


def skim(content: Any) -> tuple[bytes, list[Span | None]] | None:
    """The file without the data of its initializers, and where these are; ``None`` where protobuf must read all of it.

    ``content`` is anything that indexes as bytes.
    """
    try:
        graphs = [f for f in _fields(content, 0, len(content)) if f[0] == _GRAPH]
        if len(graphs) != 1:
            return None
        _, start, begin, end = graphs[0]
        parts: list[bytes] = []
        spans: list[Span | None] = []
        kept = begin
        for number, field, inner, after in _fields(content, begin, end):
            if number != _INITIALIZER:
                continue
            data = [f for f in _fields(content, inner, after) if f[0] == _RAW_DATA]
            if len(data) > 1:
                return None
            if not data or data[0][3] - data[0][2] < LEAST:
                spans.append(None)
                continue
            _, first, *span = data[0]
            rest = bytes(content[inner:first]) + bytes(content[span[1] : after])
            parts += [bytes(content[kept:field]), _header(_INITIALIZER, len(rest)), rest]
            spans.append((span[0], span[1]))
            kept = after
        graph = b"".join([*parts, bytes(content[kept:end])])
    except (_UnusualError, IndexError):
        return None
    return bytes(content[:start]) + _header(_GRAPH, len(graph)) + graph + bytes(content[end:]), spans


def _fields(content: Any, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, first byte, first byte of what it holds and the byte behind it, of each field of a message."""
    while at < end:
        start = at
        tag, at = _varint(content, at)
        kind, begin = tag & 7, at
        if kind == _BYTES:
            size, begin = _varint(content, at)
            at = begin + size
        elif kind == _VARINT:
            _, at = _varint(content, at)
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise _UnusualError
        if at > end:
            raise _UnusualError
        yield tag >> 3 if kind == _BYTES else -1, start, begin, at


def _varint(content: Any, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise _UnusualError


def _header(number: int, size: int) -> bytes:
    found = bytearray([number << 3 | _BYTES])
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    found.append(size)
    return bytes(found)
