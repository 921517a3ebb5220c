"""Twelve kinds of faults, each injected into one operator of one framework.

A fault wraps the framework's own operator: what it is given or what it returns is changed. The same fault is also put
into the NumPy reference, in float64, and where it changes nothing there it is none, and another is drawn
(:func:`without_effect`): that is decided before metaop has compared anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import metaop as mo
from benchmarks.debugged import NETWORKS, Network
from metaop.backends import Backend, get
from metaop.errors import MetaopError
from metaop.graph.nodes import Node, Operator, Variable
from metaop.graph.order import execution_order

__all__ = ["FRAMEWORKS", "KINDS", "Fault", "Subject", "draw", "without_effect"]

#: into which faults are injected
FRAMEWORKS = ("torch", "jax", "onnxruntime")
#: what the framework with the fault is compared with
OTHERS = ("torch", "jax", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Fault:
    """A kind of fault at one node of one network, in one framework."""

    kind: str
    network: str
    node: str
    framework: str
    other: str


class Subject:
    """A network, and what its operators are given: on its own data, and on those of the batch before."""

    def __init__(self, name: str) -> None:
        self.network: Network = NETWORKS[name]()
        self.operators = self.network.operators

    @cached_property
    def values(self) -> dict[Node, np.ndarray]:
        """Of all nodes, on NumPy."""
        return self._run(self.network.feeds)

    @cached_property
    def before(self) -> dict[Node, np.ndarray]:
        """The same of another batch of the same kind."""
        return self._run({node: _another(array) for node, array in self.network.feeds.items()})

    def _run(self, feeds: Mapping[Any, np.ndarray]) -> dict[Node, np.ndarray]:
        nodes = list({n for node in self.operators for n in (*node.results, *node.inputs) if n is not None})
        return dict(zip(nodes, mo.Session("numpy").run(nodes, feeds), strict=True))

    @cached_property
    def active(self) -> set[Node]:
        """The nodes that depend on a variable."""
        found: set[Node] = set()
        for node in execution_order([self.network.loss]):
            if isinstance(node, Variable) or any(_producer(n) in found for n in node.inputs if n is not None):
                found.add(node)
        return found

    def wrt(self, node: Operator) -> list[int]:
        """The arguments through which gradients flow to a variable."""
        floating = [n is not None and self.values[n].dtype.kind == "f" for n in node.inputs]
        return [i for i, n in enumerate(node.inputs) if floating[i] and n is not None and _producer(n) in self.active]


def _producer(node: Node) -> Node:
    return node if node.producer is None else node.producer


def _another(array: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(array.size)
    if array.dtype.kind == "i":
        return rng.permutation(array.reshape(-1)).reshape(array.shape)[::-1].copy()
    return rng.permutation(array.reshape(-1)).reshape(array.shape)


# -- the kinds ---------------------------------------------------------------------------------------------------------

#: the forward of an operator from its inputs and attributes, and the other way round
Forward = Callable[[Sequence[Any], dict[str, Any]], Any]


class Site:
    """The operator at which a fault is made, on one backend."""

    def __init__(self, backend: Backend, subject: Subject, node: Operator) -> None:
        self.backend = backend
        self.node = node
        self.op = node.op.name
        self.wrt = subject.wrt(node)
        self.before = [None if n is None else subject.before[n] for n in node.inputs]
        if backend.name == "torch":
            import torch as library
        elif backend.name == "jax":
            import jax.numpy as library  # type: ignore[no-redef]
        else:
            library = np  # type: ignore[assignment]
        self.library: Any = library

    def right(self, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """What the framework computes."""
        return self.backend.call(self.op, attrs, list(inputs))

    def gradients(self, g: Any, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
        """The framework's gradients, ``None`` for arguments that have none."""
        _, pullback = self.backend.linearize(self.op, attrs, list(inputs), self.wrt)
        found = dict(zip(self.wrt, pullback(list(g) if isinstance(g, tuple) else [g]), strict=True))
        return [found.get(i) for i in range(len(inputs))]

    def earlier(self, like: Sequence[Any]) -> list[Any]:
        """The arguments of the call before, in the precision of these."""
        found = []
        for array, now in zip(self.before, like, strict=True):
            if array is not None and array.dtype.kind == "f":
                array = array.astype(self.backend.to_numpy(now).dtype)
            found.append(None if array is None else self.backend.from_numpy(array))
        return found

    def halved(self, x: Any) -> Any:
        """Rounded to float16 and back."""
        if x is None or self.backend.type_of(x)[0].kind != "f":
            return x
        if self.library.__name__ == "torch":
            return x.to(self.library.float16).to(x.dtype)
        return x.astype("float16").astype(x.dtype)


