"""Sessions: run a graph, take gradients, rebind nodes. Each is independent; none keeps anything outside itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from metaop.backends import Backend, get
from metaop.errors import FeedError, GradientError, UsageError
from metaop.graph.memory import SMALL, separate
from metaop.graph.nodes import Epoch, Node, Operator, Placeholder, Variable
from metaop.graph.order import find
from metaop.graph.plan import NativeCache, Plan
from metaop.graph.program import Program, Value, coerce, value_of
from metaop.graph.segments import partition
from metaop.graph.trace import Step, Trace, active_values, connected, segment_steps, single_steps
from metaop.types import TensorType, is_floating

__all__ = ["Session"]

Feeds = Mapping[Any, Any]
_KEPT_PLANS = 128


class Session:
    """Runs graphs on backends.

    ``backend`` serves every node that neither ``bindings`` (node to backend) nor ``node.backend`` binds; ``bindings``
    win over ``node.backend``. ``seed`` determines random data such as dropout masks: one session always draws the
    same mask for the same node. ``check_domains=True`` refuses values outside an operator's domain (NaN, log of a
    negative number), at the price of running node by node.

    >>> import metaop as mo
    >>> x = mo.Placeholder(name="x")
    >>> w = mo.Variable([2.0], name="w")
    >>> with mo.Session(backend="numpy") as sess:
    ...     sess.run(x * w, feed_dict={x: [1.0, 3.0]})
    array([2., 6.], dtype=float32)
    """

    def __init__(
        self,
        backend: str | Backend = "numpy",
        bindings: Mapping[Node, str | Backend | None] | None = None,
        *,
        seed: int = 0,
        check_domains: bool = False,
    ) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise UsageError(f"seed is an integer >= 0; got {seed!r}")
        self._default = get(backend)
        self._bindings: dict[Node, Backend] = {}
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._gradient_plans: OrderedDict[Any, _GradientPlan] = OrderedDict()
        self._natives = NativeCache()
        self._lock = threading.RLock()
        self.seed = seed
        self.check_domains = check_domains
        for node, spec in (bindings or {}).items():
            self.rebind(node, spec)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop compiled plans and converted parameters; the session can still be used and makes them anew."""
        with self._lock:
            self._plans.clear()
            self._gradient_plans.clear()
            self._natives = NativeCache()

    # -- bindings -----------------------------------------------------------------------------------------------------

    @property
    def backend(self) -> str:
        """The backend of every node that nothing else binds."""
        return self._default.spec

    @property
    def bindings(self) -> dict[Node, str]:
        """What this session binds by itself: node to backend."""
        return {node: backend.spec for node, backend in self._bindings.items()}

    def rebind(self, node: Node, backend: str | Backend | None) -> None:
        """Bind a node to a backend in this session; ``None`` takes the binding back.

        >>> import metaop as mo
        >>> y = mo.Variable(1.0) + 1.0
        >>> sess = mo.Session()
        >>> sess.rebind(y, "numpy")
        """
        if not isinstance(node, Node) or not isinstance(node.producer, Operator):
            what = f"node {node.name!r} is a {type(node).__name__}" if isinstance(node, Node) else f"got {node!r}"
            raise UsageError(f"only operators are bound to a backend; {what}")
        with self._lock:
            if backend is None:
                self._bindings.pop(node.producer, None)
            else:
                self._bindings[node.producer] = get(backend)
            self._plans.clear()
            self._gradient_plans.clear()

    def backend_of(self, node: Operator) -> Backend:
        """The backend that this session runs the node on."""
        found = self._bindings.get(node)
        if found is not None:
            return found
        return self._default if node.backend is None else get(node.backend)

    # -- running ------------------------------------------------------------------------------------------------------

    @overload
    def run(self, fetches: Node, feed_dict: Feeds | None = None) -> np.ndarray: ...
    @overload
    def run(self, fetches: Sequence[Node], feed_dict: Feeds | None = None) -> list[np.ndarray]: ...
    def run(self, fetches: Node | Sequence[Node], feed_dict: Feeds | None = None) -> Any:
        """The value of a node, or the list of values of a list of nodes, as NumPy arrays that nothing else refers to.

        ``feed_dict`` maps placeholders, or their names, to data.
        """
        if self.check_domains:
            return self._run_checked(fetches, feed_dict)
        plan, arrays, single = self._ready(fetches, feed_dict)
        results = plan.run(arrays)
        return results[0] if single else results

    def _ready(self, fetches: Node | Sequence[Node], feed_dict: Feeds | None) -> tuple[Plan, list[np.ndarray], bool]:
        """What to run, on which arrays, and whether one value is asked for rather than a list."""
        single = isinstance(fetches, Node)
        targets: tuple[Node, ...] = (fetches,) if single else _targets(fetches)  # type: ignore[assignment]
        nodes, arrays, key = signature(targets, feed_dict)
        plan = self._plans.get(key)
        if plan is None or plan.epoch != Epoch.now:
            plan = self._plan(key, targets, nodes, arrays, plan)
        return plan, plan.arranged(nodes, arrays), single

    def _plan(
        self,
        key: Any,
        targets: Sequence[Node],
        nodes: Sequence[Placeholder],
        arrays: Sequence[np.ndarray],
        stale: Plan | None,
    ) -> Plan:
        with self._lock:
            now = Epoch.now
            if stale is not None and self._holds(stale.program, stale.bindings):
                stale.refresh()
                stale.epoch = now
                return stale
            program = Program(targets, fed_types(nodes, arrays), self.seed, deciding(nodes, arrays))
            plan = Plan(program, self.backend_of, self._natives, [value_of(t) for t in targets])
            plan.epoch = now
            _remember(self._plans, key, plan)
            return plan

    def _holds(self, program: Program, bindings: Mapping[Operator, Backend]) -> bool:
        """Whether order and bindings are still what a plan was made for: only variables, or other graphs, changed."""
        return program.is_current() and all(self.backend_of(n) is b for n, b in bindings.items())

    def _run_checked(self, fetches: Node | Sequence[Node], feed_dict: Feeds | None) -> Any:
        single = isinstance(fetches, Node)
        targets: tuple[Node, ...] = (fetches,) if single else _targets(fetches)  # type: ignore[assignment]
        nodes, arrays, _ = signature(targets, feed_dict)
        program = Program(targets, fed_types(nodes, arrays), self.seed, deciding(nodes, arrays))
        trace = Trace(program, self._natives)
        trace.feed(dict(zip(nodes, arrays, strict=True)))
        trace.run(single_steps(program, self.backend_of), check_types=True, check_domains=True)
        results = [trace.array(value_of(t)).copy() for t in targets]
        return results[0] if single else results

    # -- gradients ----------------------------------------------------------------------------------------------------

    def gradients(
        self,
        target: Node,
        wrt: Node | Sequence[Node],
        feed_dict: Feeds | None = None,
        *,
        grad_output: Any = None,
        unconnected: Literal["zeros", "error"] = "zeros",
    ) -> Any:
        """Gradients of ``target`` with respect to each node of ``wrt`` (any node), aligned with it; a node gives one
        array.

        A target that is not a scalar needs ``grad_output``, the incoming gradient of its shape. Where ``target`` does
        not depend on a node at all the gradient is zeros, or an error with ``unconnected="error"``; where it depends
        on it only through operators without a gradient, that is always an error.

        >>> import metaop as mo
        >>> w = mo.Variable([3.0])
        >>> mo.Session().gradients(mo.reduce_sum(w * w), [w])
        [array([6.], dtype=float32)]
        """
        single = isinstance(wrt, Node)
        sources: tuple[Node, ...] = (wrt,) if single else _targets(wrt)  # type: ignore[assignment]
        (target,) = _targets([target])
        if unconnected not in ("zeros", "error"):
            raise UsageError(f"unconnected is 'zeros' or 'error'; got {unconnected!r}")
        nodes, arrays, key = signature((target, *sources), feed_dict)
        key = (key, self.check_domains)
        with self._lock:
            plan = self._gradient_plans.get(key)
            now = Epoch.now
            if plan is None or (plan.epoch != now and not self._holds(plan.program, plan.bindings)):
                program = Program((target, *sources), fed_types(nodes, arrays), self.seed, deciding(nodes, arrays))
                plan = _GradientPlan(program, target, sources, self.backend_of, by_node=self.check_domains)
                _remember(self._gradient_plans, key, plan)
            plan.epoch = now
        seed = _incoming(target, plan.program.types[value_of(target)], grad_output)
        found = plan.run(dict(zip(nodes, arrays, strict=True)), seed, self._natives, self.check_domains)
        results = []
        for node in sources:
            value = value_of(node)
            gradient = found.get(value)
            if gradient is None:
                if unconnected == "error" and not connected(plan.program, value, target):
                    raise GradientError(f"{target.name!r} does not depend on {node.name!r}")
                declared = plan.program.types[value]
                gradient = np.zeros(declared.shape, declared.dtype)  # type: ignore[arg-type]
            results.append(gradient)
        results = separate(results, (*arrays, seed, *plan.held()))
        return results[0] if single else results


