"""ONNX Runtime's sessions: one per operator, attributes and input types, built once and kept.

Tensors are NumPy arrays. There is no autodiff, so gradients are derived: metaop's rules, computed by these sessions.
"""

import functools
import re

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

from metaop.backends.base import Backend, as_tuple
from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import OLDEST_RUNTIME, RUNTIME, Graph, NoKernel
from metaop.errors import BackendError, DeviceError, UnsupportedOpError

#: A session of one operator takes about 40 KB, and 0.2 ms to build.
CACHED_SESSIONS = 1024

_CUDA = re.compile(r"cuda(?::(\d+))?")


class OnnxRuntimeBackend(Backend):
    """Tensors are arrays; gradients are derived."""

    name = "onnxruntime"
    bindings = bind

    def __init__(self, device=None):
        if RUNTIME < OLDEST_RUNTIME:
            raise BackendError(
                "onnxruntime {} is too old: the bindings need {}.{} upward".format(
                    onnxruntime.__version__, *OLDEST_RUNTIME
                )
            )
        # functools' cache is bounded and thread-safe; two threads may at worst build the same session at once.
        self._compiled = functools.lru_cache(maxsize=CACHED_SESSIONS)(self._compile)
        super().__init__(device)

    def version(self):
        return onnxruntime.__version__

    def check_device(self):
        self._providers = ["CPUExecutionProvider"]
        if self.device in (None, "cpu"):
            return
        match = _CUDA.fullmatch(self.device)
        if match is None:
            raise DeviceError("onnxruntime runs on 'cpu', 'cuda' or 'cuda:<n>'; got device {!r}".format(self.device))
        missing = "onnxruntime has no device {!r} here: ".format(self.device)
        available = onnxruntime.get_available_providers()
        if "CUDAExecutionProvider" not in available:
            raise DeviceError(missing + "it was built with {} only".format(", ".join(available)))
        self._providers = [("CUDAExecutionProvider", {"device_id": match.group(1) or "0"})]
        # A provider that is listed may still fail to start, and ONNX Runtime then goes on without it.
        o = Graph()
        model, _ = o.model([o.Identity(o.input(np.dtype(np.float32), (1,)))])
        try:
            started = self._session(model).get_providers()
        except Exception as error:
            raise DeviceError(missing + _one_line(error)) from error
        if "CUDAExecutionProvider" not in started:
            raise DeviceError(missing + "the CUDA provider did not start; it needs a GPU and matching CUDA libraries")

    def from_numpy(self, array):
        return array

    def to_numpy(self, tensor):
        return tensor

    def type_of(self, tensor):
        return tensor.dtype, tensor.shape

    def accumulate(self, a, b):
        # NumPy adds scalars to something that is not an array, which ONNX Runtime would not take.
        return np.asarray(a + b)

    def prepare(self, op, attrs, types):
        self.bindings.find(op)
        # Equal numbers that are not the same, 0.0 and -0.0, must not share a session.
        frozen = tuple([(k, v, str(v) if type(v) is float else None) for k, v in attrs.items()])
        if types is not None:
            return self._compiled(op, frozen, tuple([t and (t.dtype, t.shape) for t in types])), {}
        compiled = self._compiled

        def run(*arrays):
            return compiled(op, frozen, tuple([None if a is None else (a.dtype, a.shape) for a in arrays]))(*arrays)

        return run, {}

    def _compile(self, op, frozen, types):
        """A function that runs the session of an operator, given as dtype and shape of each input."""
        binding = self.bindings.find(op)
        asked = [value for _, value, _ in frozen if isinstance(value, np.dtype)]
        if any(dtype.kind == "V" for dtype in asked + [t[0] for t in types if t is not None]):
            raise UnsupportedOpError(
                "onnxruntime does not compute {!r} of bfloat16: its Python interface takes no such arrays".format(op)
            )
        o = Graph()
        inputs = [None if t is None else o.input(*t) for t in types]
        try:
            result = binding.function(o, *inputs, **binding.keywords({name: value for name, value, _ in frozen}))
            model, outputs = o.model(as_tuple(result))
            session = self._session(model)
        except (NoKernel, state.NotImplemented, state.InvalidGraph, state.InvalidArgument, state.Fail) as error:
            reason = str(error) if isinstance(error, NoKernel) else _no_kernel(error)
            if reason is None:
                raise
            given = ", ".join("{}{}".format(x.dtype.name, list(x.shape)) for x in o.inputs)
            raise UnsupportedOpError(
                "onnxruntime does not compute {!r} of {}: {}. Bind the node to another backend".format(
                    op, given or "no tensors", reason
                )
            ) from error
        return _runner(session.run, [x and x.name for x in inputs], outputs, isinstance(result, tuple))

    def _session(self, model):
        options = onnxruntime.SessionOptions()
        # The operator itself is what is under test: nothing may be folded, fused or rewritten before it runs.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Each of many small sessions would own a pool of spinning threads.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # An arena per session would hold on to the largest tensors it ever saw, for as long as the session is cached.
        options.enable_cpu_mem_arena = False
        # Whatever fails is raised as well; only why a device does not start is said in the log alone.
        options.log_severity_level = 4 if self._providers[0] == "CPUExecutionProvider" else 3
        if self._providers[0] != "CPUExecutionProvider":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = onnxruntime.InferenceSession(model, options, providers=self._providers)
        # A failing provider must be reported, not replaced.
        session.disable_fallback()
        return session


def _runner(run, names, outputs, many):
    """A function on arrays, as short as the number of inputs and outputs allows: it is called a million times."""
    if many or None in names or not 1 <= len(names) <= 3:

        def general(*arrays):
            found = run(outputs, {n: a for n, a in zip(names, arrays) if n is not None})
            return tuple(found) if many else found[0]

        return general
    if len(names) == 1:
        (first,) = names

        def unary(x):
            return run(outputs, {first: x})[0]

        return unary
    if len(names) == 2:
        first, second = names

        def binary(x, y):
            return run(outputs, {first: x, second: y})[0]

        return binary
    first, second, third = names

    def ternary(x, y, z):
        return run(outputs, {first: x, second: y, third: z})[0]

    return ternary


def _no_kernel(error):
    """Why no kernel serves the model, if that is what the error says."""
    text = _one_line(error)
    for pattern in (
        r"Could not find an implementation for (?P<node>\w+)\(\d+\)",
        r"Type 'tensor\(\w+\)' of input parameter \(\w*\) of operator \((?P<node>\w+)\).* is invalid",
        r"(?P<node>assigned to the default CPU EP)",
        r"(?P<node>[Oo]pset \d+) is under development",
    ):
        match = re.search(pattern, text)
        if match:
            return "it has no kernel for ONNX's {}".format(match.group("node"))
    if "official released onnx opset versions" in text:
        return "the operator came with an opset that this release does not know"
    return None


def _one_line(error):
    return " ".join(str(error).split())
