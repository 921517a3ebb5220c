"""PyTorch's tensors in and out, its devices, and its autograd around one call or one segment."""

import warnings

import numpy as np
import torch

from metaop.backends.base import Backend, as_tuple
from metaop.backends.torch.bindings import bind
from metaop.errors import DeviceError


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

    def from_numpy(self, array):
        if not array.flags.writeable or not array.flags.c_contiguous:
            # PyTorch knows neither read-only nor negatively strided memory. No binding writes into its inputs.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                tensor = torch.from_numpy(np.require(array, requirements="C"))
        else:
            tensor = torch.from_numpy(array)
        return tensor if self._device is None else tensor.to(self._device)

    def to_numpy(self, tensor):
        return tensor.detach().cpu().resolve_conj().numpy()

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


_NUMPY_DTYPES = {}


def _numpy_dtype(dtype):
    found = _NUMPY_DTYPES.get(dtype)
    if found is None:
        found = _NUMPY_DTYPES[dtype] = torch.empty(0, dtype=dtype).numpy().dtype
    return found
