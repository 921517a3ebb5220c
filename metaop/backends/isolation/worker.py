"""The process that computes for an isolated backend.

It is started as a script, in an environment that has NumPy and the framework but not metaop, on Python 3.6 or newer. It
answers one request at a time; tensors stay here under numbers that the other side chooses, until it lets go of them.
"""

import importlib
import importlib.util
import json
import mmap
import os
import signal
import socket
import struct
import sys
import traceback
import types

_STEP = struct.Struct("<i").pack


def _mount(root):
    """Make ``metaop.backends.<framework>`` importable without running metaop's own ``__init__``, which needs a newer
    Python.
    """
    for name, parts in (
        ("metaop", ()),
        ("metaop.backends", ("backends",)),
        ("metaop.backends.isolation", ("backends", "isolation")),
    ):
        module = types.ModuleType(name)
        module.__path__ = [os.path.join(root, *parts)]
        sys.modules[name] = module


def _die_with_parent(lifeline):
    """Have the kernel end this process when the parent's end of the pipe closes, even while C code runs."""
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC if hasattr(os, "O_ASYNC") else flags | 0o20000)


def _limit_memory(size):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _keep_freed_memory():
    """Have the C library keep memory that is freed, as it does by itself after large blocks have come and gone.

    A worker gets its large arrays as shared memory, so that this would not happen here: each run of a network would
    fault in all its pages again.
    """
    import numpy

    numpy.empty((32 << 20) - (1 << 16), numpy.uint8)  # just less than the largest that counts


def _failure(kind, error):
    """The answer that tells of an exception, which is being handled."""
    return {
        "error": kind,
        "type": type(error).__name__,
        "message": str(error),
        "step": getattr(error, "metaop_step", None),
        "traceback": traceback.format_exc(),
    }


class Server:
    """Holds tensors, programs and pullbacks, and answers requests."""

    def __init__(self, channel, backend, progress):
        self.channel = channel
        self.progress = progress
        self.backend = backend
        self.tensors = {}
        self.programs = {}
        self.pullbacks = {}

    # -- requests -----------------------------------------------------------------------------------------------------

    def hello(self, request):
        backend = self.backend
        reasons = {op: backend.bindings.reason(op) for op in backend.bindings.table}
        return {
            "version": backend.version(),
            "python": sys.version.split()[0],
            "pid": os.getpid(),
            "gradients": backend.gradients,
            "reasons": reasons,
            "bfloat16": importlib.util.find_spec("ml_dtypes") is not None,
        }, []

    def call(self, request):
        attrs = protocol.decode_attrs(request["attrs"])
        function, keywords = self.backend.prepare(request["op"], attrs, None)
        outputs = base.as_tuple(function(*self._inputs(request["inputs"]), **keywords))
        return self._reply(request, outputs)

    def program(self, request):
        steps = []
        for index, (op, attrs, inputs, outputs, dead) in enumerate(request["steps"]):
            try:
                function, keywords = self.backend.prepare(op, protocol.decode_attrs(attrs), None)
            except Exception as error:
                error.metaop_step = index
                raise
            steps.append((function, keywords, inputs, outputs, dead))
        self.programs[request["id"]] = (steps, request["arguments"], request["results"])
        return {}, []

    def run(self, request):
        steps, arguments, results = self.programs[request["id"]]
        slots = dict(zip(arguments, self._inputs(request["inputs"])))
        for index, (function, keywords, inputs, outputs, dead) in enumerate(steps):
            # Should this kill the process, the other side reads here which step it was.
            self.progress[:4] = _STEP(index)
            try:
                found = function(*[None if i is None else slots[i] for i in inputs], **keywords)
            except Exception as error:
                error.metaop_step = index
                raise
            if len(outputs) == 1 and not isinstance(found, (tuple, list)):
                slots[outputs[0]] = found
            else:
                for slot, tensor in zip(outputs, found):
                    slots[slot] = tensor
            del found
            for slot in dead:
                del slots[slot]
        return self._reply(request, [slots[s] for s in results])

    def linearize(self, request):
        inputs = self._inputs(request["inputs"])
        attrs = protocol.decode_attrs(request["attrs"])
        outputs, pullback = self.backend.linearize(request["op"], attrs, inputs, request["wrt"])
        self.pullbacks[request["pullback"]] = pullback
        return self._reply(request, outputs)

    def pull(self, request):
        found = self.pullbacks[request["pullback"]](self._inputs(request["inputs"]))
        header, tensors = self._reply(request, [g for g in found if g is not None])
        header["absent"] = [i for i, g in enumerate(found) if g is None]
        return header, tensors

    def fetch(self, request):
        return {}, [self.backend.to_numpy(self.tensors[number]) for number in request["inputs"]]

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _inputs(self, numbers):
        return [None if n is None else self.tensors[n] for n in numbers]

    def _reply(self, request, outputs):
        """Keep the outputs under the numbers given; send along those that are wanted or small."""
        types, sent, tensors = [], [], []
        for number, output in enumerate(outputs, request["outputs"]):
            self.tensors[number] = output
            dtype, shape = self.backend.type_of(output)
            types.append([protocol.dtype_name(dtype), list(shape)])
            size = dtype.itemsize
            for n in shape:
                size *= n
            if request.get("fetch") or size <= request.get("small", 0):
                sent.append(len(types) - 1)
                tensors.append(self.backend.to_numpy(output))
        return {"types": types, "sent": sent, "count": len(outputs)}, tensors

    def serve(self):
        """Answer until the other side is gone."""
        while True:
            try:
                self.channel.wait()
                request, arrays = self.channel.receive()
            except protocol.ChannelClosed:
                return
            except Exception as error:
                # No memory to map a tensor, say. What came is lost, and the other side would take it for known here.
                self.channel.send(_failure("lost", error))
                return
            for number in request.pop("free", ()):
                self.tensors.pop(number, None)
            for number in request.pop("forget", ()):
                self.pullbacks.pop(number, None)
            for number in request.pop("drop", ()):
                self.programs.pop(number, None)
            try:
                for number, array in zip(request.pop("put", ()), arrays):
                    self.tensors[number] = self.backend.from_numpy(array)
                header, tensors = getattr(self, request["do"])(request)
                self.channel.send(header, tensors)
            except protocol.ChannelClosed:
                return
            except Exception as error:
                # Metaop's own refusals are of that class too, and the framework's count as they do in process.
                kind = "unsupported" if isinstance(error, NotImplementedError) else "failed"
                self.channel.send(_failure(kind, error))


def main(arguments):
    root, package, device, channel, lifeline, progress, memory = arguments
    if int(memory):
        _limit_memory(int(memory))
    _die_with_parent(int(lifeline))
    # An interrupt at the terminal reaches the whole process group: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _mount(root)
    connection = socket.socket(fileno=int(channel))
    global protocol, base
    try:
        _keep_freed_memory()
        protocol = importlib.import_module("metaop.backends.isolation.protocol")
        base = importlib.import_module("metaop.backends.base")
        backend = importlib.import_module(package).BACKEND(device or None)
    except Exception as error:
        # As protocol.Channel sends it, which there is not where NumPy is what does not import.
        text = json.dumps(_failure("start", error)).encode("utf-8")
        connection.sendall(struct.pack("<IQB", len(text), 0, 0) + text)
        return 1
    connection = protocol.Channel(connection)
    Server(connection, backend, mmap.mmap(int(progress), 4)).serve()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Frameworks' own exit handlers have been seen to hang or crash; there is nothing left to save.
    os._exit(code)
