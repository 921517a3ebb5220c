"""What a backend is: a framework, at a version, on a device.

An adapter subclasses :class:`Backend` and says how tensors come in and go out, and how the framework differentiates
one call. Everything else has a default here. Adapters also run inside isolated environments: this module must stay
importable on Python 3.6, and knows operators by name only.
"""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from metaop.backends.bind import Bindings
from metaop.errors import DeviceError, UsageError

__all__ = ["Backend", "Pullback"]

# From one gradient per output (None where an output has none) to one per input that was asked for.
Pullback = Callable[[Sequence[Any]], Sequence[Any]]


class Backend:
    """One framework on one device; instances hold no state but caches, and are shared between sessions.

    Adding one takes a subclass with ``name``, ``bindings``, :meth:`from_numpy`, :meth:`to_numpy` and :meth:`version`;
    :meth:`linearize` too where the framework differentiates by itself.
    """

    #: canonical name, as in ``mo.Session(backend=name)``
    name = ""
    #: ``"native"`` where the framework's own autodiff is used, ``"derived"`` where metaop's gradient rules are
    gradients = "derived"
    #: whether :meth:`linearize_segment` differentiates a whole segment at once
    differentiates_segments = False
    #: whether its tensors are objects of this process, which functions given to ``derive`` can work on
    in_process = True
    #: how long the functions may be that call the bindings, where the framework's calls take longer from longer ones
    lines_per_function: Optional[int] = None
    bindings: Bindings

    def __init__(self, device: Optional[str] = None) -> None:
        self.device = device
        self.check_device()

    # -- to be provided by the adapter --------------------------------------------------------------------------------

    def version(self) -> str:
        """The framework's version."""
        raise NotImplementedError

    def from_numpy(self, array: np.ndarray) -> Any:
        """The array as this backend's tensor, every bit kept; it may share the array's memory."""
        raise NotImplementedError

    def to_numpy(self, tensor: Any) -> np.ndarray:
        """The tensor as an array, every bit kept; it may share the tensor's memory."""
        raise NotImplementedError

    def check_device(self) -> None:
        """Refuse a device that the framework does not have here."""
        if self.device not in (None, "cpu"):
            raise DeviceError("{} runs on the CPU only; got device {!r}".format(self.name, self.device))

    def type_of(self, tensor: Any) -> Tuple[np.dtype, Tuple[int, ...]]:
        """Dtype and shape of a tensor, without copying it where that can be avoided."""
        array = self.to_numpy(tensor)
        return array.dtype, array.shape

    def accumulate(self, a: Any, b: Any) -> Any:
        """The sum of two gradients of one tensor, by plain addition and never through a binding under test."""
        return a + b

    def hosted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function on this backend's tensors that is not a binding of its own, as it is to be called: on its device,
        under its settings.
        """
        return function

    # -- what the graph asks for --------------------------------------------------------------------------------------

    @property
    def spec(self) -> str:
        """The name with the device: ``torch@cuda:0``."""
        return self.name if self.device is None else "{}@{}".format(self.name, self.device)

    @property
    def tensor_kind(self) -> str:
        """Backends of one kind take each other's tensors as they are."""
        return self.spec

    def support(self, op: str) -> Tuple[str, Optional[str]]:
        """How the operator's gradient comes about (``native``, ``derived``), or ``unsupported`` with the reason."""
        reason = self.bindings.reason(op)
        return (self.gradient_kind(op), None) if reason is None else ("unsupported", reason)

    def gradient_kind(self, op: str) -> str:
        """``native``, ``derived`` or ``custom``: where this backend's gradient of the operator comes from."""
        return self.gradients

    def prepare(
        self, op: str, attrs: Mapping[str, Any], types: Optional[Sequence[Any]]
    ) -> Tuple[Callable[..., Any], Dict[str, Any]]:
        """A function and keywords such that ``function(*tensors, **keywords)`` computes the operator.

        ``types`` are the types of the inputs (objects with ``dtype`` and ``shape``, or ``None`` for an absent input)
        where all are known beforehand; a backend that compiles per type does so here, once, rather than at each call.
        """
        binding = self.bindings.find(op)
        assert binding.function is not None
        return binding.function, binding.keywords(attrs)

    def call(self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any]) -> Tuple[Any, ...]:
        """Compute one operator on this backend's tensors; always a tuple of outputs."""
        function, keywords = self.prepare(op, attrs, None)
        return as_tuple(function(*inputs, **keywords))

    def linearize(
        self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> Tuple[Tuple[Any, ...], Pullback]:
        """Outputs, and a function from their gradients to those of the inputs at the positions ``wrt``.

        The default is the *derived* gradient: the meta operator's rule, computed with this backend's own forwards.
        """
        # Imported here because the rules live in the parent process only, and this module is loaded in workers too.
        from metaop.backends.derived import derived_pullback

        outputs = self.call(op, attrs, inputs)
        return outputs, derived_pullback(self, op, attrs, inputs, outputs, wrt)

    def linearize_segment(
        self, function: Callable[..., Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> Tuple[Tuple[Any, ...], Pullback]:
        """The same for a compiled segment, where ``differentiates_segments`` is true."""
        raise NotImplementedError

    def compile(self, segment: Any) -> Callable[..., Tuple[Any, ...]]:
        """A function from the segment's input tensors to a tuple of its output tensors."""
        return segment.straight_line(self)


def as_tuple(result: Any) -> Tuple[Any, ...]:
    """What a binding returned, as a tuple of outputs."""
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


class Variant(Backend):
    """A backend with some bindings replaced, made by :func:`metaop.derive`."""

    def __init__(
        self,
        base: Backend,
        name: str,
        forward: Mapping[str, Callable[..., Any]],
        gradient: Mapping[str, Callable[..., Sequence[Any]]],
    ) -> None:
        self.base = base
        self.name = name
        self.forward = {op: base.hosted(function) for op, function in forward.items()}
        self.custom = {op: base.hosted(function) for op, function in gradient.items()}
        self.gradients = base.gradients
        self.bindings = base.bindings
        # Autodiff of a whole segment would pass by the gradients given here.
        self.differentiates_segments = base.differentiates_segments and not self.custom
        self.lines_per_function = base.lines_per_function
        super().__init__(base.device)

    @property
    def spec(self) -> str:
        return self.name

    @property
    def tensor_kind(self) -> str:
        return self.base.tensor_kind

    def check_device(self) -> None:
        # The base has looked, and would begin anew: JAX with an empty cache of compiled functions.
        pass

    def version(self) -> str:
        return self.base.version()

    def from_numpy(self, array: np.ndarray) -> Any:
        return self.base.from_numpy(array)

    def to_numpy(self, tensor: Any) -> np.ndarray:
        return self.base.to_numpy(tensor)

    def type_of(self, tensor: Any) -> Tuple[np.dtype, Tuple[int, ...]]:
        return self.base.type_of(tensor)

    def accumulate(self, a: Any, b: Any) -> Any:
        return self.base.accumulate(a, b)

    def hosted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.base.hosted(function)

    def support(self, op: str) -> Tuple[str, Optional[str]]:
        return (self.gradient_kind(op), None) if op in self.forward else self.base.support(op)

    def gradient_kind(self, op: str) -> str:
        return "custom" if op in self.custom else self.base.gradient_kind(op)

    def prepare(
        self, op: str, attrs: Mapping[str, Any], types: Optional[Sequence[Any]]
    ) -> Tuple[Callable[..., Any], Dict[str, Any]]:
        if op in self.forward:
            return self.forward[op], dict(attrs)
        return self.base.prepare(op, attrs, types)

    def linearize(
        self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> Tuple[Tuple[Any, ...], Pullback]:
        if op not in self.custom:
            if op not in self.forward:
                return self.base.linearize(op, attrs, inputs, wrt)
            return self.linearize_replaced(op, attrs, inputs, wrt)
        outputs = self.call(op, attrs, inputs)
        rule = self.custom[op]

        def pullback(grads: Sequence[Any]) -> List[Any]:
            g, y = (grads[0], outputs[0]) if len(outputs) == 1 else (tuple(grads), outputs)
            found = rule(g, y, *inputs, **attrs)
            if not isinstance(found, (tuple, list)) or len(found) != len(inputs):
                raise UsageError(
                    "{}: the gradient of {!r} must return a tuple with one entry per input ({}); got {!r}".format(
                        self.name, op, len(inputs), found
                    )
                )
            return [found[i] for i in wrt]

        return outputs, pullback

    def linearize_replaced(
        self, op: str, attrs: Mapping[str, Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> Tuple[Tuple[Any, ...], Pullback]:
        """The base's way of differentiating, around the forward given here."""
        if self.gradients != "native":
            return super().linearize(op, attrs, inputs, wrt)
        function, keywords = self.prepare(op, attrs, None)

        def forward(*tensors: Any) -> Tuple[Any, ...]:
            return as_tuple(function(*tensors, **keywords))

        return self.base.linearize_segment(forward, inputs, wrt)

    def linearize_segment(
        self, function: Callable[..., Any], inputs: Sequence[Any], wrt: Sequence[int]
    ) -> Tuple[Tuple[Any, ...], Pullback]:
        return self.base.linearize_segment(function, inputs, wrt)
