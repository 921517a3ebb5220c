"""In which order nodes run: breadth-first from the targets backwards, reversed; control edges count like data edges."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from metaop.errors import CycleError
from metaop.graph.nodes import Node, Operator

__all__ = ["dependencies", "execution_order", "find", "predecessors"]


def predecessors(node: Node) -> list[Node]:
    """The producers that must have run before ``node``, each once, in argument order, control edges last."""
    found = {n.producer: None for n in node.inputs if n is not None}
    found.update(dict.fromkeys(node.controls))
    return list(found)


def dependencies(node: Node) -> list[Node]:
    """All that must be known of the graph before ``node``: its predecessors, and what open attributes come from."""
    found = predecessors(node)
    if isinstance(node, Operator) and node.open:
        found += [n.producer for n in node.open.values() if n.producer not in found]
    return list(dict.fromkeys(found))


def execution_order(targets: Iterable[Node]) -> list[Node]:
    """Every node that the targets depend on, each after all that it depends on.

    The order is the reverse of a breadth-first walk from the targets in which a node waits until all of its consumers
    have been visited; equal graphs give equal orders.
    """
    roots = list(dict.fromkeys(t.producer for t in targets))
    consumers = dict.fromkeys(roots, 0)
    stack = list(roots)
    while stack:
        for needed in dependencies(stack.pop()):
            if needed not in consumers:
                consumers[needed] = 0
                stack.append(needed)
            consumers[needed] += 1
    queue = deque(r for r in roots if consumers[r] == 0)
    walked: list[Node] = []
    while queue:
        node = queue.popleft()
        walked.append(node)
        for needed in dependencies(node):
            consumers[needed] -= 1
            if consumers[needed] == 0:
                queue.append(needed)
    if len(walked) < len(consumers):
        loop = _loop([n for n, count in consumers.items() if count > 0])
        raise CycleError(
            "the graph has a cycle, so no order of execution exists: "
            + " -> ".join(repr(n.name) for n in loop)
            + ". Data edges alone cannot form one: remove a control edge (run_after) among these nodes"
        )
    return walked[::-1]


def _loop(stuck: Sequence[Node]) -> list[Node]:
    """One cycle among nodes that are known to be on, or upstream of, a cycle."""
    among, path, places = set(stuck), [stuck[0]], {stuck[0]: 0}
    while True:
        # A node is stuck because a consumer is: walk towards consumers until one repeats.
        here = path[-1]
        following = next(n for n in stuck if here in dependencies(n) and n in among)
        if following in places:
            return [*path[places[following] :], following]
        places[following] = len(path)
        path.append(following)


def find(targets: Iterable[Node], name: str) -> Node | None:
    """The node of that name among all that the targets depend on; outputs of several-output operators included."""
    for node in execution_order(targets):
        for candidate in (node, *getattr(node, "results", ())):
            if candidate.name == name:
                return candidate
    return None
