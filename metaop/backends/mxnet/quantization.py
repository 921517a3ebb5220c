"""Quantisation, of which MXNet has another kind."""

from metaop.backends.mxnet.bindings import bind

bind.unsupported(
    "quantize_linear",
    "dequantize_linear",
    "dynamic_quantize_linear",
    reason="mx.nd.contrib.quantize and dequantize take ranges, have no zero point, and round half away from 0",
)
bind.unsupported(
    "matmul_integer",
    "conv_integer",
    "qlinear_matmul",
    "qlinear_conv",
    reason="its quantised layers take and give ranges, and have no zero points",
)
