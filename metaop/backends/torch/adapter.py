"""PyTorch's tensors in and out, its devices, and its autograd around one call or one segment."""

import numpy as np
import torch

from metaop.backends.base import Backend, as_tuple
from metaop.backends.torch.bindings import bind
from metaop.errors import DeviceError

#: operators that no tensors go into
MAKERS = frozenset(["hann_window", "hamming_window", "blackman_window"])


class TorchBackend(Backend):
    """Tensors are ``torch.Tensor``; gradients are native."""

    name = "torch"
    gradients = "native"
    differentiates_segments = True
    bindings = bind

    def version(self):
        return torch.__version__

    def check_device(self):
        if self.device in (None, "cpu"):
            self._device = None
            return
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise DeviceError("torch has no device {!r} here: {}".format(self.device, error)) from error
        self._device = torch.device(self.device)

    def prepare(self, op, attrs, types):
        function, keywords = super().prepare(op, attrs, types)
        if self._device is None or op not in MAKERS:
            return function, keywords
        # Where tensors go in they say what device the result is on; a binding without any does not know.
        return lambda **given: function(**given).to(self._device), keywords

    def from_numpy(self, array):
        if array.dtype.kind == "V":  # bfloat16, which is no dtype of NumPy's own
            bits = array.view(np.int16)
            tensor = torch.from_numpy(bits if bits.flags.carray else torch_ready(bits)).view(torch.bfloat16)
        else:
            tensor = torch.from_numpy(array if array.flags.carray else torch_ready(array))
        return tensor if self._device is None else tensor.to(self._device)

    def to_numpy(self, tensor):
        try:
            return tensor.numpy()
        except (RuntimeError, TypeError):
            if tensor.dtype is torch.bfloat16:
                return tensor.detach().cpu().view(torch.int16).numpy().view(_numpy_dtype(torch.bfloat16))
            # Part of an autograd graph, or on another device. Asking beforehand would cost each tensor as much again.
            return tensor.detach().cpu().numpy()

    def type_of(self, tensor):
        return _numpy_dtype(tensor.dtype), tuple(tensor.shape)

    def linearize(self, op, attrs, inputs, wrt):
        function, keywords = self.prepare(op, attrs, None)
        return self.linearize_segment(lambda *tensors: as_tuple(function(*tensors, **keywords)), inputs, wrt)

    def linearize_segment(self, function, inputs, wrt):
        leaves = list(inputs)
        for i in wrt:
            leaves[i] = leaves[i].detach().requires_grad_(True)
        with torch.enable_grad():
            outputs = function(*leaves)
        wanted = [leaves[i] for i in wrt]

        def pullback(grads):
            live = [(y, g) for y, g in zip(outputs, grads) if g is not None and y.requires_grad]
            if not live:
                return [None] * len(wanted)
            return torch.autograd.grad(
                [y for y, _ in live], wanted, [g for _, g in live], retain_graph=True, allow_unused=True
            )

        return tuple(y.detach() for y in outputs), pullback


def torch_ready(array):
    """The array as PyTorch takes it; a copy only where it has strides that PyTorch has not."""
    if not array.flags.aligned or any(stride < 0 or stride % array.itemsize for stride in array.strides):
        return np.array(array, order="C")
    return array if array.flags.writeable else np.asarray(Writeable(array))


class Writeable:
    """Shows a read-only array to NumPy as writeable: PyTorch knows no other memory, and no binding writes into it."""

    def __init__(self, array):
        # Also what keeps the memory alive.
        self.array = array
        self.__array_interface__ = dict(array.__array_interface__, data=(array.ctypes.data, False))


_NUMPY_DTYPES = {}


def _numpy_dtype(dtype):
    found = _NUMPY_DTYPES.get(dtype)
    if found is None:
        if dtype is torch.bfloat16:
            import ml_dtypes

            found = np.dtype(ml_dtypes.bfloat16)
        else:
            found = torch.empty(0, dtype=dtype).numpy().dtype
        _NUMPY_DTYPES[dtype] = found
    return found
