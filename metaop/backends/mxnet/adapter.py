"""MXNet's arrays in and out, its devices, and its autograd around one call or one segment.

Scalars and empty tensors exist under MXNet's NumPy shape semantics only, which is a switch of the thread. It is on
within the calls below and as it was outside of them.
"""

import contextlib
import ctypes
import functools

import mxnet as mx
import numpy as np
from mxnet import autograd
from mxnet.base import _LIB, check_call

from metaop.backends.base import Backend, as_tuple
from metaop.backends.mxnet.bindings import DTYPES, bind
from metaop.errors import DeviceError, DtypeError, UnsupportedOpError


@contextlib.contextmanager
def numpy_shapes():
    """What ``mx.util.np_shape(True)`` is, without a line to the root logger, which release 1.6 writes each time."""
    before = ctypes.c_int()
    check_call(_LIB.MXSetIsNumpyShape(ctypes.c_int(1), ctypes.byref(before)))
    try:
        yield
    finally:
        check_call(_LIB.MXSetIsNumpyShape(before, ctypes.byref(ctypes.c_int())))


class MxnetBackend(Backend):
    """Tensors are ``mx.np.ndarray``; gradients are native."""

    name = "mxnet"
    gradients = "native"
    differentiates_segments = True
    bindings = bind

    def version(self):
        return mx.__version__

    def check_device(self):
        kind, _, number = (self.device or "cpu").partition(":")
        if kind not in ("cpu", "gpu") or not (number or "0").isdigit():
            raise DeviceError("mxnet knows the devices 'cpu' and 'gpu:0', 'gpu:1' ...; got {!r}".format(self.device))
        self._context = mx.Context(kind, int(number or 0))
        if kind == "gpu" and self._context.device_id >= mx.context.num_gpus():
            raise DeviceError(
                "mxnet has no device {!r} here; it sees {} GPUs".format(self.device, mx.context.num_gpus())
            )

    def prepare(self, op, attrs, types):
        function, keywords = super().prepare(op, attrs, types)
        return scoped(function), keywords

    def from_numpy(self, array):
        if array.dtype.name not in DTYPES:
            raise DtypeError("mxnet has no tensors of {}, only of {}".format(array.dtype.name, ", ".join(DTYPES)))
        with numpy_shapes():
            tensor = mx.np.empty(array.shape, dtype=array.dtype, ctx=self._context)
            # What mx.np.array does too, after four times as much else.
            tensor._sync_copyfrom(array)
            return tensor

    def to_numpy(self, tensor):
        with numpy_shapes():
            return tensor.asnumpy()

    def type_of(self, tensor):
        with numpy_shapes():
            return np.dtype(tensor.dtype), tuple(tensor.shape)

    def accumulate(self, a, b):
        with numpy_shapes():
            return a + b

    def linearize(self, op, attrs, inputs, wrt):
        function, keywords = self.prepare(op, attrs, None)
        return self.linearize_segment(lambda *tensors: as_tuple(function(*tensors, **keywords)), inputs, wrt)

    @numpy_shapes()
    def linearize_segment(self, function, inputs, wrt):
        leaves = list(inputs)
        smooth = [i for i in wrt if np.dtype(leaves[i].dtype).kind == "f"]
        for i in smooth:
            leaves[i] = leaves[i].detach()
            leaves[i].attach_grad()
        # Training mode, for some operators keep what their gradient needs in that mode only.
        with autograd.record(train_mode=True):
            outputs = as_tuple(function(*leaves))
        used = set()

        @numpy_shapes()
        def pullback(grads):
            live = [(y, g) for y, g in zip(outputs, grads) if g is not None and np.dtype(y.dtype).kind == "f"]
            for i in used:
                # MXNet leaves the gradient of what it does not reach as it was.
                leaves[i].grad[()] = 0
            used.update(smooth)
            with failures():
                backward(live)
                found = {i: leaves[i].grad.copy() for i in smooth}
                for gradient in found.values():
                    gradient.wait_to_read()
            return [found.get(i) for i in wrt]

        return tuple(y.detach() for y in outputs), pullback


@functools.lru_cache(maxsize=None)
def scoped(function):
    """The function under NumPy's shape semantics, done when it returns: MXNet's errors come with the result, later."""

    @functools.wraps(function)
    def call(*tensors, **keywords):
        with numpy_shapes(), failures():
            result = function(*tensors, **keywords)
            for y in as_tuple(result):
                y.wait_to_read()
        return result

    return call


@contextlib.contextmanager
def failures():
    """Errors of MXNet leave nothing behind, and those that say "not here" become refusals."""
    try:
        yield
    except mx.MXNetError as error:
        # Every array that the failed call was to fill keeps the error, and a later one in its place would raise it.
        with contextlib.suppress(mx.MXNetError):
            mx.nd.waitall()
        message = str(error)
        for words in REFUSALS:
            line = next((line for line in message.splitlines() if words in line), None)
            if line is not None:
                reason = line.rpartition(": ")[2].strip()
                raise UnsupportedOpError("mxnet {}: {}".format(mx.__version__, reason)) from error
        raise


# How MXNet says that it has no kernel for a dtype, a device or a parameter.
REFUSALS = (
    "not implemented",
    "only support",
    "not support",
    "is supported",
    "natively supported",
    "Unknown type enum",
    "Unsupported data type",
    "must be samller than stride",
)


def backward(live):
    """Gradients from those outputs that depend on an input; MXNet refuses the others."""
    if not live:
        return
    try:
        autograd.backward([y for y, _ in live], [g for _, g in live], retain_graph=True, train_mode=True)
    except mx.MXNetError as error:
        if "not in a computational graph" not in str(error):
            raise
        backward([(y, g) for y, g in live if recorded(y)])


def recorded(tensor):
    try:
        autograd.get_symbol(tensor)
    except mx.MXNetError:
        return False
    return True
