"""Products of matrices."""

from __future__ import annotations

from typing import Any

from metaop.models.onnx.table import Call, Refused, direct, onnx_op

direct("MatMul", "matmul")


@onnx_op("Gemm")
def gemm(call: Call) -> Any:
    a, b, c = call.input(0), call.input(1), call.optional(2)
    alpha, beta = call.attr("alpha", 1.0), call.attr("beta", 1.0)
    if call.rank(a) != 2 or call.rank(b) != 2:
        raise Refused("both factors must be matrices")
    if (alpha, beta) != (1.0, 1.0) and (a.dtype is None or a.dtype.kind != "f"):
        raise Refused("alpha and beta of integers are not supported")
    if call.flag("transA"):
        a = call.part("a", "transpose", a, perm=(1, 0))
    if call.flag("transB"):
        b = call.part("b", "transpose", b, perm=(1, 0))
    if c is None and alpha == 1.0:
        return call.make("matmul", a, b)
    product = call.part("matmul", "matmul", a, b)
    if alpha != 1.0:
        factor = call.number(alpha, product, "alpha")
        if c is None:
            return call.make("multiply", product, factor)
        product = call.part("scaled", "multiply", product, factor)
    if beta != 1.0:
        c = call.part("c", "multiply", c, call.number(beta, product, "beta"))
    result = call.make("add", product, c)
    if call.rank(result) != 2:
        raise Refused(f"the third input must broadcast to a matrix; got {result.type}")
    return result


@onnx_op("Einsum")
def einsum(call: Call) -> Any:
    return call.make("einsum", *call.all(), equation=call.attr("equation", "").replace(" ", ""))
