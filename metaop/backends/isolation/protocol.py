"""Frames between a session and its workers.

A frame is a fixed prefix (lengths of header and body), a JSON header, and the raw bytes of small tensors. Large
tensors travel as shared memory: an unlinked file whose descriptor goes along with the frame, so that nothing is left
behind whichever side dies. The sender writes through the descriptor, the receiver maps the file; a few files are kept
for later tensors, each filled anew only after the receiver has said that none of its arrays shows it any more. No
pickle. This module runs in workers too: it must stay importable on Python 3.6 and needs NumPy only.
"""

import array
import json
import mmap
import os
import select
import socket
import struct
import tempfile
import time
import weakref
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

__all__ = ["Channel", "ChannelClosed", "decode_attrs", "encode_attrs"]

_PREFIX = struct.Struct("<IQB")  # length of the header, length of the body, number of descriptors
_MAX_HEADER = 64 << 20
_MAX_DESCRIPTORS = 64
#: tensors of at least this many bytes travel as shared memory
SHARED = 1 << 16
#: files that a sender keeps open for later tensors, whether the receiver still shows them or not
KEPT_FILES = 8
#: bytes in files that nobody shows and that are kept nevertheless
KEPT_BYTES = 128 << 20
#: fault in all pages at once; ignored by kernels that do not know it
_MAP_POPULATE = 0x8000
#: Seconds of looking for a frame again and again before sleeping: to be woken up costs more than a small operator.
_SPIN = 100e-6 if hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1 else 0.0
_ROOM = socket.CMSG_SPACE(_MAX_DESCRIPTORS * struct.calcsize("i"))

_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().decode


class ChannelClosed(Exception):
    """The other side is gone."""


class ProtocolError(Exception):
    """The other side sent something that is not a frame."""


def _shared_directory() -> Optional[str]:
    return "/dev/shm" if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK) else None


