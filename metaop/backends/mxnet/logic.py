"""MXNet's comparisons, logic and selection."""

import mxnet as mx

from metaop.backends.mxnet.bindings import VERSION, bind, legacy, refuse_empty

bind.rename(
    {
        "equal": mx.np.equal,
        "not_equal": mx.np.not_equal,
        "greater": mx.np.greater,
        "greater_equal": mx.np.greater_equal,
        "less": mx.np.less,
        "less_equal": mx.np.less_equal,
        "logical_not": mx.np.logical_not,
    }
)


def on_numbers(function):
    """MXNet's logic takes numbers and gives numbers; boolean tensors it refuses."""
    function = legacy(function)

    def call(x, y):
        return function(x.astype("uint8"), y.astype("uint8")).astype("bool")

    return call


bind.rename(
    {
        "logical_and": on_numbers(mx.nd.broadcast_logical_and),
        "logical_or": on_numbers(mx.nd.broadcast_logical_or),
        "logical_xor": on_numbers(mx.nd.broadcast_logical_xor),
    }
)

isnan, isinf = legacy(mx.nd.contrib.isnan), legacy(mx.nd.contrib.isinf)


@bind
def is_nan(x):
    return isnan(x).astype("bool")


@bind
def is_inf(x, *, detect_negative, detect_positive):
    if detect_negative and detect_positive:
        return isinf(x).astype("bool")
    if detect_negative or detect_positive:
        return x == float("-inf" if detect_negative else "inf")
    return mx.np.zeros(x.shape, dtype="bool", ctx=x.ctx)


if VERSION >= (1, 7):

    @bind
    def where(condition, x, y):
        if not condition.shape == x.shape == y.shape:
            refuse_empty("np.where with broadcasting", condition, x, y)
        return mx.np.where(condition, x, y)
else:
    choose = legacy(mx.nd.where)

    @bind
    def where(condition, x, y):
        # In this release it does not broadcast and knows no booleans.
        condition, x, y = mx.np.broadcast_arrays(condition.astype("uint8"), x, y)
        if x.dtype == bool:
            return choose(condition, x.astype("uint8"), y.astype("uint8")).astype("bool")
        return choose(condition, x, y)
