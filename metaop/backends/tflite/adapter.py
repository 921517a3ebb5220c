"""TensorFlow Lite: one small model per operator, attributes and input types, converted from the TensorFlow binding.

Tensors are NumPy arrays. Converting takes a tenth of a second, running a few microseconds, so models are kept.
"""

import threading
from collections import OrderedDict

import numpy as np
import tensorflow as tf

from metaop.backends.base import Backend
from metaop.backends.tflite.bindings import bind
from metaop.backends.tflite.model import Model
from metaop.errors import UnsupportedOpError

# How many models are kept beside those that prepared calls hold; a small one takes a tenth of a megabyte.
KEPT = 512


class TfliteBackend(Backend):
    """Tensors are arrays; gradients are derived."""

    name = "tflite"
    bindings = bind

    def __init__(self, device=None):
        super().__init__(device)
        self._models = OrderedDict()
        self._lock = threading.Lock()

    def version(self):
        return tf.__version__

    def from_numpy(self, array):
        return array

    def to_numpy(self, tensor):
        return np.asarray(tensor)

    def type_of(self, tensor):
        return tensor.dtype, tensor.shape

    def prepare(self, op, attrs, types):
        binding = self.bindings.find(op)
        chosen = (op, tuple(attrs.items()))
        if types is not None:
            found = tuple(None if t is None else (t.dtype, tuple(t.shape)) for t in types)
            return self._model(chosen, found, binding, attrs).run, {}

        def run(*arrays):
            found = tuple([None if a is None else (a.dtype, a.shape) for a in arrays])
            return self._model(chosen, found, binding, attrs).run(*arrays)

        return run, {}

    def _model(self, chosen, types, binding, attrs):
        if any(t is not None and t[0].kind == "V" for t in types):
            raise UnsupportedOpError(
                "tflite does not compute {!r} of bfloat16: its Python interface takes no such arrays".format(chosen[0])
            )
        key = (chosen, types)
        with self._lock:
            model = self._models.get(key)
            if model is not None:
                self._models.move_to_end(key)
                return model
        # Not under the lock: other threads may run what they have while this one converts.
        model = Model(binding, attrs, types)
        with self._lock:
            self._models[key] = model
            while len(self._models) > KEPT:
                self._models.popitem(last=False)
        return model