class _GradientPlan:
    """What a gradient needs, made once per target, sources, feeds' signature and bindings."""

    def __init__(
        self,
        program: Program,
        target: Node,
        sources: Sequence[Node],
        backend_of: Callable[[Operator], Backend],
        by_node: bool,
    ) -> None:
        self.program = program
        self.bindings = {node: backend_of(node) for node in program.operators}
        self.epoch = 0
        self.target = value_of(target)
        self.wrt = {value_of(n) for n in sources}
        check_differentiable(program, target, sources)
        self.active = active_values(program, self.wrt)
        self.steps: list[Step]
        if by_node:
            self.steps = single_steps(program, self.bindings.__getitem__)
        else:
            self.steps = segment_steps(partition(program, self.bindings.__getitem__, cut_after=self.wrt))

    def run(
        self,
        feeds: Mapping[Placeholder, np.ndarray],
        seed: np.ndarray,
        natives: NativeCache,
        check_domains: bool,
    ) -> dict[Value, np.ndarray]:
        trace = Trace(self.program, natives)
        trace.feed(feeds)
        trace.run(self.steps, self.active, check_domains=check_domains)
        return trace.backward({self.target: seed}, self.wrt)

    def held(self) -> list[np.ndarray]:
        """What nodes hold; only what is large can have a large array within its memory."""
        variables = [n._value for n in self.program.order if isinstance(n, Variable)]
        return [a for a in (*variables, *self.program.stored.values()) if a.nbytes > SMALL]


