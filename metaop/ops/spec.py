"""What an operator means, declared once.

A declaration is a function with the decorator :func:`meta_op`. Its name is the operator's name, its positional
parameters are the tensors, its keyword-only parameters are the attributes, its docstring is the documentation, and
its body, on NumPy arrays of any dtype the operator accepts, is the reference. Everything else (graph functions, shape
checks, gradients, tests, tables) is derived from that object; nothing here knows a framework other than NumPy.
"""

from __future__ import annotations

import functools
import inspect
import types as pytypes
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metaop.errors import AttributeValueError, DtypeError, InternalError, UsageError
from metaop.ops.domain import Domain, Draws, reals
from metaop.ops.opened import UNKNOWN, shape_while_open
from metaop.types import ANY, TensorType, as_dtype, describe_dtypes, takes

__all__ = ["REGISTRY", "Attr", "MetaOp", "Param", "Reject", "Sample", "meta_op"]

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Param:
    """A tensor parameter of an operator."""

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Attr:
    """A keyword-only attribute of an operator: its default, and what values it takes."""

    name: str
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether the caller must give it."""
        return self.default is REQUIRED

    def describe(self) -> str:
        """The accepted values, in words."""
        return " or ".join(_describe(option) for option in _options(self.annotation))

    def accept(self, op: str, value: Any) -> Any:
        """The value in its canonical Python form, or an error that says what is accepted."""
        for option in _options(self.annotation):
            accepted = _coerce(option, value)
            if accepted is not _REFUSED:
                return accepted
        raise AttributeValueError(f"{op}: attribute {self.name!r} takes {self.describe()}; got {value!r}")


_REFUSED = object()


def _options(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, pytypes.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)


def _describe(option: Any) -> str:
    if option is None or option is type(None):
        return "None"
    if typing.get_origin(option) is tuple:
        return f"a sequence of {typing.get_args(option)[0].__name__}s"
    if typing.get_origin(option) is typing.Literal:
        return " or ".join(repr(choice) for choice in typing.get_args(option))
    names = {int: "an integer", float: "a number", bool: "True or False", str: "a string", np.dtype: "a dtype"}
    return names[option]


def _coerce(option: Any, value: Any) -> Any:
    """``value`` as the annotated type, where that loses nothing; ``_REFUSED`` otherwise."""
    if option is None or option is type(None):
        return None if value is None else _REFUSED
    if typing.get_origin(option) is typing.Literal:
        return value if any(value == c and type(value) is type(c) for c in typing.get_args(option)) else _REFUSED
    if typing.get_origin(option) is tuple:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, list | tuple):
            return _REFUSED
        items = tuple(_coerce(typing.get_args(option)[0], item) for item in value)
        return _REFUSED if any(item is _REFUSED for item in items) else items
    if option is np.dtype:
        if value is None:  # which NumPy takes for float64
            return _REFUSED
        try:
            # To NumPy, None is float64.
            return _REFUSED if value is None else as_dtype(value)
        except DtypeError:
            return _REFUSED
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if option is bool:
        return value if isinstance(value, bool) else _REFUSED
    if isinstance(value, bool):
        return _REFUSED
    if option is int:
        return value if isinstance(value, int) else _REFUSED
    if option is float:
        return float(value) if isinstance(value, int | float) else _REFUSED
    return value if isinstance(value, option) else _REFUSED


@dataclass(frozen=True)
class Sample:
    """One set of arguments on which an operator is exercised.

    ``tensors`` holds, for each tensor argument, a shape to be drawn from the domain, explicit values, or ``None`` for
    an optional tensor left out. ``special`` marks NaN, infinities and points where no gradient exists: such samples
    are compared in value only.
    """

    op: MetaOp
    tensors: tuple[Any, ...]
    attrs: dict[str, Any]
    special: bool = False

    def __str__(self) -> str:
        shapes = ", ".join("-" if t is None else str(_shape_of(t)) for t in self.tensors)
        attrs = "".join(f", {k}={v!r}" for k, v in self.attrs.items())
        return f"{self.op.name}({shapes}{attrs}{', special values' if self.special else ''})"

    def inputs(self, dtype: Any = "float32", seed: int = 0) -> list[np.ndarray | None]:
        """The arrays, in the operator's main dtype ``dtype``; equal seeds give equal arrays in every dtype."""
        rng = np.random.default_rng([seed, *self.op.name.encode()])
        dtype = as_dtype(dtype)
        arrays: list[np.ndarray | None] = []
        for index, given in enumerate(self.tensors):
            param = self.op.param_at(index)
            accepted = self.op.dtypes_of(param)
            own = dtype if param.name not in self.op.also else _preferred(accepted)
            if given is None:
                arrays.append(None)
            elif isinstance(given, tuple):
                arrays.append(self.op.domain_of(param).draw(rng, given, own))
            elif isinstance(given, Draws):
                arrays.append(given.domain.draw(rng, given.shape, own))
            else:
                values = np.asarray(given)
                # A boolean or narrow integer array is what it is; others are numbers, in the dtype that is tried.
                kept = values.dtype.kind == "b" or (param.name in self.op.also and values.dtype in _NARROW)
                with np.errstate(invalid="ignore", over="ignore"):
                    arrays.append(np.array(values, dtype=values.dtype if kept else own))
        return arrays


