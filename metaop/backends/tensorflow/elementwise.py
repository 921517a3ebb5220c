"""TensorFlow's arithmetic."""

import tensorflow as tf

from metaop.backends.tensorflow.bindings import bind, where_kernels_exist

bind.rename(
    {
        "maximum": tf.math.maximum,
        "minimum": tf.math.minimum,
        "negative": tf.math.negative,
        "inv": tf.math.reciprocal,
        "square": tf.math.square,
        "sqrt": tf.math.sqrt,
        "rsqrt": tf.math.rsqrt,
        "abs": tf.math.abs,
        "sign": tf.math.sign,
        "exp": tf.math.exp,
        "log": tf.math.log,
        "sin": tf.math.sin,
        "cos": tf.math.cos,
        "erf": tf.math.erf,
        "floor": tf.math.floor,
        "ceil": tf.math.ceil,
        "round": tf.math.round,
        "identity": tf.identity,
        "cast": (tf.cast, {"to": "dtype"}),
    }
)


@bind
def add(x, y):
    return tf.raw_ops.AddV2(x=x, y=y)


@bind
def subtract(x, y):
    return tf.raw_ops.Sub(x=x, y=y)


@bind
def multiply(x, y):
    return tf.raw_ops.Mul(x=x, y=y)


@bind
def div(x, y):
    return tf.raw_ops.RealDiv(x=x, y=y)


@bind
@where_kernels_exist
def trunc_div(x, y):
    return tf.raw_ops.TruncateDiv(x=x, y=y)


@bind
@where_kernels_exist
def pow(x, y):
    return tf.raw_ops.Pow(x=x, y=y)


@bind
def clip(x, *, min, max):
    if min is None and max is None:
        return tf.identity(x)
    number = float if x.dtype.is_floating else int
    if max is None:
        return tf.math.maximum(x, tf.constant(number(min), x.dtype))
    if min is None:
        return tf.math.minimum(x, tf.constant(number(max), x.dtype))
    # In TensorFlow the lower bound wins where the bounds are crossed; here it is the upper one.
    low = max if min > max else min
    return tf.clip_by_value(x, clip_value_min=number(low), clip_value_max=number(max))