def check_differentiable(program: Program, target: Node, sources: Sequence[Node]) -> None:
    """Refuse gradients that do not exist: of or by integers, or through operators without a gradient only."""
    for node in (target, *sources):
        dtype = program.types[value_of(node)].dtype
        if not is_floating(dtype):
            raise GradientError(
                f"node {node.name!r} is {program.types[value_of(node)]}: only floating values have gradients"
            )
    for node in sources:
        value = value_of(node)
        if value_of(target) in active_values(program, [value]) or not connected(program, value, target):
            continue
        blocking = [
            n
            for n in program.operators
            if not n.op.differentiable and connected(program, value, n) and _leads(program, n, target)
        ]
        names = ", ".join(f"{n.name!r} ({n.op.name}: {n.op.nondifferentiable})" for n in blocking)
        raise GradientError(
            f"{target.name!r} depends on {node.name!r} only through operators without a gradient: "
            f"{names or 'integer values'}"
        )


def _leads(program: Program, node: Operator, target: Node) -> bool:
    return any(connected(program, (node, i), target) for i in range(len(node.types)))


def _incoming(target: Node, declared: TensorType, given: Any) -> np.ndarray:
    if given is None:
        if declared.shape != ():
            raise GradientError(
                f"target {target.name!r} is {declared}, not a scalar: give grad_output, its incoming gradient, "
                "or reduce it"
            )
        return np.ones((), declared.dtype)
    try:
        array = np.asarray(given, dtype=None if hasattr(given, "dtype") else declared.dtype)
    except (ValueError, TypeError) as error:
        raise GradientError(f"grad_output of {target.name!r} cannot be made an array ({error})") from None
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not declared.admits(TensorType(array.dtype, array.shape)):
        raise GradientError(
            f"grad_output is {TensorType(array.dtype, array.shape)}; the target {target.name!r} is {declared}"
        )
    return array


def _targets(nodes: Any) -> tuple[Node, ...]:
    if not isinstance(nodes, list | tuple):
        raise UsageError(f"expected a node or a list of nodes; got {nodes!r}")
    for node in nodes:
        if not isinstance(node, Node):
            raise UsageError(f"expected a node; got {node!r}")
    return tuple(nodes)


def signature(targets: tuple[Node, ...], feed_dict: Feeds | None) -> tuple[list[Placeholder], list[np.ndarray], Any]:
    """The fed placeholders, their arrays, and the key under which a plan for them is kept."""
    nodes: list[Placeholder] = []
    arrays: list[np.ndarray] = []
    key: list[Any] = [targets]
    by_name = False
    for node, value in (feed_dict or {}).items():
        if type(node) is not Placeholder or type(value) is not np.ndarray or not _fits(node.type, value):
            if isinstance(node, str):
                named = find(targets, node)
                if named is None:
                    raise FeedError(f"feed_dict: no node named {node!r} is part of what is run")
                node, by_name = named, True
            value = coerce(node, value)
        nodes.append(node)
        arrays.append(value)
        key += (node, value.shape, value.dtype)
        if node.decides:
            key.append(value.tobytes())
    if by_name and len(set(nodes)) < len(nodes):
        twice = next(n for n in nodes if nodes.count(n) > 1)
        raise FeedError(f"feed_dict: placeholder {twice.name!r} is fed twice, by name and as a node")
    return nodes, arrays, tuple(key)


def _fits(declared: TensorType, array: np.ndarray) -> bool:
    """The quick way to say yes; no means that :func:`coerce` has to look closely."""
    return declared.dtype == array.dtype and declared.shape == array.shape


def fed_types(nodes: Sequence[Placeholder], arrays: Sequence[np.ndarray]) -> dict[Placeholder, TensorType]:
    return {n: TensorType(a.dtype, a.shape) for n, a in zip(nodes, arrays, strict=True)}


def deciding(nodes: Sequence[Placeholder], arrays: Sequence[np.ndarray]) -> dict[Placeholder, np.ndarray]:
    """What is fed for placeholders that attributes are computed from."""
    return {n: a for n, a in zip(nodes, arrays, strict=True) if n.decides}


def _remember(plans: OrderedDict[Any, Any], key: Any, plan: Any) -> None:
    plans[key] = plan
    while len(plans) > _KEPT_PLANS:
        plans.popitem(last=False)
