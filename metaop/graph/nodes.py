"""Nodes of the static graph.

A node is a Placeholder (data), a Variable (trainable), a Constant or an Operator; there is no graph object: a graph is
whatever its targets reach. Nodes never change when they are rebound or run. An operator with several outputs is reached
through one :class:`Result` per output.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from metaop.backends import canonical
from metaop.errors import DtypeError, ShapeError, UsageError
from metaop.types import Shape, TensorType, as_dtype, as_shape, is_floating

if TYPE_CHECKING:
    from typing_extensions import Self

    from metaop.ops import MetaOp

__all__ = ["Constant", "Node", "Operator", "Placeholder", "RandomData", "Result", "Variable"]

_serials: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))


class Epoch:
    """Counts every change of a variable's value or a node's backend: plans tell cheaply that none happened."""

    now = 0
    _numbers = itertools.count(1)

    @classmethod
    def advance(cls) -> None:
        """A plan made before may be stale."""
        # Not ``+= 1``, by which two threads could come back to a number that was used before.
        cls.now = next(cls._numbers)


class Node:
    """One tensor of the graph. Arithmetic, comparison (but ``==``, which is identity) and indexing build further nodes.

    >>> import metaop as mo
    >>> x = mo.Placeholder(shape=(None, 3), name="x")
    >>> (x * 2.0 + 1.0).shape
    (None, 3)
    """

    __slots__ = ("__weakref__", "_backend", "controls", "name", "type")

    #: NumPy must not try to broadcast over nodes: ``array * node`` is the node's business.
    __array_ufunc__ = None

    def __init__(self, kind: str, type: TensorType, name: str | None) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise UsageError(f"a node's name is a non-empty string; got {name!r}")
        self.name: str = name or f"{kind}_{next(_serials[kind])}"
        self.type = type
        self.controls: tuple[Node, ...] = ()
        self._backend: str | None = None

    @property
    def shape(self) -> Shape | None:
        """The sizes known while building; ``None`` for an unknown size or, as a whole, an unknown rank."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype | None:
        """The dtype, or ``None`` where it becomes known with the data only."""
        return self.type.dtype

    @property
    def producer(self) -> Node:
        """The node that computes this value: itself, but for one output of several."""
        return self

    @property
    def index(self) -> int:
        """Which output of the producer this is."""
        return 0

    @property
    def inputs(self) -> tuple[Node | None, ...]:
        """The nodes that this one is computed from."""
        return ()

    @property
    def backend(self) -> str | None:
        """The backend that this node is bound to; ``None`` leaves it to the session."""
        return self._backend

    @backend.setter
    def backend(self, spec: str | None) -> None:
        self._bind(spec)

    def _bind(self, spec: str | None) -> None:
        raise UsageError(f"node {self.name!r} is a {type(self).__name__}: only operators are bound to a backend")

    def run_after(self, *others: Node) -> Node:
        """Add control edges: in any run this node waits for ``others``, whose values it does not use.

        >>> import metaop as mo
        >>> a, b = mo.Variable(1.0), mo.Variable(2.0)
        >>> total = (a + b).run_after(a * b)
        """
        for other in others:
            if not isinstance(other, Node):
                raise UsageError(f"run_after takes nodes; got {other!r}")
        producer = self.producer
        producer.controls += tuple(other.producer for other in others)
        Epoch.advance()
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.type}>"

    def __bool__(self) -> bool:
        raise UsageError(
            f"node {self.name!r} has no truth value while the graph is built; use metaop.where or run it first"
        )

    def __len__(self) -> int:
        if not self.shape or self.shape[0] is None:
            raise UsageError(f"node {self.name!r} ({self.type}) has no known length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Node]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Node:
        from metaop.graph.indexing import index

        return index(self, key)

    def _binary(self, op: str, other: Any, swapped: bool = False) -> Node:
        from metaop.graph.build import apply

        return apply(op, (other, self) if swapped else (self, other))

    def __add__(self, other: Any) -> Node:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Node:
        return self._binary("add", other, swapped=True)

    def __sub__(self, other: Any) -> Node:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Node:
        return self._binary("subtract", other, swapped=True)

    def __mul__(self, other: Any) -> Node:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> Node:
        return self._binary("multiply", other, swapped=True)

    def __truediv__(self, other: Any) -> Node:
        return self._binary("div", other)

    def __rtruediv__(self, other: Any) -> Node:
        return self._binary("div", other, swapped=True)

    def __matmul__(self, other: Any) -> Node:
        return self._binary("matmul", other)

    def __rmatmul__(self, other: Any) -> Node:
        return self._binary("matmul", other, swapped=True)

    def __pow__(self, other: Any) -> Node:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Node:
        return self._binary("pow", other, swapped=True)

    def __gt__(self, other: Any) -> Node:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Node:
        return self._binary("greater_equal", other)

    def __lt__(self, other: Any) -> Node:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Node:
        return self._binary("less_equal", other)

    def _unary(self, op: str) -> Node:
        from metaop.graph.build import apply

        return apply(op, (self,))

    def __neg__(self) -> Node:
        return self._unary("negative")

    def __abs__(self) -> Node:
        return self._unary("abs")

    def __invert__(self) -> Node:
        return self._unary("logical_not")


class Placeholder(Node):
    """Data, fed at each run.

    ``shape`` may leave sizes (``None``) or everything open. A declared ``dtype`` must be fed exactly; without one,
    floating data takes the floating dtype of the graph's variables and constants (float32 beside float32 parameters,
    also when NumPy's default float64 is fed), and any other data keeps its own.

    >>> import metaop as mo
    >>> mo.Placeholder(shape=(None, 3), dtype="float32", name="x")
    <Placeholder 'x' float32[?, 3]>
    """

    __slots__ = ("decides",)

    def __init__(self, shape: Any = None, dtype: Any = None, *, name: str | None = None) -> None:
        super().__init__("placeholder", TensorType(None if dtype is None else as_dtype(dtype), as_shape(shape)), name)
        #: whether an attribute of some operator is computed from the data, so that these are part of a run's signature
        self.decides = False


class Stored(Node):
    """A node with a value of its own, kept private and read-only, so that nobody changes it by accident."""

    __slots__ = ("_value",)

    def __init__(self, kind: str, value: Any, dtype: Any, name: str | None) -> None:
        array = to_array(value, dtype, f"{kind} {name!r}" if name else kind)
        super().__init__(kind, TensorType(array.dtype, array.shape), name)
        self._value = array

    @classmethod
    def owning(cls, array: np.ndarray, name: str) -> Self:
        """A node around an array that nobody else holds, and that is therefore not copied."""
        node = cls.__new__(cls)
        Node.__init__(node, cls.__name__.lower(), TensorType(as_dtype(array.dtype), array.shape), name)
        node._value = array
        return node

    @property
    def value(self) -> np.ndarray:
        """The value, as a read-only view."""
        view = self._value.view()
        view.flags.writeable = False
        return view


class Variable(Stored):
    """A trainable parameter; numbers and lists become float32, arrays keep their dtype.

    >>> import metaop as mo
    >>> w = mo.Variable([[1.0]], name="weight")
    >>> w.value = [[2.0]]
    >>> w.value
    array([[2.]], dtype=float32)
    """

    __slots__ = ()

    def __init__(self, value: Any, dtype: Any = None, *, name: str | None = None) -> None:
        if dtype is None and not hasattr(value, "dtype"):
            dtype = np.float32
        super().__init__("variable", value, dtype, name)

    @property
    def value(self) -> np.ndarray:
        """The value, as a read-only view; assigning one of the same shape replaces it in every later run."""
        return Stored.value.fget(self)  # type: ignore[attr-defined]

    @value.setter
    def value(self, new: Any) -> None:
        if hasattr(new, "dtype") and np.asarray(new).dtype.newbyteorder("=") != self._value.dtype:
            raise DtypeError(f"variable {self.name!r} is {self.type}; got dtype {new.dtype}")
        array = to_array(new, self._value.dtype, f"variable {self.name!r}")
        if array.shape != self._value.shape:
            raise ShapeError(f"variable {self.name!r} is {self.type}; got shape {array.shape}")
        self._value = array
        Epoch.advance()


class Constant(Stored):
    """A value that is not trained; floats become float32 and integers int64, arrays keep their dtype.

    >>> import metaop as mo
    >>> mo.Constant([1, 2, 3])
    <Constant 'constant_1' int64[3]>
    """

    __slots__ = ("weak",)

    def __init__(self, value: Any, dtype: Any = None, *, name: str | None = None) -> None:
        super().__init__("constant", value, dtype, name)
        #: whether the dtype is still open: a Python number beside a tensor whose dtype comes with the data
        self.weak = False

    @classmethod
    def owning(cls, array: np.ndarray, name: str) -> Self:
        node = super().owning(array, name)
        node.weak = False
        return node


def weak_constant(value: bool | int | float) -> Constant:
    """A Python number that will take the dtype of the tensors beside it."""
    node = Constant(value)
    node.weak = True
    node.type = TensorType(None, ())
    return node


def to_array(value: Any, dtype: Any, what: str) -> np.ndarray:
    """A fresh array in the machine's byte order; Python floats are float32 unless ``dtype`` says otherwise."""
    if isinstance(value, Node):
        raise UsageError(f"{what}: the value must be data; got node {value.name!r}")
    try:
        array = np.array(value, dtype=None if dtype is None else as_dtype(dtype), order="C")
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, UsageError | DtypeError):
            raise
        raise UsageError(f"{what}: the value cannot be made an array ({error})") from None
    if dtype is None:
        if not hasattr(value, "dtype") and array.dtype == np.float64:
            return array.astype(np.float32)
        known = as_dtype(array.dtype)
        return array.astype(known, copy=False)
    if not is_floating(array.dtype) and not np.array_equal(np.asarray(value), array):
        raise DtypeError(f"{what}: the value does not fit {array.dtype.name} without loss")
    return array


