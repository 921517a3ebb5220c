"""A model: a graph with named inputs and outputs, however it was made."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from metaop.backends import Backend
from metaop.errors import FeedError, UsageError
from metaop.graph.nodes import Node, Placeholder, Variable
from metaop.graph.order import execution_order
from metaop.graph.session import Session

__all__ = ["Model", "as_model", "named_outputs"]


class Model:
    """Named inputs, named outputs and all that lies between them.

    ``outputs`` maps names to nodes, for an output may have another name than the node that computes it.

    >>> import metaop as mo
    >>> x = mo.Placeholder(shape=(None, 2), dtype="float32", name="x")
    >>> w = mo.Variable([[1.0], [2.0]], name="w")
    >>> model = mo.Model([x], {"y": mo.matmul(x, w, name="product")})
    >>> model.run({"x": np.ones((1, 2), "float32")})
    {'y': array([[3.]], dtype=float32)}
    >>> model.node("product").shape
    (None, 1)
    """

    def __init__(self, inputs: Sequence[Placeholder], outputs: Mapping[str, Node], name: str = "model") -> None:
        if not outputs:
            raise UsageError("a model needs at least one output")
        self.name = name
        self._inputs = {node.name: node for node in inputs}
        if len(self._inputs) < len(inputs):
            raise UsageError(f"the inputs of a model need names of their own; got {[n.name for n in inputs]}")
        self._outputs = dict(outputs)
        self._nodes: dict[str, Node] = {}
        order = execution_order(list(self._outputs.values()))
        for node in (*order, *inputs):
            self._nodes.setdefault(node.name, node)
        #: outputs of operators that have several
        self._results = {r.name: r for n in order for r in getattr(n, "results", ())}
        self._parameters = [node for node in order if isinstance(node, Variable)]

    @property
    def inputs(self) -> list[Placeholder]:
        """The placeholders, in the model's order.

        >>> import metaop as mo
        >>> x = mo.Placeholder(name="x")
        >>> mo.Model([x], {"y": x + 1.0}).inputs == [x]
        True
        """
        return list(self._inputs.values())

    @property
    def outputs(self) -> list[Node]:
        """The nodes that the model computes, in the model's order."""
        return list(self._outputs.values())

    @property
    def output_names(self) -> list[str]:
        """The names under which ``run`` gives the outputs."""
        return list(self._outputs)

    @property
    def parameters(self) -> list[Variable]:
        """The variables that the outputs depend on."""
        return list(self._parameters)

    @property
    def nodes(self) -> list[Node]:
        """Every node, in an order of execution."""
        return list(self._nodes.values())

    def node(self, name: str) -> Node:
        """The node of that name, or the one behind the output of that name.

        >>> import metaop as mo
        >>> x = mo.Placeholder(name="x")
        >>> mo.Model([x], {"y": mo.relu(x, name="act")}).node("act").op.name
        'relu'
        """
        for names in (self._nodes, self._results, self._outputs):
            if name in names:
                return names[name]
        raise UsageError(f"the model has no node named {name!r}{_near(name, [*self._nodes, *self._outputs])}")

    def run(
        self,
        feeds: Mapping[str, Any],
        backend: str | Backend = "numpy",
        outputs: Iterable[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """The outputs by name; ``feeds`` maps the names of the inputs to data.

        ``outputs`` chooses some, by the names of outputs or of nodes.

        >>> import metaop as mo
        >>> x = mo.Placeholder(dtype="float32", name="x")
        >>> mo.Model([x], {"y": x + 1.0}).run({"x": np.float32([1.0])}, outputs=["y"])
        {'y': array([2.], dtype=float32)}
        """
        names = list(self._outputs) if outputs is None else list(outputs)
        nodes = [self._outputs[name] if name in self._outputs else self.node(name) for name in names]
        with Session(backend) as session:
            values = session.run(nodes, self.feed_dict(feeds, nodes))
        return dict(zip(names, values, strict=True))

    def feed_dict(self, feeds: Mapping[str, Any], targets: Iterable[Node] | None = None) -> dict[Placeholder, Any]:
        """Data by the names of the inputs as sessions take them: by node, and only what ``targets`` depend on.

        >>> import metaop as mo
        >>> x = mo.Placeholder(name="x")
        >>> model = mo.Model([x], {"y": mo.exp(x, name="e")})
        >>> mo.Session().run(model.node("e"), model.feed_dict({"x": [0.0]}))
        array([1.])
        """
        fed = {}
        for name, value in feeds.items():
            if name not in self._inputs:
                raise FeedError(f"the model has no input named {name!r}{_near(name, self._inputs)}")
            fed[self._inputs[name]] = value
        # Inputs that nothing of this run depends on may be fed all the same.
        needed = set(execution_order(self.outputs if targets is None else list(targets)))
        return {node: value for node, value in fed.items() if node in needed}

    def __repr__(self) -> str:
        inputs = ", ".join(f"{n.name}: {n.type}" for n in self._inputs.values())
        outputs = ", ".join(f"{name}: {n.type}" for name, n in self._outputs.items())
        return f"<Model {self.name!r} ({inputs}) -> ({outputs}), {len(self._parameters)} parameters>"


def as_model(given: Model | Node | Sequence[Node] | Mapping[str, Node]) -> Model:
    """The model that some outputs make up: one node, several, or names and nodes; a model is returned as it is.

    >>> import metaop as mo
    >>> x = mo.Placeholder(name="x")
    >>> as_model(mo.relu(x, name="y")).output_names
    ['y']
    """
    if isinstance(given, Model):
        return given
    named = named_outputs(given)
    inputs = [n for n in execution_order(list(named.values())) if isinstance(n, Placeholder)]
    return Model(inputs, named)


def named_outputs(given: Model | Node | Sequence[Node] | Mapping[str, Node]) -> dict[str, Node]:
    """Outputs by name, however they are given: of one node or several, each by its own."""
    if isinstance(given, Model):
        return dict(zip(given.output_names, given.outputs, strict=True))
    named: dict[str, Node] = {}
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        several: Any = given if isinstance(given, list | tuple) else [given]
        for node in several:
            if getattr(node, "name", None) in named:
                raise UsageError(f"two outputs are named {node.name!r}; give a map from names to nodes")
            named[getattr(node, "name", "")] = node
    for name, node in named.items():
        if not isinstance(node, Node) or not isinstance(name, str) or not name:
            raise UsageError(f"outputs are nodes, a map from names to nodes, or a model; got {name!r}: {node!r}")
    if not named:
        raise UsageError("a model needs at least one output")
    return named


def _near(name: str, known: Iterable[str]) -> str:
    names = list(known)
    found = difflib.get_close_matches(str(name), names, n=3)
    if found:
        return "; did you mean " + " or ".join(map(repr, found)) + "?"
    return f"; there are {', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}" if names else ""
