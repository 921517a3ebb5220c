"""JAX's arrays in and out, its devices, and its autodiff around one call or one function.

To JAX, 64 bits are a switch of the whole process, which is the user's. Here it is set around each call only, and for
the calling thread only; the compiled functions of both settings are kept apart by JAX itself.
"""

import functools

import jax
import numpy as np

from metaop.backends.base import Backend, as_tuple
from metaop.backends.jax.bindings import BEFORE, UNCOMPILED, bind
from metaop.errors import DeviceError, UnsupportedOpError

if hasattr(jax, "enable_x64"):
    wide = functools.partial(jax.enable_x64, True)
else:
    from jax.experimental import enable_x64 as wide

# Compiled functions are small, but attributes may come in any number.
KEPT = 4096


class JaxBackend(Backend):
    """Tensors are ``jax.Array``; gradients are native."""

    name = "jax"
    gradients = "native"
    bindings = bind

    def version(self):
        return jax.__version__

    def check_device(self):
        kind, _, number = (self.device or "cpu").partition(":")
        try:
            self._device = jax.devices(kind)[int(number or 0)]
        except (RuntimeError, ValueError, IndexError) as error:
            raise DeviceError("jax has no device {!r} here: {}".format(self.device, error)) from error
        self._compiled = {}

    def from_numpy(self, array):
        with wide():
            return jax.device_put(array, self._device)

    def to_numpy(self, tensor):
        return np.asarray(tensor)

    def type_of(self, tensor):
        return np.dtype(tensor.dtype), tuple(tensor.shape)

    def accumulate(self, a, b):
        with wide():
            return _sum(a, b)

    def hosted(self, function):
        @functools.wraps(function)
        def run(*tensors, **keywords):
            with wide(), jax.default_device(self._device):
                return function(*tensors, **keywords)

        return run

    def prepare(self, op, attrs, types):
        return self._kept((op, None), op, attrs, self._compile), {}

    def _kept(self, key, op, attrs, make):
        """What ``make`` gives for an operator with these attributes, made once."""
        # Not the values themselves, for 0.0 equals -0.0, and NaN not even itself.
        key += (repr(sorted(attrs.items())),)
        found = self._compiled.get(key)
        if found is None:
            if len(self._compiled) >= KEPT:
                self._compiled.clear()
            found = self._compiled[key] = make(op, attrs)
        return found

    def _bound(self, op, attrs):
        binding = self.bindings.find(op)
        return functools.partial(binding.function, **binding.keywords(attrs))

    def _compile(self, op, attrs):
        compiled = self._jit(op, self._bound(op, attrs))
        look, attrs = BEFORE.get(op), dict(attrs)
        made_here = self.hosted(compiled)

        def run(*tensors):
            if not tensors:
                return made_here()
            if look is not None:
                look(*tensors, **attrs)
            with wide():
                return compiled(*tensors)

        return run

    def _jit(self, op, function):
        # The inputs say on which device it runs, also those of which only the shape is used.
        return function if op in UNCOMPILED else jax.jit(function, keep_unused=True)

    def linearize(self, op, attrs, inputs, wrt):
        smooth = tuple(i for i in wrt if is_floating(inputs[i]))

        def make(op, attrs):
            return self._jit(op, functools.partial(_gradients, self._bound(op, attrs), smooth))

        outputs = self.call(op, attrs, inputs)
        # Compiled as a whole, from the inputs: what the way back does not need of the way forth is left out.
        compiled = self._kept((op, smooth), op, attrs, make)

        def pullback(grads):
            if not smooth or all(g is None for g in grads):
                return [None] * len(wrt)
            try:
                with wide():
                    found = dict(zip(smooth, compiled(list(inputs), list(grads))))
            except NotImplementedError as error:
                raise UnsupportedOpError("jax does not differentiate this {!r}: {}".format(op, error)) from error
            return [found.get(i) for i in wrt]

        return outputs, pullback

    def linearize_segment(self, function, inputs, wrt):
        smooth = [i for i in wrt if is_floating(inputs[i])]
        with wide():
            outputs, back = _vjp(function, smooth, inputs)

        def pullback(grads):
            if not smooth or all(g is None for g in grads):
                return [None] * len(wrt)
            with wide():
                found = dict(zip(smooth, back(_complete(outputs, grads))))
            return [found.get(i) for i in wrt]

        return outputs, pullback


def is_floating(tensor):
    return jax.numpy.issubdtype(tensor.dtype, jax.numpy.floating)


def _vjp(function, positions, inputs):
    """Outputs, and JAX's own pullback to the inputs at ``positions``."""

    def of_these(*chosen):
        given = list(inputs)
        for i, tensor in zip(positions, chosen):
            given[i] = tensor
        return as_tuple(function(*given))

    return jax.vjp(of_these, *[inputs[i] for i in positions])


def _gradients(function, positions, inputs, grads):
    outputs, back = _vjp(function, positions, inputs)
    return back(_complete(outputs, grads))


def _complete(outputs, grads):
    """A gradient for each output, as JAX wants it: zeros where there is none, of no size for what is not floating."""
    return tuple(
        (jax.numpy.zeros_like(y) if g is None else g) if is_floating(y) else np.zeros(y.shape, jax.dtypes.float0)
        for y, g in zip(outputs, grads)
    )


@jax.jit
def _sum(a, b):
    return a + b
