"""Further activations."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename(
    {
        "celu": node("Celu", alpha="alpha"),
        "mish": node("Mish"),
        "thresholded_relu": node("ThresholdedRelu", alpha="alpha"),
        "shrink": node("Shrink", bias="bias", lambd="lambd"),
    }
)


@bind
def swiglu(o, gate, x, *, alpha):
    # ONNX has SwiGLU from opset 28 on, as a function with this same body.
    return o.Mul(o.Mul(gate, o.Sigmoid(o.Mul(gate, alpha))), x)
