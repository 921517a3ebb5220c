"""Products of matrices."""

from __future__ import annotations

from typing import Any

from metaop.models.tensorflow.table import Call, Refused, tf_op


def _turned(call: Call, index: int, turn: bool, part: str) -> Any:
    """A factor, with its last two axes exchanged where asked for."""
    node = call.input(index)
    if not turn:
        return node
    rank = call.rank(index)
    return call.part(part, "transpose", node, perm=(*range(rank - 2), rank - 1, rank - 2))


@tf_op("MatMul")
def matmul(call: Call) -> Any:
    call.only("grad_a", False)
    call.only("grad_b", False)
    return call.make(
        "matmul",
        _turned(call, 0, call.attr("transpose_a"), "a"),
        _turned(call, 1, call.attr("transpose_b"), "b"),
    )


@tf_op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(call: Call) -> Any:
    if call.op_type != "BatchMatMul":
        call.only("grad_x", False)
        call.only("grad_y", False)
    x, y = _turned(call, 0, call.attr("adj_x"), "x"), _turned(call, 1, call.attr("adj_y"), "y")
    if x.dtype != y.dtype:
        raise Refused(f"factors of different dtypes are not supported: {x.type} and {y.type}")
    return call.make("matmul", x, y)


@tf_op("Einsum")
def einsum(call: Call) -> Any:
    return call.make("einsum", *call.all(), equation=call.attr("equation").replace(" ", ""))
