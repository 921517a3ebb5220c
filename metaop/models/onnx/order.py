"""In which order the nodes of an ONNX graph are converted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from metaop.errors import ModelError

__all__ = ["MOST_NESTED", "needed_by", "ordered", "subgraphs", "what"]

#: how deep graphs may be nested in attributes of nodes
MOST_NESTED = 50


def what(proto: Any) -> str:
    """A node, in words."""
    return f"node {proto.name!r} ({proto.op_type})" if proto.name else f"an unnamed node ({proto.op_type})"


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs among the attributes of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def needed_by(node: Any, depth: int = 0) -> set[str]:
    """The names that a node takes from around it, those that graphs inside it take included."""
    if depth > MOST_NESTED:
        raise ModelError(f"the model nests graphs more than {MOST_NESTED} deep")
    found = set(filter(None, node.input))
    for graph in subgraphs(node):
        own = {t.name for t in graph.initializer} | {i.name for i in graph.input}
        used = {o.name for o in graph.output}
        for inner in graph.node:
            own.update(inner.output)
            used |= needed_by(inner, depth + 1)
        found |= used - own
    return found


def ordered(nodes: Sequence[Any], known: Collection[str]) -> list[Any]:
    """The nodes so that each comes after all that it needs; ``known`` are names from elsewhere."""
    made: dict[str, int] = {}
    for index, proto in enumerate(nodes):
        for output in filter(None, proto.output):
            if output in made or output in known:
                raise ModelError(f"two things of the model are named {output!r}; the second is {what(proto)}")
            made[output] = index
    sources: list[set[int]] = []
    users: dict[int, list[int]] = {}
    for index, proto in enumerate(nodes):
        for name in proto.input:
            if name and name not in known and name not in made:
                raise ModelError(f"{what(proto)} needs {name!r}, which nothing computes")
        # A graph inside a node may be one that is never run: what it lacks is told if it is.
        sources.append({made[name] for name in needed_by(proto) if name not in known and name in made})
        for source in sources[-1]:
            users.setdefault(source, []).append(index)
    # Files are in order nearly always; then theirs is kept.
    if all(source < index for index, found in enumerate(sources) for source in found):
        return list(nodes)
    waiting = [len(found) for found in sources]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    for index in ready:  # grows while it is walked
        for user in users.get(index, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    if len(ready) < len(waiting):
        stuck = next(i for i, count in enumerate(waiting) if count)
        raise ModelError(f"the nodes of the model form a cycle; {what(nodes[stuck])} is on it or behind it")
    return [nodes[i] for i in ready]