def _write(descriptor: int, data: np.ndarray) -> None:
    # Written, not mapped: the kernel need not clear the pages first, a full file system is an error here instead of a
    # SIGBUS, and a kernel that writes where it should not cannot reach what the other side holds.
    rest = memoryview(data.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    offset = 0
    while offset < len(rest):
        offset += os.pwrite(descriptor, rest[offset:], offset)


def _share(data: np.ndarray) -> int:
    """A descriptor of an unlinked file that holds the array's bytes."""
    with tempfile.TemporaryFile(dir=_shared_directory(), buffering=0) as file:
        _write(file.fileno(), data)
        return os.dup(file.fileno())


def _map(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size, flags=mmap.MAP_SHARED | _MAP_POPULATE)


class _Outbox:
    """The files that one side fills, by number; a number is never used again once its file is gone."""

    def __init__(self) -> None:
        #: descriptor and size; the one that was filled last comes last
        self.files: "OrderedDict[int, Tuple[int, int]]" = OrderedDict()
        #: those that the other side does not show any more
        self.free: Set[int] = set()
        #: numbers that the other side should forget
        self.gone: List[int] = []
        self._last = 0

    def put(self, data: np.ndarray) -> Tuple[int, Optional[int]]:
        """The number of a file that holds the data now, and the descriptor where the other side lacks it."""
        size = data.nbytes
        fits = [(self.files[n][1], n) for n in self.free if size <= self.files[n][1] <= 4 * size]
        if fits:
            number = min(fits)[1]
            _write(self.files[number][0], data)
            self.free.discard(number)
            self.files.move_to_end(number)
            return number, None
        descriptor = _share(data)
        self._last += 1
        self.files[self._last] = (descriptor, size)
        return self._last, descriptor

    def take_back(self, number: int, sent: bool = True) -> None:
        """Nobody shows this file any more, if it is still known; one that was never sent is of no use."""
        if number in self.files:
            self.free.add(number)
            if not sent:
                self._close(number)

    def trim(self) -> None:
        """Close what is too much, the longest unused first; the other side may show such a file as long as it likes."""
        while len(self.files) > KEPT_FILES:
            self._drop(next(iter(self.files)))
        idle = sum(self.files[n][1] for n in self.free)
        for number in [n for n in self.files if n in self.free]:
            if idle <= KEPT_BYTES:
                break
            idle -= self.files[number][1]
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._close(number)
        self.gone.append(number)

    def _close(self, number: int) -> None:
        os.close(self.files.pop(number)[0])
        self.free.discard(number)

    def close(self) -> None:
        """Close all files."""
        for number in list(self.files):
            self._close(number)


class _Inbox:
    """The files that the other side fills, mapped here; who shows one holds the array that :meth:`show` made first."""

    def __init__(self) -> None:
        self.mapped: Dict[int, mmap.mmap] = {}
        #: numbers of files that nobody shows any more
        self.back: List[int] = []
        self.loans: Dict[int, Any] = {}
        _inboxes.add(self)

    def show(self, number: int, dtype: np.dtype, shape: Tuple[int, ...]) -> np.ndarray:
        """The array in a mapped file; the file is given back when the last view of the array is gone."""
        size = _count(shape) * dtype.itemsize
        mapped = self.mapped[number]
        if len(mapped) < size:
            raise ProtocolError("shared memory is smaller than the tensor that it should hold")
        # All views hold this one, for NumPy does not look for owners behind an array whose memory is not an array's.
        # Arrays are not tracked by the collector of cycles: the callback means that the memory is out of reach.
        whole = np.frombuffer(mapped, dtype=np.uint8, count=size)
        loans, back = self.loans, self.back

        def done(_: Any) -> None:
            loans.pop(number, None)
            back.append(number)

        loans[number] = weakref.ref(whole, done)
        return whole.view(dtype).reshape(shape)


#: every inbox of this process
_inboxes: "weakref.WeakSet[_Inbox]" = weakref.WeakSet()


def _keep_for_children() -> None:
    # A forked child sees the same memory and may hold it longer than this process: it is never given back.
    for inbox in list(_inboxes):
        inbox.loans.clear()


if hasattr(os, "register_at_fork"):  # from Python 3.7 on
    os.register_at_fork(before=_keep_for_children)


class Channel:
    """One end of a stream socket that carries frames."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._buffer = bytearray(1 << 16)
        self._outbox = _Outbox()
        self._inbox = _Inbox()

    def close(self) -> None:
        """Close this end; arrays that came through it stay."""
        self.socket.close()
        self._outbox.close()

    def send(self, header: Dict[str, Any], tensors: Sequence[np.ndarray] = ()) -> None:
        """Send a header and tensors; returns when the kernel has taken all of it."""
        outbox, inbox = self._outbox, self._inbox
        descriptors: List[int] = []
        described: List[Any] = []
        chunks: List[Any] = [b"", b""]
        placed: List[Tuple[int, bool]] = []
        length = 0
        back, gone = inbox.back[:], outbox.gone[:]
        try:
            for tensor in tensors:
                number = 0
                if not tensor.flags.c_contiguous:
                    # This makes an array of one element of one without dimensions.
                    tensor = np.ascontiguousarray(tensor).reshape(tensor.shape)
                if tensor.nbytes >= SHARED and len(descriptors) < _MAX_DESCRIPTORS:
                    number, descriptor = outbox.put(tensor)
                    placed.append((number, descriptor is None))
                    if descriptor is not None:
                        descriptors.append(descriptor)
                else:
                    chunks.append(tensor.tobytes())
                    length += tensor.nbytes
                described.append([dtype_name(tensor.dtype), tensor.shape, number])
            if described or back or gone:
                header = dict(header, tensors=described)
                if back:
                    header["back"] = back
                if gone:
                    header["gone"] = gone
            text = chunks[1] = _encode(header).encode("utf-8")
            chunks[0] = _PREFIX.pack(len(text), length, len(descriptors))
        except BaseException:
            for number, known in placed:
                outbox.take_back(number, sent=known)
            raise
        try:
            self._send(b"".join(chunks), descriptors)
        except (BrokenPipeError, ConnectionError) as error:
            raise ChannelClosed(str(error)) from None
        # Whatever ended meanwhile was put behind these.
        del inbox.back[: len(back)], outbox.gone[: len(gone)]
        if placed:
            outbox.trim()

    def _send(self, data: bytes, descriptors: List[int]) -> None:
        if not descriptors:
            self.socket.sendall(data)
            return
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        sent = self.socket.sendmsg([data], rights)
        if sent < len(data):
            self.socket.sendall(memoryview(data)[sent:])

    def wait(self, limit: Optional[float] = None) -> bool:
        """Wait until something can be received, or the other side is gone; false after so many seconds."""
        poll = self._poll.poll
        if _SPIN:
            end = time.perf_counter() + _SPIN
            while time.perf_counter() < end:
                if poll(0):
                    return True
                # The other side may have been put on this very processor: it would get no turn.
                os.sched_yield()
        return bool(poll(None if limit is None else max(1, int(limit * 1000))))

    def receive(self) -> Tuple[Dict[str, Any], List[np.ndarray]]:
        """The next header and its tensors; :class:`ChannelClosed` where the other side is gone."""
        have, descriptors = self._first()
        try:
            data = self._buffer
            head, length, count = _PREFIX.unpack_from(data)
            if head > _MAX_HEADER or count > _MAX_DESCRIPTORS:
                raise ProtocolError("the other side sent something that is not a frame")
            offset = _PREFIX.size + head
            total = offset + length
            if have < total:
                data = self._rest(have, total)
            if len(descriptors) < count:
                raise ProtocolError("a descriptor is missing")
            try:
                header = _decode(data[_PREFIX.size : offset].decode("utf-8"))
            except ValueError:
                raise ProtocolError("the other side sent a header that is not JSON") from None
            inbox = self._inbox
            for number in header.pop("gone", ()):
                inbox.mapped.pop(number, None)
            back = header.pop("back", ())
            if back:
                for number in back:
                    self._outbox.take_back(number)
                self._outbox.trim()
            tensors: List[np.ndarray] = []
            for name, shape, number in header.pop("tensors", ()):
                dtype = find_dtype(name)
                shape = tuple(shape)
                if number:
                    if number not in inbox.mapped:
                        if not descriptors:
                            raise ProtocolError("a descriptor is missing")
                        descriptor = descriptors.pop(0)
                        try:
                            inbox.mapped[number] = _map(descriptor)
                        finally:
                            os.close(descriptor)
                    tensors.append(inbox.show(number, dtype, shape))
                else:
                    count = _count(shape)
                    # A copy: aligned, and not overwritten by the next frame.
                    tensors.append(np.frombuffer(data, dtype, count, offset).reshape(shape).copy())
                    offset += count * dtype.itemsize
            return header, tensors
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _first(self) -> Tuple[int, List[int]]:
        """At least a prefix in the buffer: how many bytes, and the descriptors that came with them."""
        have = 0
        descriptors: List[int] = []
        view = memoryview(self._buffer)
        while have < _PREFIX.size:
            try:
                # A frame is answered before the next one is sent: reading ahead cannot take a part of another.
                size, rights, _, _ = self.socket.recvmsg_into([view[have:]], _ROOM)
            except (ConnectionError, OSError) as error:
                if isinstance(error, socket.timeout):
                    raise
                raise ChannelClosed(str(error)) from None
            if not size:
                raise ChannelClosed("the other side closed the connection")
            for level, kind, payload in rights:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
                    descriptors += numbers
            have += size
        return have, descriptors

    def _rest(self, have: int, total: int) -> bytearray:
        """The whole frame, of which some bytes are in the buffer."""
        data = bytearray(total)
        data[:have] = self._buffer[:have]
        view = memoryview(data)
        while have < total:
            try:
                size = self.socket.recv_into(view[have:])
            except ConnectionError as error:
                raise ChannelClosed(str(error)) from None
            if not size:
                raise ChannelClosed("the other side closed the connection")
            have += size
        return data


def _count(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def dtype_name(dtype: np.dtype) -> str:
    """What :func:`find_dtype` finds the dtype by: NumPy's own letters say of bfloat16 only how large it is."""
    return dtype.name if dtype.kind == "V" else dtype.str


def find_dtype(name: str) -> np.dtype:
    """The dtype of a name."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ProtocolError("bfloat16 needs the package ml_dtypes in the worker's environment") from None
    return np.dtype(ml_dtypes.bfloat16)


def encode_attrs(attrs: Dict[str, Any]) -> Dict[str, Any]:
    """Attributes as JSON: dtypes are written ``{"dtype": name}``; sequences come back as tuples."""
    return {k: {"dtype": v.name} if isinstance(v, np.dtype) else v for k, v in attrs.items()}


def decode_attrs(attrs: Dict[str, Any]) -> Dict[str, Any]:
    """The inverse of :func:`encode_attrs`."""
    return {k: find_dtype(v["dtype"]) if isinstance(v, dict) else _tuples(v) for k, v in attrs.items()}


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
