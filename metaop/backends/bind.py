"""How a framework's bindings are written down.

A binding is one short function, named after its meta operator and with the same parameters, that calls the framework;
or one row that maps the operator to a function of the framework directly:

    bind = Bindings("torch")

    @bind
    def leaky_relu(x, *, alpha):
        return F.leaky_relu(x, negative_slope=alpha)

    bind.rename({"tanh": torch.tanh, "elu": (F.elu, {"alpha": "alpha"})})
    bind.unsupported("hard_swish", reason="no kernel for it")

Binding files also run inside isolated environments: this module and they must stay importable on Python 3.6, and import
nothing of metaop but this module and ``metaop.errors``.
"""

import inspect
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from metaop.errors import InternalError, UnsupportedOpError

__all__ = ["Binding", "Bindings"]


class Binding:
    """How one framework computes one operator: a function on its tensors, and what it calls the attributes."""

    __slots__ = ("function", "names", "op", "reason")

    def __init__(
        self,
        op: str,
        function: Optional[Callable[..., Any]],
        names: Optional[Mapping[str, str]] = None,
        reason: Optional[str] = None,
    ) -> None:
        self.op = op
        self.function = function
        self.names = names
        self.reason = reason

    def keywords(self, attrs: Mapping[str, Any]) -> Dict[str, Any]:
        """The attributes under the names that ``function`` knows them by."""
        if self.names is None:
            return dict(attrs)
        return {theirs: attrs[ours] for ours, theirs in self.names.items()}


class Bindings:
    """The bindings of one framework, filled by its files when the framework is first used."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.table: Dict[str, Binding] = {}

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register ``function`` as the binding of the operator of the same name."""
        self._add(Binding(function.__name__, function))
        return function

    def rename(self, table: Mapping[str, Any]) -> None:
        """Register framework functions as they are: ``op -> function`` or ``op -> (function, {ours: theirs})``.

        The first form passes no attributes, so it serves only operators that have none.
        """
        for op, row in table.items():
            function, names = row if isinstance(row, tuple) else (row, {})
            self._add(Binding(op, function, names))

    def unsupported(self, *ops: str, reason: str) -> None:
        """Declare that this framework cannot compute these operators."""
        for op in ops:
            self._add(Binding(op, None, reason=reason))

    def _add(self, binding: Binding) -> None:
        if binding.op in self.table:
            raise InternalError("{}: operator {!r} is bound twice".format(self.backend, binding.op))
        self.table[binding.op] = binding

    def find(self, op: str) -> Binding:
        """The binding of an operator; :class:`UnsupportedOpError` with the reason where there is none."""
        binding = self.table.get(op)
        if binding is None or binding.function is None:
            raise UnsupportedOpError(
                "{} does not compute {!r}: {}. Bind the node to another backend".format(
                    self.backend, op, self.reason(op)
                )
            )
        return binding

    def reason(self, op: str) -> Optional[str]:
        """Why the operator is unsupported; ``None`` where it is supported."""
        binding = self.table.get(op)
        return "no binding has been written" if binding is None else binding.reason

    def check(self, declared: Mapping[str, Tuple[List[str], Iterable[str]]]) -> None:
        """Refuse bindings of undeclared operators, and signatures that differ from the declaration.

        ``declared`` maps an operator to the names of its tensors (``*`` before a variadic one) and of its attributes.
        """
        for op, binding in self.table.items():
            where = "{}: the binding of {!r}".format(self.backend, op)
            if op not in declared:
                raise InternalError(where + " has no meta operator of that name")
            tensors, attrs = declared[op]
            if binding.function is None:
                continue
            if binding.names is not None:
                if set(binding.names) != set(attrs):
                    raise InternalError(where + " must pass on exactly the attributes {}".format(sorted(attrs)))
                continue
            params = list(inspect.signature(binding.function).parameters.values())
            theirs = [
                ("*" if p.kind is p.VAR_POSITIONAL else "") + p.name for p in params if p.kind is not p.KEYWORD_ONLY
            ]
            if theirs != list(tensors) or {p.name for p in params if p.kind is p.KEYWORD_ONLY} != set(attrs):
                raise InternalError(
                    where + " must take the tensors {} and the attributes {}".format(list(tensors), sorted(attrs))
                )