def _changed(site: Site, change: Callable[[Any], Any]) -> Backend:
    """The first output, changed."""

    def function(*inputs: Any, **attrs: Any) -> Any:
        first, *rest = site.right(inputs, attrs)
        return (change(first), *rest) if rest else change(first)

    return _forward(site, function)


def _forward(site: Site, function: Callable[..., Any]) -> Backend:
    return mo.derive(site.backend, name=f"{site.backend.name}-faulty", forward={site.op: function})


def _gradient(site: Site, function: Callable[[Any, Sequence[Any], dict[str, Any]], Sequence[Any]]) -> Backend:
    def gradient(g: Any, y: Any, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
        return tuple(function(g, inputs, attrs))

    return mo.derive(site.backend, name=f"{site.backend.name}-faulty", gradient={site.op: gradient})


def scaled(site: Site) -> Backend:
    return _changed(site, lambda y: y * 1.001)


def shifted(site: Site) -> Backend:
    return _changed(site, lambda y: site.library.roll(y.reshape(-1), 1).reshape(y.shape))


def transposed(site: Site) -> Backend:
    def change(y: Any) -> Any:
        if len(y.shape) < 2 or y.shape[-1] != y.shape[-2]:
            # The first elements, column by column.
            return y.reshape((y.shape[-1], -1)).T.reshape(y.shape)
        return y.swapaxes(-1, -2)

    return _changed(site, change)


def nan(site: Site) -> Backend:
    def change(y: Any) -> Any:
        spot = np.zeros(tuple(y.shape), site.backend.type_of(y)[0])
        spot.reshape(-1)[spot.size // 2] = np.nan
        return y + site.backend.from_numpy(spot)

    return _changed(site, change)


def half_precision(site: Site) -> Backend:
    def function(*inputs: Any, **attrs: Any) -> Any:
        results = [site.halved(y) for y in site.right([site.halved(x) for x in inputs], attrs)]
        return tuple(results) if len(results) > 1 else results[0]

    return _forward(site, function)


def swapped_arguments(site: Site) -> Backend:
    i, j = _EXCHANGED.get(site.op, (0, 1))

    def function(*inputs: Any, **attrs: Any) -> Any:
        given = list(inputs)
        given[i], given[j] = given[j], given[i]
        results = site.right(given, attrs)
        return results if len(results) > 1 else results[0]

    return _forward(site, function)


#: which arguments are exchanged where not the first two: scale and bias, two weights
_EXCHANGED = {"batch_norm": (1, 2), "layer_norm": (1, 2), "lstm": (1, 2)}


def wrong_axis(site: Site) -> Backend:
    def moved(attrs: dict[str, Any]) -> dict[str, Any]:
        if "axis" in attrs:
            return attrs | {"axis": attrs["axis"] - 1}
        if "axes" in attrs:
            return attrs | {"axes": tuple(a - 1 for a in attrs["axes"])}
        return attrs | {"perm": (*attrs["perm"][1:], attrs["perm"][0])}

    return _attributes(site, moved)


def wrong_epsilon(site: Site) -> Backend:
    return _attributes(site, lambda attrs: attrs | {"epsilon": 1e-3})


def _attributes(site: Site, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Backend:
    def function(*inputs: Any, **attrs: Any) -> Any:
        results = site.right(inputs, change(attrs))
        return results if len(results) > 1 else results[0]

    return _forward(site, function)


def scaled_gradient(site: Site) -> Backend:
    return _gradient(
        site, lambda g, inputs, attrs: [None if d is None else d * 1.01 for d in site.gradients(g, inputs, attrs)]
    )


def zero_gradient(site: Site) -> Backend:
    return _gradient(
        site, lambda g, inputs, attrs: [None if d is None else d * 0 for d in site.gradients(g, inputs, attrs)]
    )


def gradient_of_one(site: Site) -> Backend:
    """Only the first argument has one."""

    def function(g: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        found = site.gradients(g, inputs, attrs)
        first = site.wrt[0] if site.wrt else 0
        return [d if d is None or i == first else d * 0 for i, d in enumerate(found)]

    return _gradient(site, function)


def stale(site: Site) -> Backend:
    """Gradients where they depend on the data, with what the call before was given; values where they do not."""
    return _gradient(site, lambda g, inputs, attrs: site.gradients(g, site.earlier(inputs), attrs))


KINDS: dict[str, Callable[[Site], Backend]] = {
    f.__name__: f
    for f in (
        scaled,
        shifted,
        transposed,
        nan,
        half_precision,
        swapped_arguments,
        wrong_axis,
        wrong_epsilon,
        scaled_gradient,
        zero_gradient,
        gradient_of_one,
        stale,
    )
}
_GRADIENTS = ("scaled_gradient", "zero_gradient", "gradient_of_one", "stale")


def inject(fault: Fault, subject: Subject) -> Backend:
    """The framework with the fault."""
    node = subject.network.node(fault.node)
    return KINDS[fault.kind](Site(get(fault.framework), subject, node))


# -- which faults are faults -------------------------------------------------------------------------------------------

#: a change of less, in float64 and relative to the largest number, is what float32 rounds away
_ROUNDED = 2.0**-20


def without_effect(kind: str, subject: Subject, node: Operator) -> str | None:
    """Why the kind of fault does not exist at a node, or changes nothing there; ``None`` where it is one.

    It is made in the reference, in float64, and what comes out is compared.
    """
    if kind in _GRADIENTS and not subject.wrt(node):
        return "no gradient flows through the node"
    if kind == "wrong_axis" and not {"axis", "axes", "perm"} & {k for k, v in node.attrs.items() if v is not None}:
        return "the operator has no axis"
    if kind == "wrong_epsilon" and "epsilon" not in node.attrs:
        return "the operator has no epsilon"
    if kind == "swapped_arguments" and len(node.inputs) <= max(_EXCHANGED.get(node.op.name, (0, 1))):
        return "the operator has no two arguments to exchange"
    site = Site(get("numpy"), subject, node)
    inputs = [None if n is None else _wide(subject.values[n]) for n in node.inputs]
    outputs = site.right(inputs, node.attrs)
    if not any(y.dtype.kind == "f" for y in outputs[:1]):
        return "the operator gives whole numbers"
    rng = np.random.default_rng(0)
    incoming = [rng.standard_normal(y.shape) for y in outputs]
    try:
        faulty = KINDS[kind](site)
        with np.errstate(all="ignore"):
            if kind in _GRADIENTS:
                _, pullback = faulty.linearize(site.op, node.attrs, inputs, site.wrt)
                found = pullback(incoming)
                exact = site.gradients(tuple(incoming) if len(incoming) > 1 else incoming[0], inputs, node.attrs)
                exact = [exact[i] for i in site.wrt]
            else:
                found, exact = faulty.call(site.op, node.attrs, inputs), outputs
    except (MetaopError, ValueError, IndexError, TypeError) as error:
        return f"it cannot be made there: {type(error).__name__}"
    if any(np.shape(a) != np.shape(b) for a, b in zip(found, exact, strict=True)):
        return "the result has another shape: no framework would get away with it"
    if not any(_differ(np.asarray(a), np.asarray(b)) for a, b in zip(found, exact, strict=True)):
        return "it changes nothing but what float32 rounds away"
    return None


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    if np.isnan(a).any() != np.isnan(b).any():
        return True
    return bool(np.abs(a - b).max(initial=0.0) > _ROUNDED * np.abs(b).max(initial=0.0))


def draw(count: int, subjects: Mapping[str, Subject], seed: int = 0) -> tuple[list[Fault], dict[str, int]]:
    """So many faults, each kind that has a place in one of the networks equally often; and redraws by reason."""
    rng = np.random.default_rng(seed)
    names = list(subjects)
    faults: list[Fault] = []
    redrawn: dict[str, int] = {}
    known: dict[tuple[str, str, str], str | None] = {}

    def has_place(kind: str) -> bool:
        for network, subject in subjects.items():
            for node in subject.operators:
                reason = known[kind, network, node.name] = without_effect(kind, subject, node)
                if reason is None:
                    return True
        return False

    kinds = [kind for kind in KINDS if has_place(kind)]
    while len(faults) < count:
        kind = kinds[len(faults) % len(kinds)]
        network = names[rng.integers(len(names))]
        subject = subjects[network]
        node = subject.operators[rng.integers(len(subject.operators))]
        key = kind, network, node.name
        if key not in known:
            known[key] = without_effect(kind, subject, node)
        reason = known[key]
        if reason is not None:
            redrawn[reason] = redrawn.get(reason, 0) + 1
            continue
        framework = FRAMEWORKS[rng.integers(len(FRAMEWORKS))]
        others = [other for other in OTHERS if other != framework]
        faults.append(Fault(kind, network, node.name, framework, others[rng.integers(len(others))]))
    return faults, redrawn