class RandomData(Node):
    """Random data that metaop draws from the session's seed and feeds to every backend alike: a dropout mask."""

    __slots__ = ("consumer", "param")

    def __init__(self, type: TensorType, consumer: str, param: str) -> None:
        super().__init__("random", type, f"{consumer}.{param}")
        self.consumer = consumer
        self.param = param


class Operator(Node):
    """A meta operator applied to nodes; made by ``mo.<operator>(...)`` or by arithmetic on nodes.

    ``attrs`` are the attributes; those that are computed when the graph is run are in ``open`` instead, each with the
    node that it is computed from.
    """

    __slots__ = ("_inputs", "attrs", "op", "open", "results", "types")

    def __init__(
        self,
        op: MetaOp,
        inputs: tuple[Node | None, ...],
        attrs: Mapping[str, Any],
        types: tuple[TensorType, ...],
        name: str | None,
        open: Mapping[str, Node] | None = None,
    ) -> None:
        super().__init__(op.name, types[0], name)
        self.open = dict(open or {})
        self.op = op
        self._inputs = inputs
        self.attrs = dict(attrs)
        self.types = types
        #: what callers hold: the operator itself, or one node per output
        self.results: tuple[Node, ...] = (self,)
        if len(types) > 1 or op.outputs is None:
            names = op.outputs or tuple(str(i) for i in range(len(types)))
            self.results = tuple(
                Result(self, i, t, f"{self.name}.{n}") for i, (t, n) in enumerate(zip(types, names, strict=True))
            )

    @property
    def inputs(self) -> tuple[Node | None, ...]:
        return self._inputs

    def _bind(self, spec: str | None) -> None:
        self._backend = None if spec is None else canonical(spec)
        Epoch.advance()

    def __repr__(self) -> str:
        bound = f" on {self._backend}" if self._backend else ""
        return f"<Operator {self.name!r} {self.op.name} {self.type}{bound}>"


class Result(Node):
    """One output of an operator that has several."""

    __slots__ = ("_index", "_producer")

    def __init__(self, producer: Operator, index: int, type: TensorType, name: str) -> None:
        super().__init__("result", type, name)
        self._producer = producer
        self._index = index

    @property
    def producer(self) -> Operator:
        return self._producer

    @property
    def index(self) -> int:
        return self._index

    @property
    def backend(self) -> str | None:
        """The backend of the operator that this is an output of."""
        return self._producer.backend

    @backend.setter
    def backend(self, spec: str | None) -> None:
        self._producer.backend = spec
