"""TensorFlow's tensors in and out, its devices, and its gradient tape around one call or one segment."""

import numpy as np
import tensorflow as tf

from metaop.backends.base import Backend, as_tuple
from metaop.backends.tensorflow.bindings import bind
from metaop.errors import DeviceError

# TensorFlow ends the process when a kernel meets memory that is aligned less than this (Eigen's widest vector).
ALIGNMENT = 64


class TensorflowBackend(Backend):
    """Tensors are eager ``tf.Tensor``; gradients are native."""

    name = "tensorflow"
    gradients = "native"
    # Each operator looks up the line that every caller is at, and searches for it from the function's first.
    lines_per_function = 16
    bindings = bind

    def version(self):
        return tf.__version__

    def check_device(self):
        # Asked for and not tried: TensorFlow quietly runs on the CPU what it is told to run on a device it lacks.
        names = [d.name.rpartition("device:")[2].lower() for d in tf.config.experimental.list_logical_devices()]
        self._place = None
        if self.device in (None, "cpu"):
            if any(not name.startswith("cpu") for name in names):
                # Left to itself, TensorFlow would move the work to the accelerator.
                self._place = "/CPU:0"
            return
        wanted = self.device.lower() if ":" in self.device else self.device.lower() + ":0"
        if wanted not in names:
            raise DeviceError(
                "tensorflow has no device {!r} here; it has {}".format(self.device, ", ".join(sorted(names)))
            )
        self._place = "/" + wanted.upper()

    def prepare(self, op, attrs, types):
        function, keywords = super().prepare(op, attrs, types)
        return (function if self._place is None else self._placed(function)), keywords

    def _placed(self, function):
        def placed(*tensors, **keywords):
            with tf.device(self._place):
                return function(*tensors, **keywords)

        return placed

    def from_numpy(self, array):
        flags = array.flags
        if (
            _from_dlpack is not None
            and self._place is None
            and flags.c_contiguous
            and flags.writeable
            and array.size
            and array.dtype.kind != "V"  # bfloat16: NumPy does not hand out what is no dtype of its own
            and array.__array_interface__["data"][0] % ALIGNMENT == 0
        ):
            return _from_dlpack(array.__dlpack__())
        if self._place is None:
            return tf.constant(array)
        with tf.device(self._place):
            return tf.constant(array)

    def to_numpy(self, tensor):
        # A scalar comes as a NumPy scalar, which is no array.
        return np.asarray(tensor.numpy())

    def type_of(self, tensor):
        return np.dtype(tensor.dtype.as_numpy_dtype), tuple(tensor.shape)

    def accumulate(self, a, b):
        return tf.raw_ops.AddV2(x=a, y=b)

    def linearize(self, op, attrs, inputs, wrt):
        function, keywords = self.prepare(op, attrs, None)
        return self.linearize_segment(lambda *tensors: as_tuple(function(*tensors, **keywords)), inputs, wrt)

    def linearize_segment(self, function, inputs, wrt):
        leaves = list(inputs)
        smooth = [i for i in wrt if leaves[i].dtype.is_floating]
        for i in smooth:
            if sum(leaves[i] is other for other in leaves) > 1:
                # The tape knows tensors by identity: one given twice would get the sum of both gradients, twice.
                leaves[i] = tf.identity(leaves[i])
        # Persistent, because a pullback may be called again.
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            for i in smooth:
                tape.watch(leaves[i])
            outputs = as_tuple(function(*leaves))
        wanted = [leaves[i] for i in smooth]

        def pullback(grads):
            live = [(y, g) for y, g in zip(outputs, grads) if g is not None and y.dtype.is_floating]
            if not live or not wanted:
                return [None] * len(wrt)
            found = tape.gradient([y for y, _ in live], wanted, output_gradients=[g for _, g in live])
            by_position = dict(zip(smooth, map(_dense, found)))
            return [by_position.get(i) for i in wrt]

        return outputs, pullback


def _dense(gradient):
    """Gradients of gathers come as rows and their numbers."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient


def _find_from_dlpack():
    if not hasattr(np.ndarray, "__dlpack__"):
        return None
    experimental = getattr(tf.experimental, "dlpack", None)
    return getattr(experimental, "from_dlpack", None)


_from_dlpack = _find_from_dlpack()
