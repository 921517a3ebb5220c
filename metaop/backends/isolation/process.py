"""Worker processes as the session sees them: started, spoken to, timed, buried and replaced."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from metaop.backends.isolation.protocol import Channel, ChannelClosed, ProtocolError
from metaop.errors import BackendError, FrameworkError, UnsupportedOpError

__all__ = ["Limits", "Worker", "WorkerDied", "WorkerTimeout", "limits"]


_STEP = struct.Struct("<i")


class WorkerDied(FrameworkError):
    """The worker process ended while it computed; ``signal`` names the signal, where one was the cause."""

    status = "crash"

    def __init__(self, message: str, *, signal: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal


class WorkerTimeout(FrameworkError):
    """The worker did not answer in time and was ended."""

    status = "timeout"


@dataclass(frozen=True)
class Limits:
    """What a request to a worker may take: seconds (``None``: no limit) and, from its start, bytes of address space."""

    timeout: float | None = 600.0
    memory: int | None = None
    #: how long a worker may take to start, import its framework and say hello
    start: float = 120.0


_DEFAULT = Limits()
_limits: ContextVar[Limits] = ContextVar("metaop_limits", default=_DEFAULT)


@contextlib.contextmanager
def limits(**changes: Any) -> Iterator[Limits]:
    """Within this block (and this thread), workers get other limits than the default ones.

    >>> with limits(timeout=5.0) as now:
    ...     now.timeout
    5.0
    """
    token = _limits.set(replace(_limits.get(), **changes))
    try:
        yield _limits.get()
    finally:
        _limits.reset(token)


@dataclass(frozen=True)
class Launch:
    """How a worker is started: its interpreter, the package with its bindings, its device, and its environment."""

    name: str
    python: str
    package: str
    device: str | None = None
    environment: Mapping[str, str] | None = None


class Worker:
    """One worker process; replaced by a new one, with a higher ``generation``, after it died."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.generation = 0
        self.about: dict[str, Any] = {}
        self.lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._stop: weakref.finalize | None = None
        self._progress: IO[bytes] | None = None
        self._memory: int | None = None
        #: the step of a program that the last process had begun last
        self.last_step: int | None = None

    @property
    def pid(self) -> int | None:
        """The process id, while one runs."""
        return self._process.pid if self._process is not None else None

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> dict[str, Any]:
        """Start the process if none runs; what it says of itself."""
        with self.lock:
            if self._channel is None:
                self._start()
            return self.about

    def _start(self) -> None:
        root = Path(__file__).resolve().parents[2]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        lifeline, keep = os.pipe()
        progress = tempfile.TemporaryFile()  # noqa: SIM115  closed when the worker stops
        progress.write(_STEP.pack(-1))
        progress.flush()
        now = _limits.get()
        self._memory = now.memory
        arguments = [
            self.launch.python,
            str(root / "backends" / "isolation" / "worker.py"),
            str(root),
            self.launch.package,
            self.launch.device or "",
            str(theirs.fileno()),
            str(lifeline),
            str(progress.fileno()),
            str(now.memory or 0),
        ]
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")}
        environment.update(self.launch.environment or {})
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=(theirs.fileno(), lifeline, progress.fileno()),
            )
        except OSError as error:
            ours.close()
            os.close(keep)
            progress.close()
            raise BackendError(
                f"{self.launch.name}: the worker's Python {self.launch.python} does not start: {error}"
            ) from error
        finally:
            theirs.close()
            os.close(lifeline)
        self._channel = Channel(ours)
        self._progress = progress
        self.generation += 1
        self._stop = weakref.finalize(self, _end, self._process, self._channel, keep)
        self.about, _ = self.request({"do": "hello"}, timeout=now.start)

    def stop(self) -> None:
        """End the process; the next request starts a new one."""
        with self.lock:
            if self._stop is not None:
                self._stop()
            if self._progress is not None:
                self.last_step = int(_STEP.unpack(os.pread(self._progress.fileno(), _STEP.size, 0))[0])
                self._progress.close()
            self._channel = self._process = self._stop = self._progress = None

    # -- requests -----------------------------------------------------------------------------------------------------

    def request(
        self, header: dict[str, Any], tensors: Sequence[np.ndarray] = (), timeout: float | None = -1.0
    ) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Send a request and wait for its answer; failures become exceptions and, where the process is lost, end it."""
        with self.lock:
            channel = self._channel
            if channel is None:
                raise WorkerDied(f"{self.launch.name}: the worker is not running")
            limit = _limits.get().timeout if timeout == -1.0 else timeout
            try:
                channel.send(header, tensors)
                self._wait(channel, limit)
                answer, found = channel.receive()
            except ChannelClosed:
                raise self._died() from None
            except ProtocolError as error:
                self.stop()
                raise WorkerDied(f"{self.launch.name}: the worker answered nonsense ({error}) and was ended") from None
            except BaseException:
                # An answer that nobody waits for would be taken for that of the next request.
                self.stop()
                raise
            if "error" in answer:
                raise self._explain(answer)
            return answer, found

    def _wait(self, channel: Channel, limit: float | None) -> None:
        if channel.wait(limit):
            return
        assert self._process is not None
        self._process.kill()  # what hangs does not always notice that it should end
        self.stop()
        raise WorkerTimeout(f"{self.launch.name}: no answer within {limit:g} s; the worker was ended")

    def _died(self) -> WorkerDied:
        process = self._process
        code = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout=5.0)
        self.stop()
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return WorkerDied(f"{self.launch.name}: the worker was killed by {name}", signal=name)
        return WorkerDied(f"{self.launch.name}: the worker ended unexpectedly (exit code {code})")

    def _explain(self, answer: Mapping[str, Any]) -> Exception:
        message = answer["message"]
        if self._memory and re.search("alloc|memory", f"{answer['type']} {message}", re.IGNORECASE):
            message = f"{message or 'no message'} (the worker may take {self._memory / 1e9:.2f} GB)"
        if answer["error"] == "unsupported":
            refused = UnsupportedOpError(message)
            refused.step = answer.get("step")  # type: ignore[attr-defined]
            return refused
        if answer["error"] == "start":
            self.stop()
            return BackendError(
                f"{self.launch.name}: the worker cannot load its framework: {answer['type']}: {message}"
            )
        if answer["error"] == "lost":
            self.stop()
            return WorkerDied(f"{self.launch.name}: the worker could not go on: {answer['type']}: {message}")
        return RemoteError(answer["type"], message, answer.get("step"), answer["traceback"])


class RemoteError(Exception):
    """A framework's exception in a worker, as text; ``step`` is the failing step of a program."""

    def __init__(self, kind: str, message: str, step: int | None, traceback: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.step = step
        self.traceback = traceback


def _end(process: subprocess.Popen[bytes], channel: Channel, lifeline: int) -> None:
    channel.close()
    os.close(lifeline)  # the kernel ends the worker, see worker._die_with_parent
    deadline = time.monotonic() + 2.0
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    if process.poll() is None:
        process.kill()
        process.wait()