_NARROW = frozenset(np.dtype(name) for name in ("int8", "uint8", "int16", "uint16"))


def _shown(default: Any) -> str:
    return repr(default.name if isinstance(default, np.dtype) else default)


def _shape_of(tensor: Any) -> tuple[int, ...]:
    if isinstance(tensor, tuple):
        return tensor
    return tensor.shape if isinstance(tensor, Draws) else np.shape(tensor)


def _preferred(dtypes: frozenset[np.dtype]) -> np.dtype:
    for name in ("float32", "int64", "bool", "int32", "int8"):
        if np.dtype(name) in dtypes:
            return np.dtype(name)
    return next(iter(dtypes))


@dataclass(frozen=True)
class Reject:
    """Arguments that an operator must refuse when a graph is built, and a part of the message."""

    types: tuple[TensorType | None, ...]
    attrs: dict[str, Any]
    message: str


Vjp = Callable[..., Sequence[Any]]


@dataclass(eq=False)
class MetaOp:
    """A meta operator; made by :func:`meta_op`, looked up in ``mo.ops()``.

    Calling it runs the reference on arrays:

    >>> from metaop import ops
    >>> ops.REGISTRY["leaky_relu"](np.array([-1.0, 2.0]), alpha=0.5)
    array([-0.5,  2. ])
    """

    name: str
    family: str
    reference: Callable[..., Any]
    params: tuple[Param, ...]
    attrs: dict[str, Attr]
    rule: Callable[..., TensorType | tuple[TensorType, ...]]
    dtypes: frozenset[np.dtype]
    also: dict[str, frozenset[np.dtype]]
    domain: dict[str, Domain]
    outputs: tuple[str, ...] | None
    nondifferentiable: str | None
    random: dict[str, Callable[..., np.ndarray]]
    #: whether the types of the inputs determine the result, and their values do not
    types_only: bool = False
    #: whether sizes of the result depend on the values of the inputs; the rule leaves those unknown
    sizes_from_data: bool = False
    gradient: Vjp | None = None
    _samples: list[Callable[..., Iterator[Sample]]] = field(default_factory=list)
    _rejects: list[Callable[..., Iterator[Reject]]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<meta operator {self.signature}>"

    @property
    def doc(self) -> str:
        """The documentation of the declaration."""
        return inspect.getdoc(self.reference) or ""

    @property
    def summary(self) -> str:
        """The first paragraph of the documentation, on one line."""
        return " ".join(self.doc.split("\n\n")[0].split())

    @property
    def signature(self) -> str:
        """How the operator is called: ``leaky_relu(x, *, alpha=0.01)``."""
        parts = [("*" if p.variadic else "") + p.name + ("=None" if p.optional else "") for p in self.params]
        if self.attrs and not any(p.variadic for p in self.params):
            parts.append("*")
        parts += [a.name + ("" if a.required else f"={_shown(a.default)}") for a in self.attrs.values()]
        return f"{self.name}({', '.join(parts)})"

    @property
    def variadic(self) -> bool:
        """Whether the operator takes any number of tensors."""
        return bool(self.params) and self.params[-1].variadic

    @property
    def differentiable(self) -> bool:
        """Whether a gradient rule exists."""
        return self.gradient is not None

    def param_at(self, index: int) -> Param:
        """The parameter that the tensor argument at ``index`` belongs to."""
        return self.params[min(index, len(self.params) - 1)]

    def dtypes_of(self, param: Param) -> frozenset[np.dtype]:
        """The dtypes that a tensor parameter takes."""
        return self.also.get(param.name, self.dtypes)

    def domain_of(self, param: Param) -> Domain:
        """Where the operator is defined, and smooth, in that parameter."""
        return self.domain.get(param.name, reals())

    def __call__(self, *arrays: Any, **attrs: Any) -> Any:
        return self.reference(*arrays, **self.complete(attrs))

    # -- checks -----------------------------------------------------------------------------------------------------

    def complete(self, attrs: Mapping[str, Any], open: Collection[str] = ()) -> dict[str, Any]:
        """Every attribute in canonical form, defaults filled in, in declaration order; those ``open`` are left out."""
        for name in attrs:
            if name not in self.attrs:
                known = ", ".join(self.attrs) or "none"
                raise AttributeValueError(f"{self.name} has no attribute {name!r}; its attributes: {known}")
        full = {}
        for name, attr in self.attrs.items():
            if name in open:
                continue
            if name in attrs:
                full[name] = attr.accept(self.name, attrs[name])
            elif attr.required:
                raise AttributeValueError(f"{self.name}: attribute {name!r} is required; it takes {attr.describe()}")
            else:
                full[name] = attr.default
        return full

    def check_count(self, count: int) -> None:
        """Refuse a wrong number of tensors."""
        least = sum(not p.optional and not p.variadic for p in self.params) + self.variadic
        if count < least or (count > len(self.params) and not self.variadic):
            most = "any number of" if self.variadic else str(len(self.params))
            wanted = str(least) if str(least) == most else f"{least} to {most}"
            raise UsageError(f"{self.name} takes {wanted} tensors; got {count}. It is called as {self.signature}")

    def infer(self, types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> tuple[TensorType, ...]:
        """The types of the outputs, from those of the inputs; raises where they do not fit."""
        seen = self.check_dtypes(types)
        # An input of yet unknown dtype has, if anything, the dtype that its fellows show.
        filled = [
            t.with_dtype(seen) if t is not None and t.dtype is None and self.param_at(i).name not in self.also else t
            for i, t in enumerate(types)
        ]
        result = self.rule(*filled, **attrs)
        return result if isinstance(result, tuple) else (result,)

    def check_dtypes(self, types: Sequence[TensorType | None]) -> np.dtype | None:
        """Refuse tensors that are missing, too many or of a wrong dtype; the dtype that the main ones share."""
        self.check_count(len(types))
        main: tuple[str, np.dtype] | None = None
        for index, given in enumerate(types):
            param = self.param_at(index)
            label = f"{param.name}[{index - len(self.params) + 1}]" if param.variadic else param.name
            if given is None:
                if not param.optional:
                    raise UsageError(f"{self.name}: argument {label!r} is required. It is called as {self.signature}")
                continue
            if given.dtype is None:
                continue
            if not takes(self.dtypes_of(param), given.dtype):
                raise DtypeError(
                    f"{self.name}: argument {label!r} takes {describe_dtypes(self.dtypes_of(param))}; "
                    f"got {given}. Use metaop.cast(..., to=...) to convert"
                )
            if param.name in self.also:
                continue
            if main is not None and main[1] != given.dtype:
                raise DtypeError(
                    f"{self.name}: arguments {main[0]!r} and {label!r} must have one dtype; got {main[1].name} and "
                    f"{given.dtype.name}. Use metaop.cast(..., to=...) to convert"
                )
            main = main or (label, given.dtype)
        return main[1] if main else None

    def open_types(
        self, types: Sequence[TensorType | None], attrs: Mapping[str, Any], parts: Mapping[str, Any]
    ) -> tuple[TensorType, ...]:
        """What is known of the outputs while attributes are not: their number, dtypes and often ranks.

        ``parts`` has, for each attribute that is computed later, a tuple with ``None`` for each unknown number, or
        ``None`` where even its length is unknown.
        """
        known = {**attrs, **{name: UNKNOWN if part is None else part for name, part in parts.items()}}
        main = self.check_dtypes(types)
        shape = shape_while_open(self.name, types, known)
        if self.outputs is not None:
            chosen = {k: v for k, v in attrs.items() if np.dtype in _options(self.attrs[k].annotation)}
            dtypes = self._output_dtypes(tuple(chosen.items()))
            return tuple(TensorType(main if dtype is None else dtype, shape) for dtype in dtypes)
        # Of the operators that cut a tensor into parts, the sizes of these may be open, but not their number.
        sizes = known.get(self.name)
        if not isinstance(sizes, tuple):
            raise UsageError(f"{self.name}: its attributes say how many outputs it has; give them as numbers")
        return tuple(TensorType(main, shape) for _ in sizes)

    @functools.lru_cache  # noqa: B019 - there is one object for each operator, and it lives as long as the process
    def _output_dtypes(self, chosen: tuple[tuple[str, Any], ...]) -> tuple[np.dtype | None, ...]:
        """The dtype of each output, as the first sample shows it; ``None`` where it is that of the main tensors.

        ``chosen`` are attributes that are dtypes, which may decide.
        """
        sample = next(s for s in self.all_samples() if not s.special)
        found = []
        for main in sorted(self.dtypes, key=lambda d: (d.kind != "f", d.itemsize))[:2]:
            types = [None if a is None else TensorType(a.dtype, a.shape) for a in sample.inputs(main)]
            found.append([t.dtype for t in self.infer(types, {**sample.attrs, **dict(chosen)})])
        return tuple(a if a == b else None for a, b in zip(found[0], found[-1], strict=True))

    # -- the parts of a declaration that do not fit in the decorator ------------------------------------------------

    def vjp(self, rule: Vjp) -> Vjp:
        """Register the gradient rule ``rule(m, g, y, *inputs, **attrs) -> one gradient (or None) per input``.

        ``m`` holds every meta operator as a function on the tensors of whichever backend runs the rule. With several
        outputs ``g`` and ``y`` are tuples.
        """
        if self.nondifferentiable:
            raise InternalError(f"{self.name} is declared non-differentiable and cannot have a gradient rule")
        self.gradient = rule
        return rule

    def samples(self, generator: Callable[..., Iterator[Sample]]) -> Callable[..., Iterator[Sample]]:
        """Register a generator of samples; it is given ``draw`` and yields what ``draw`` makes."""
        self._samples.append(generator)
        return generator

    def rejects(self, generator: Callable[..., Iterator[Reject]]) -> Callable[..., Iterator[Reject]]:
        """Register a generator of refused inputs; it is given ``reject`` and yields what ``reject`` makes."""
        self._rejects.append(generator)
        return generator

    def all_samples(self) -> list[Sample]:
        """Every sample of the declaration, in order."""
        return [sample for generator in self._samples for sample in generator(self._draw)]

    def all_rejects(self) -> list[Reject]:
        """Every refused input of the declaration, in order."""
        return [case for generator in self._rejects for case in generator(self._reject)]

    def _draw(self, *variadic: Any, special: bool = False, **given: Any) -> Sample:
        tensors, attrs = self._split(variadic, given)
        return Sample(self, tensors, self.complete(attrs), special)

    def _reject(self, *variadic: Any, message: str, **given: Any) -> Reject:
        """Tensors are written ``"float32[2, 3]"``, with ``?`` for an unknown size."""
        tensors, attrs = self._split(variadic, given)
        return Reject(tuple(None if t is None else parse_type(t) for t in tensors), attrs, message)

    def _split(self, variadic: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if self.variadic:
            return variadic, given
        if variadic:
            raise InternalError(f"samples of {self.name} name their tensors: draw({self.params[0].name}=...)")
        tensors = [given.get(p.name) for p in self.params]
        while tensors and tensors[-1] is None and self.params[len(tensors) - 1].optional:
            tensors.pop()
        names = {p.name for p in self.params}
        return tuple(tensors), {k: v for k, v in given.items() if k not in names}


def parse_type(text: str) -> TensorType:
    """The type written as ``"float32[2, ?]"``; ``"float32[...]"`` has unknown rank."""
    name, _, sizes = text.rstrip("]").partition("[")
    dtype = None if name == "?" else as_dtype(name)
    if sizes == "...":
        return TensorType(dtype, None)
    return TensorType(dtype, tuple(None if s.strip() == "?" else int(s) for s in sizes.split(",") if s.strip()))


REGISTRY: dict[str, MetaOp] = {}


def meta_op(
    *,
    rule: Callable[..., TensorType | tuple[TensorType, ...]],
    dtypes: frozenset[np.dtype] = ANY,
    also: Mapping[str, frozenset[np.dtype]] | None = None,
    domain: Mapping[str, Domain] | None = None,
    outputs: tuple[str, ...] | None = ("y",),
    nondifferentiable: str | None = None,
    random: Mapping[str, Callable[..., np.ndarray]] | None = None,
    types_only: bool = False,
    sizes_from_data: bool = False,
) -> Callable[[Callable[..., Any]], MetaOp]:
    """Declare a meta operator; see this module's docstring for what the decorated function says by itself.

    ``dtypes`` are those of the tensors, which must all agree, apart from the parameters that ``also`` lists with sets
    of their own. ``rule(*types, **attrs)`` gives the output types and raises where shapes do not fit. ``outputs``
    names the outputs, or is ``None`` where their number depends on the arguments. ``random`` says, for an optional
    tensor that is random data (a dropout mask), how metaop draws it: ``fn(rng, *types, **attrs) -> array``.
    ``types_only`` says that nothing but the types of the inputs counts, as for the shape of a tensor;
    ``sizes_from_data`` that sizes of the result depend on values, so that the rule cannot tell them.
    """

    def declare(function: Callable[..., Any]) -> MetaOp:
        params, attrs = [], {}
        for p in inspect.signature(function).parameters.values():
            if p.kind is p.KEYWORD_ONLY:
                attrs[p.name] = Attr(p.name, p.annotation, p.default)
            else:
                params.append(Param(p.name, p.default is None, p.kind is p.VAR_POSITIONAL))
        op = MetaOp(
            name=function.__name__,
            family=function.__module__.rpartition(".")[2],
            reference=function,
            params=tuple(params),
            attrs=attrs,
            rule=rule,
            dtypes=dtypes,
            also=dict(also or {}),
            domain=dict(domain or {}),
            outputs=outputs,
            nondifferentiable=nondifferentiable,
            random=dict(random or {}),
            types_only=types_only,
            sizes_from_data=sizes_from_data,
        )
        if op.name in REGISTRY:
            raise InternalError(f"meta operator {op.name!r} is declared twice")
        for name in [*op.also, *op.domain, *op.random]:
            if name not in {p.name for p in params}:
                raise InternalError(f"{op.name}: {name!r} is not one of its tensors")
        REGISTRY[op.name] = op
        return op

    return declare
