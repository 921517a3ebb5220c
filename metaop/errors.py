"""Every exception that metaop raises on purpose.

Three branches answer the first question of whoever sees one: whose fault is it?

    MetaopError
    ├── UserError                    your input; the message says what to change
    │   ├── GraphError               a node cannot be built or ordered
    │   │   ├── ShapeError           shapes do not fit the operator
    │   │   ├── DtypeError           dtypes do not fit the operator
    │   │   ├── AttributeValueError  an attribute is missing, unknown or out of range
    │   │   └── CycleError           data and control edges form a loop
    │   ├── ModelError               a model file cannot be read, or holds what cannot be expressed
    │   ├── FeedError                a placeholder is unfed, or fed with something that does not fit
    │   ├── DomainError              a value lies outside an operator's domain (only when asked for)
    │   ├── GradientError            no gradient exists as asked
    │   ├── BackendError             the backend asked for cannot serve
    │   │   ├── UnknownBackendError  no backend has that name
    │   │   ├── MissingFrameworkError  the framework is not installed
    │   │   ├── DeviceError          the device does not exist
    │   │   └── UnsupportedOpError   the backend does not compute that operator
    │   └── UsageError               anything else: a wrong argument to a metaop function
    ├── FrameworkError               a framework failed, or returned what its operator must not return
    └── InternalError                our bug: please report it

This module is also loaded inside isolated environments: it must stay importable on Python 3.6.
"""

from typing import Any, Dict, Optional, Sequence

__all__ = [
    "AttributeValueError",
    "BackendError",
    "CycleError",
    "DeviceError",
    "DomainError",
    "DtypeError",
    "FeedError",
    "FrameworkError",
    "GradientError",
    "GraphError",
    "InternalError",
    "MetaopError",
    "MissingFrameworkError",
    "ModelError",
    "ShapeError",
    "UnknownBackendError",
    "UnsupportedOpError",
    "UsageError",
    "UserError",
]


class MetaopError(Exception):
    """The root: ``except metaop.MetaopError`` catches all that metaop raises on purpose."""


class UserError(MetaopError, ValueError):
    """The input is at fault; the message says what came, what is accepted and what to do."""


class GraphError(UserError):
    """A node cannot be built, or the graph cannot be put in order."""


class ShapeError(GraphError):
    """Shapes do not fit the operator."""


class DtypeError(GraphError, TypeError):
    """Dtypes do not fit the operator."""


class AttributeValueError(GraphError):
    """An attribute is missing, unknown, of the wrong type or out of range."""


class CycleError(GraphError):
    """Data and control edges form a loop, so that no order of execution exists."""


class ModelError(UserError):
    """A model cannot be read, or holds what metaop cannot express; ``unsupported`` lists every such node.

    Each entry is a dict with the keys ``name``, ``op``, ``domain``, ``opset`` and ``why``.
    """

    def __init__(self, message: str, unsupported: Sequence[Dict[str, Any]] = ()) -> None:
        super().__init__(message)
        self.unsupported = list(unsupported)


class FeedError(UserError):
    """A placeholder is unfed, or what was fed does not fit."""


class DomainError(UserError):
    """A value lies outside an operator's domain; raised only by sessions that check domains."""


class GradientError(UserError):
    """The gradient asked for does not exist."""


class BackendError(UserError):
    """The backend asked for cannot serve."""


class UnknownBackendError(BackendError):
    """No backend has that name."""


class MissingFrameworkError(BackendError, ImportError):
    """The framework behind a backend is not installed here."""


class DeviceError(BackendError):
    """The framework has no such device here."""


class UnsupportedOpError(BackendError, NotImplementedError):
    """The backend does not compute that operator; the message gives the reason."""


class UsageError(UserError):
    """A metaop function was called with arguments that make no sense."""


class FrameworkError(MetaopError, RuntimeError):
    """A framework raised, or returned a value of the wrong shape or dtype.

    ``node``, ``op`` and ``backend`` name the place; the framework's own exception is ``__cause__``.
    """

    def __init__(
        self, message: str, *, node: Optional[str] = None, op: Optional[str] = None, backend: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self.node = node
        self.op = op
        self.backend = backend

    #: the status of a debug record that ends with this exception
    status = "error"

    def locate(self, place: str, node: str, op: str, backend: Optional[str]) -> "FrameworkError":
        """This exception, with the place put before its message."""
        self.args = ("{}: {}".format(place, self),)
        self.node, self.op, self.backend = node, op, backend
        return self


class InternalError(MetaopError, AssertionError):
    """metaop broke a promise that it made to itself: please report it."""
