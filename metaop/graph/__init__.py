"""The static graph: nodes, inference, segments, execution and gradients."""

from metaop.graph.build import apply
from metaop.graph.nodes import Constant, Node, Operator, Placeholder, Variable
from metaop.graph.session import Session

__all__ = ["Constant", "Node", "Operator", "Placeholder", "Session", "Variable", "apply"]
