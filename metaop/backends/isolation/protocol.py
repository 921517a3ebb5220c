"""Frames between a session and its workers.

A frame is a fixed prefix (lengths of header and body), a JSON header, and the raw bytes of small tensors. Large
tensors travel as shared memory: an unlinked file whose descriptor goes along with the frame, so that nothing is left
behind whichever side dies. No pickle. This module runs in workers too: it must stay importable on Python 3.6 and
needs NumPy only.
"""

import array
import json
import mmap
import os
import socket
import struct
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

__all__ = ["Channel", "ChannelClosed", "decode_attrs", "encode_attrs"]

_PREFIX = struct.Struct("<IQB")  # length of the header, length of the body, number of descriptors
_MAX_HEADER = 64 << 20
_MAX_DESCRIPTORS = 64
#: tensors of at least this many bytes travel as shared memory
SHARED = 1 << 16
#: fault in all pages at once; ignored by kernels that do not know it
_MAP_POPULATE = 0x8000


class ChannelClosed(Exception):
    """The other side is gone."""


class ProtocolError(Exception):
    """The other side sent something that is not a frame."""


def _shared_directory() -> Optional[str]:
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def share(data: np.ndarray) -> int:
    """A descriptor of an unlinked file that holds the array's bytes."""
    with tempfile.TemporaryFile(dir=_shared_directory(), buffering=0) as file:
        # Written, not mapped: the kernel need not clear the pages first, and a full file system is an error here
        # instead of a SIGBUS.
        rest = memoryview(data.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]
        return os.dup(file.fileno())


def attach(descriptor: int, dtype: np.dtype, shape: Tuple[int, ...]) -> np.ndarray:
    """The array in a shared file; private to this process, freed with the last reference."""
    try:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if os.fstat(descriptor).st_size < size:
            raise ProtocolError("shared memory is smaller than the tensor that it should hold")
        mapped = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | _MAP_POPULATE)
    finally:
        os.close(descriptor)
    return np.frombuffer(mapped, dtype=dtype).reshape(shape)


class Channel:
    """One end of a stream socket that carries frames."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def close(self) -> None:
        """Close this end."""
        self.socket.close()

    def send(self, header: Dict[str, Any], tensors: Sequence[np.ndarray] = ()) -> None:
        """Send a header and tensors; returns when the kernel has taken all of it."""
        descriptors: List[int] = []
        described: List[Any] = []
        chunks: List[Any] = []
        length = 0
        try:
            for tensor in tensors:
                shared = tensor.nbytes >= SHARED and len(descriptors) < _MAX_DESCRIPTORS
                described.append([tensor.dtype.str, tensor.shape, shared])
                if not tensor.flags.c_contiguous:
                    tensor = np.ascontiguousarray(tensor)
                if shared:
                    descriptors.append(share(tensor))
                else:
                    chunks.append(tensor.tobytes())
                    length += tensor.nbytes
            if described:
                header = dict(header, tensors=described)
            text = json.dumps(header, separators=(",", ":")).encode("utf-8")
            data = b"".join([_PREFIX.pack(len(text), length, len(descriptors)), text] + chunks)
            self._send(data, descriptors)
        except (BrokenPipeError, ConnectionError) as error:
            raise ChannelClosed(str(error)) from None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _send(self, data: bytes, descriptors: List[int]) -> None:
        if not descriptors:
            self.socket.sendall(data)
            return
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        sent = self.socket.sendmsg([data], rights)
        if sent < len(data):
            self.socket.sendall(memoryview(data)[sent:])

    def receive(self) -> Tuple[Dict[str, Any], List[np.ndarray]]:
        """The next header and its tensors; :class:`ChannelClosed` where the other side is gone."""
        data, descriptors = self._first()
        try:
            head, length, count = _PREFIX.unpack_from(data)
            if head > _MAX_HEADER or count > _MAX_DESCRIPTORS:
                raise ProtocolError("the other side sent something that is not a frame")
            total = _PREFIX.size + head + length
            while len(data) < total:
                data += self._some(total - len(data))
            if len(descriptors) < count:
                raise ProtocolError("a descriptor is missing")
            try:
                header = json.loads(data[_PREFIX.size : _PREFIX.size + head].decode("utf-8"))
            except ValueError:
                raise ProtocolError("the other side sent a header that is not JSON") from None
            tensors: List[np.ndarray] = []
            offset = _PREFIX.size + head
            for name, shape, shared in header.pop("tensors", ()):
                dtype = np.dtype(name)
                shape = tuple(shape)
                if shared:
                    tensors.append(attach(descriptors.pop(0), dtype, shape))
                else:
                    count = int(np.prod(shape, dtype=np.int64))
                    # bytearray-backed: writable, as frameworks expect of memory that they are handed
                    tensors.append(np.frombuffer(data, dtype=dtype, count=count, offset=offset).reshape(shape).copy())
                    offset += count * dtype.itemsize
            return header, tensors
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _first(self) -> Tuple[bytearray, List[int]]:
        """At least a prefix, and the descriptors that came with it."""
        data = bytearray()
        descriptors: List[int] = []
        room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * struct.calcsize("i"))
        while len(data) < _PREFIX.size:
            try:
                # A frame is answered before the next one is sent: reading ahead cannot take a part of another.
                chunk, rights, _, _ = self.socket.recvmsg(1 << 16, room)
            except (ConnectionError, OSError) as error:
                if isinstance(error, socket.timeout):
                    raise
                raise ChannelClosed(str(error)) from None
            if not chunk:
                raise ChannelClosed("the other side closed the connection")
            for level, kind, payload in rights:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
                    descriptors += numbers
            data += chunk
        return data, descriptors

    def _some(self, most: int) -> bytes:
        try:
            chunk = self.socket.recv(min(most, 1 << 20))
        except ConnectionError as error:
            raise ChannelClosed(str(error)) from None
        if not chunk:
            raise ChannelClosed("the other side closed the connection")
        return chunk


def encode_attrs(attrs: Dict[str, Any]) -> Dict[str, Any]:
    """Attributes as JSON: dtypes are written ``{"dtype": name}``; sequences come back as tuples."""
    return {k: {"dtype": v.name} if isinstance(v, np.dtype) else v for k, v in attrs.items()}


def decode_attrs(attrs: Dict[str, Any]) -> Dict[str, Any]:
    """The inverse of :func:`encode_attrs`."""
    return {k: np.dtype(v["dtype"]) if isinstance(v, dict) else _tuples(v) for k, v in attrs.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
