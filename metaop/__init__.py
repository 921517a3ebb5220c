"""metaop: find out which operator of which deep-learning framework is wrong, and prove it.

>>> import metaop as mo
>>> x = mo.Placeholder(name="x")
>>> w = mo.Variable([[2.0]], name="w")
>>> with mo.Session(backend="numpy") as sess:
...     sess.run(x @ w, feed_dict={x: [[1.0], [3.0]]})
array([[2.],
       [6.]], dtype=float32)

Importing this package needs NumPy only and loads no framework; a framework is loaded when a backend is first used.
"""

from __future__ import annotations

import sys as _sys
import types as _types
from collections.abc import Mapping as _Mapping
from typing import TYPE_CHECKING

from metaop import errors, graph
from metaop._version import __version__
from metaop.backends import Backend, BackendInfo, derive
from metaop.debug import DebugReport, DebugSession, Record, Verification
from metaop.errors import (
    BackendError,
    FeedError,
    FrameworkError,
    GradientError,
    GraphError,
    InternalError,
    MetaopError,
    ModelError,
    UserError,
)
from metaop.graph import Constant, Node, Operator, Placeholder, Session, Variable, apply
from metaop.graph import functional as _functional
from metaop.graph.functional import *  # noqa: F403  one function per meta operator, listed in functional.__all__
from metaop.models import Model, from_keras, from_onnx, from_saved_model, from_torch, load, save, to_onnx
from metaop.ops import MetaOp

__all__ = [
    "Backend",
    "BackendError",
    "BackendInfo",
    "Constant",
    "DebugReport",
    "DebugSession",
    "FeedError",
    "FrameworkError",
    "GradientError",
    "GraphError",
    "InternalError",
    "MetaOp",
    "MetaopError",
    "Model",
    "ModelError",
    "Node",
    "Operator",
    "Placeholder",
    "Record",
    "Session",
    "UserError",
    "Variable",
    "Verification",
    "__version__",
    "apply",
    "backends",
    "derive",
    "errors",
    "from_keras",
    "from_onnx",
    "from_saved_model",
    "from_torch",
    "graph",
    "load",
    "ops",
    "save",
    "to_onnx",
]
__all__ += _functional.__all__


if TYPE_CHECKING:

    def backends() -> dict[str, BackendInfo]:
        """Every known backend by name."""
        raise NotImplementedError

    def ops() -> _Mapping[str, MetaOp]:
        """Every meta operator by name."""
        raise NotImplementedError

else:
    # Both names are packages; called, they are what the functions above say.
    from metaop import backends, ops

    class _Backends(_types.ModuleType):
        def __call__(self):
            return self.catalog.backends()

    class _Ops(_types.ModuleType):
        def __call__(self):
            return _types.MappingProxyType(self.REGISTRY)

    _sys.modules["metaop.backends"].__class__ = _Backends
    _sys.modules["metaop.ops"].__class__ = _Ops
