"""Arithmetic, comparison, logic and activations."""

from __future__ import annotations

import math
from typing import Any

from metaop.graph.nodes import Node
from metaop.models.tensorflow.patterns import is_stopped_mean
from metaop.models.tensorflow.table import Call, First, Refused, direct, numpy_dtype, tf_op

direct(
    AddV2="add",
    Sub="subtract",
    Mul="multiply",
    RealDiv="div",
    Maximum="maximum",
    Minimum="minimum",
    Pow="pow",
    Neg="negative",
    Reciprocal="inv",
    Inv="inv",
    Square="square",
    Sqrt="sqrt",
    Rsqrt="rsqrt",
    Abs="abs",
    Sign="sign",
    Exp="exp",
    Log="log",
    Sin="sin",
    Cos="cos",
    Erf="erf",
    Floor="floor",
    Ceil="ceil",
    Rint="round",
)
direct(
    Greater="greater",
    GreaterEqual="greater_equal",
    Less="less",
    LessEqual="less_equal",
    LogicalAnd="logical_and",
    LogicalOr="logical_or",
    LogicalNot="logical_not",
    IsNan="is_nan",
    IsInf="is_inf",
    BitwiseAnd="bitwise_and",
    BitwiseOr="bitwise_or",
    BitwiseXor="bitwise_xor",
    Invert="bitwise_not",
    SelectV2="where",
)
direct(
    Relu="relu",
    Sigmoid="sigmoid",
    Tanh="tanh",
    Softplus="softplus",
    Softsign="softsign",
    Selu="selu",
    Elu="elu",
)
direct(
    Tan="tan",
    Asin="asin",
    Acos="acos",
    Atan="atan",
    Sinh="sinh",
    Cosh="cosh",
    Asinh="asinh",
    Acosh="acosh",
    Atanh="atanh",
    Log1p="log1p",
    Expm1="expm1",
    TruncateDiv="trunc_div",
)


@tf_op("Identity", "Snapshot", "EnsureShape", "CheckNumerics")
def identity(call: Call) -> Any:
    if call.op_type == "CheckNumerics":
        raise Refused("a check that fails while the model runs is not supported")
    if call.op_type == "EnsureShape":
        wanted = call.attr("shape")
        if not call.op.inputs[0].shape.is_fully_defined() and wanted.rank is not None and any(wanted.as_list()):
            raise Refused("a check that fails while the model runs is not supported")
    return call.value(0)


@tf_op("IdentityN")
def identity_n(call: Call) -> Any:
    return tuple(call.value(i) for i in range(call.count))


@tf_op("StopGradient", "PreventGradient")
def stop_gradient(call: Call) -> Any:
    if call.op_type == "PreventGradient":
        call.attr("message")
    # Where nothing can be differentiated there is nothing to stop.
    constant = call.dtype(0).kind != "f" or (not call.is_first(0) and call.known(0) is not None)
    if constant or is_stopped_mean(call.op):
        return call.value(0)
    return call.elementwise("stop_gradient", 0)


@tf_op("Add")
def add(call: Call) -> Any:
    return call.elementwise("add", 0, 1)


@tf_op("AddN")
def add_n(call: Call) -> Any:
    def total(*nodes: Node) -> Node:
        found = nodes[0]
        for index, node in enumerate(nodes[1:], start=2):
            found = call.make("add", found, node) if index == len(nodes) else call.part("sum", "add", found, node)
        return found if len(nodes) > 1 else call.make("identity", found)

    return call.broadcast(range(call.count), total)


@tf_op("Div")
def div(call: Call) -> Any:
    if call.dtype(0).kind == "f":
        return call.elementwise("div", 0, 1)
    return call.elementwise("trunc_div", 0, 1)


@tf_op("DivNoNan", "MulNoNan")
def no_nan(call: Call) -> Any:
    op = "div" if call.op_type == "DivNoNan" else "multiply"

    def guarded(x: Node, y: Node) -> Node:
        zero = call.number(0.0, 1, "zero")
        return call.make("where", call.part("is_zero", "equal", y, zero), zero, call.part("plain", op, x, y))

    return call.broadcast((0, 1), guarded)


def _floored(call: Call, x: Node, y: Node) -> tuple[Node, Node, Node]:
    """The truncated quotient of integers, its rest, and where the quotient lies above the true one."""
    zero = call.number(0, 0, "zero")
    quotient = call.part("quotient", "trunc_div", x, y)
    rest = call.part("rest", "subtract", x, call.part("back", "multiply", quotient, y))
    signs = call.part("signs", "logical_xor", call.part("x", "less", x, zero), call.part("y", "less", y, zero))
    return quotient, rest, call.part("above", "logical_and", call.part("uneven", "not_equal", rest, zero), signs)


