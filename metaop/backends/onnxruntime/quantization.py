"""Quantisation: ONNX's own operators."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node
from metaop.backends.onnxruntime.windows import explicit

bind.rename(
    {
        "quantize_linear": node("QuantizeLinear", axis="axis", block_size="block_size", output_dtype="output_dtype"),
        "dequantize_linear": node("DequantizeLinear", axis="axis", block_size="block_size"),
    }
)


def _refuse_vector(o, name, x, wanted):
    """What the session is built for all the same, to fail when it is run."""
    if x is not None and x.shape not in ((), (1,)):
        o.no_kernel("it takes one {} for all {}".format(name, wanted))


@bind
def matmul_integer(o, a, b, a_zero_point=None, b_zero_point=None):
    _refuse_vector(o, "a_zero_point", a_zero_point, "rows")
    return o.MatMulInteger(a, b, a_zero_point, b_zero_point)


@bind
def dynamic_quantize_linear(o, x):
    return o.DynamicQuantizeLinear(x, outputs=3)


@bind
def qlinear_matmul(o, a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    _refuse_vector(o, "a_scale", a_scale, "rows")
    return o.QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)


def _window(w, strides, pads, dilations, group):
    return {
        "auto_pad": "NOTSET",
        "kernel_shape": w.shape[2:],
        "group": group,
        **explicit(len(w.shape) - 2, strides, pads, dilations),
    }


@bind
def conv_integer(o, x, w, x_zero_point=None, w_zero_point=None, *, strides, pads, dilations, group):
    _refuse_vector(o, "w_zero_point", w_zero_point, "channels")
    return o.ConvInteger(x, w, x_zero_point, w_zero_point, **_window(w, strides, pads, dilations, group))


@bind
def qlinear_conv(
    o,
    x,
    x_scale,
    x_zero_point,
    w,
    w_scale,
    w_zero_point,
    y_scale,
    y_zero_point,
    b=None,
    *,
    strides,
    pads,
    dilations,
    group,
):
    tensors = (x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, b)
    return o.QLinearConv(*tensors, **_window(w, strides, pads, dilations, group))
