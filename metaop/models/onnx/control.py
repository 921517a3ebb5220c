"""Control flow: a branch that is known to be taken, or known not to be, while the model is read."""

from __future__ import annotations

from typing import Any

from metaop.graph.nodes import Placeholder
from metaop.graph.order import execution_order
from metaop.models.onnx.table import Call, Refused, onnx_op


@onnx_op("If")
def if_(call: Call) -> Any:
    cond = call.input(0)
    branches = {True: call.graph("then_branch"), False: call.graph("else_branch")}
    value = call.converter.value(cond)
    if value is None:
        deciding = sorted(n.name for n in execution_order([cond]) if isinstance(n, Placeholder))
        raise Refused(
            "which branch is taken depends on data; where that of the inputs "
            f"{', '.join(map(repr, deciding)) or 'of the model'} never changes, give it or its shape: "
            "from_onnx(..., constants={name: value}, shapes={name: shape})"
        )
    if value.size != 1 or value.dtype != bool:
        raise Refused(f"its condition must be one truth value; got {cond.type}")
    found = call.converter.inline(branches[bool(value.reshape(()))], call.name)
    if len(found) != call.outputs:
        raise Refused(f"{call.outputs} outputs are named, but the branch has {len(found)}")
    return found