@tf_op("FloorDiv")
def floor_div(call: Call) -> Any:
    if call.dtype(0).kind == "f":
        return call.broadcast((0, 1), lambda x, y: call.make("floor", call.part("quotient", "div", x, y)))

    def floored(x: Node, y: Node) -> Node:
        quotient, _, above = _floored(call, x, y)
        return call.make("where", above, call.part("less", "subtract", quotient, call.number(1, 0, "one")), quotient)

    return call.broadcast((0, 1), floored)


@tf_op("FloorMod")
def floor_mod(call: Call) -> Any:
    if call.dtype(0).kind == "f":
        return call.elementwise("mod", 0, 1)

    def rest_of(x: Node, y: Node) -> Node:
        _, rest, above = _floored(call, x, y)
        return call.make("where", above, call.part("more", "add", rest, y), rest)

    return call.broadcast((0, 1), rest_of)


@tf_op("IsFinite")
def is_finite(call: Call) -> Any:
    def finite(x: Node) -> Node:
        wrong = call.part("wrong", "logical_or", call.part("nan", "is_nan", x), call.part("inf", "is_inf", x))
        return call.make("logical_not", wrong)

    return call.broadcast((0,), finite)


@tf_op("Atan2")
def atan2(call: Call) -> Any:
    """The angle of each point, by that of the half plane where the tangent is known; on the axis it is a right one."""

    def angle(y: Node, x: Node) -> Node:
        zero, pi = call.number(0.0, 0, "zero"), call.number(math.pi, 0, "pi")
        plain = call.part("angle", "atan", call.part("tangent", "div", y, x))
        below = call.part("below", "less", y, zero)
        turn = call.part("turn", "where", below, call.part("back", "negative", pi), pi)
        left = call.part("left", "less", x, zero)
        whole = call.part("whole", "where", left, call.part("turned", "add", plain, turn), plain)
        at = call.part("y_0", "equal", y, zero), call.part("x_0", "equal", x, zero)
        return call.make("where", call.part("is_origin", "logical_and", *at), zero, whole)

    return call.broadcast((0, 1), angle)


@tf_op("Bitcast")
def bitcast(call: Call) -> Any:
    to = numpy_dtype(call.op.outputs[0].dtype)
    if to.itemsize != call.dtype(0).itemsize:
        raise Refused("elements of another size are not supported")
    return call.elementwise("bit_cast", 0, to=to)


@tf_op("SquaredDifference")
def squared_difference(call: Call) -> Any:
    return call.broadcast((0, 1), lambda x, y: call.make("square", call.part("difference", "subtract", x, y)))


@tf_op("Equal", "NotEqual")
def equal(call: Call) -> Any:
    call.attr("incompatible_shape_error")
    return call.elementwise("equal" if call.op_type == "Equal" else "not_equal", 0, 1)


@tf_op("Select")
def select(call: Call) -> Any:
    condition, x = call.sizes(0), call.sizes(1)
    if condition is None or x is None or len(condition) not in (0, len(x)):
        raise Refused("a condition that chooses whole rows is not supported")
    return call.elementwise("where", 0, 1, 2)


@tf_op("ClipByValue")
def clip_by_value(call: Call) -> Any:
    def bounded(x: Node, low: Node, high: Node) -> Node:
        return call.make("maximum", call.part("below", "minimum", x, high), low)

    return call.broadcast((0, 1, 2), bounded)


@tf_op("Cast")
def cast(call: Call) -> Any:
    call.only("Truncate", False)
    to = numpy_dtype(call.op.outputs[0].dtype)
    if to == call.dtype(0):
        return call.value(0)
    return call.elementwise("cast", 0, to=to)


@tf_op("Round")
def round_(call: Call) -> Any:
    return call.elementwise("round", 0)


@tf_op("Relu6")
def relu6(call: Call) -> Any:
    return call.elementwise("clip", 0, min=0.0, max=6.0)


@tf_op("LeakyRelu")
def leaky_relu(call: Call) -> Any:
    return call.elementwise("leaky_relu", 0, alpha=call.attr("alpha"))


@tf_op("Softmax", "LogSoftmax")
def softmax(call: Call) -> Any:
    op = "softmax" if call.op_type == "Softmax" else "log_softmax"
    if call.is_first(0):
        return First(call.make(op, call.first(0), axis=1))
    return call.make(op, call.input(0), axis=-1)
