"""Every operator on the oldest releases that are bound, values and gradients, as on the newest.

What a release computes differently, or fails on, is in the table below with its reason; a row that no longer occurs
fails. The environments are made on first use, from the package index, and kept in METAOP_HOME.
"""

import pytest

from metaop import backends
from metaop.backends.isolation import environments
from metaop.errors import UnsupportedOpError
from metaop.ops import REGISTRY
from tests.checks import cases, forward_complaints, gradient_complaints, main_dtype, ordinary

pytestmark = pytest.mark.slow

CROSSED = "bounds that are crossed: the lower one wins"
ZERO = "NaN where a factor is 0 (mxnet#17864)"
POWER = "NaN where the base is 0 or negative"
SELU = "its gradient of selu is off"
COARSE = "computed with fewer digits"
ELLIPSIS = "its einsum does not broadcast the axes of an ellipsis, or not in the gradient"
SCALAR = "its Transpose, also within the rule, takes no scalars"
NO_AXES = "an empty list of axes means all of them"
NEWER = "ONNX's operator was another before opset 19 or 20, which this release does not know"
CEIL = "with ceil_mode, windows may start in the padding"

POOLS = "max_pool1d max_pool2d max_pool3d average_pool1d average_pool2d average_pool3d"

#: spec -> (check, operators) -> why results differ
KNOWN = {
    "jax==0.4.30": {
        ("forward", "gather_nd scatter_nd"): "what it makes of a single index does not compile",
        ("gradient", "gather_nd scatter_nd"): "what it makes of a single index does not compile",
        ("forward", "reduce_l1 reduce_l2"): "its vector_norm over two axes is the norm of matrices",
        ("gradient", "reduce_l1 reduce_l2"): "its vector_norm over two axes is the norm of matrices",
    },
    "mxnet==1.6.0": {
        ("gradient", "selu"): SELU,
        ("forward", "conv_transpose1d conv_transpose2d"): "wrong with dilations and groups together",
        ("gradient", "pow"): POWER,
        ("forward", "clip"): CROSSED,
        ("gradient", "reduce_prod"): ZERO,
    },
    "mxnet==1.9.1": {
        ("forward", "softplus celu"): COARSE,
        ("forward", "log_softmax softmax_cross_entropy sparse_softmax_cross_entropy"): COARSE,
        ("gradient", "log_softmax softmax_cross_entropy sparse_softmax_cross_entropy"): COARSE,
        ("gradient", "selu"): SELU,
        ("gradient", "matmul"): "gradients of axes that were broadcast are wrong",
        ("gradient", "einsum"): ELLIPSIS,
        ("gradient", "pow"): POWER,
        ("forward", "clip"): CROSSED,
        ("forward", "pad"): "matrices are padded with 0 whatever the value",
        ("gradient", "reduce_prod"): ZERO,
    },
    "onnxruntime==1.15.1": {
        ("forward", "einsum"): "its Einsum fails, or dies, where axes are summed before others change places",
        ("gradient", "einsum"): "its Einsum fails, or dies, where axes are summed before others change places",
        ("forward", "transpose scatter_add"): SCALAR,
        ("gradient", "transpose scatter_add gather"): SCALAR,
        ("forward", POOLS): CEIL,
        ("gradient", POOLS): CEIL,
        ("forward", "reduce_mean reduce_max reduce_min reduce_prod"): NO_AXES,
        ("forward", "reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum reduce_log_sum_exp"): NO_AXES,
        ("gradient", "reduce_max reduce_min reduce_l2 reduce_log_sum_exp"): NO_AXES,
        ("gradient", "reduce_prod"): SCALAR,
        ("forward", "quantize_linear dequantize_linear"): NEWER,
        ("gradient", "dequantize_linear"): NEWER,
        ("forward", "dft"): NEWER,
        ("gradient", "dft stft"): NEWER,
        ("forward", "stft"): "rounded more than newer releases do",
        ("forward", "hann_window hamming_window blackman_window"): "its coefficients are of float32",
        ("forward", "reverse_sequence"): "of a sequence of length 0 it gives memory that was not written",
        ("gradient", "reverse_sequence"): "of a sequence of length 0 it gives memory that was not written",
    },
    "tensorflow==2.0.0": {
        ("forward", "attention rotary_embedding"): "it has no tf.repeat",
        ("gradient", "attention rotary_embedding"): "it has no tf.repeat",
        ("forward", "nll_loss"): "its gather takes fewer batch_dims than indices have axes",
        ("gradient", "nll_loss"): "its gather takes fewer batch_dims than indices have axes",
        ("forward", "conv_integer"): "no kernel of integer convolutions on the CPU",
        ("forward", "resize"): "its weights of cubic resizing come from a table, as on newer releases",
        ("gradient", "resize"): "its weights of cubic resizing come from a table, as on newer releases",
        ("forward", "hann_window"): "a periodic window of odd length comes out symmetric, as on newer releases",
        ("forward", "non_max_suppression"): "a box goes when its overlap reaches the threshold, were it 0",
        ("forward", "einsum"): ELLIPSIS,
        ("gradient", "einsum"): ELLIPSIS,
        ("gradient", "mod"): "TruncateMod has no gradient",
        ("gradient", "cumprod"): "NaN where a factor is 0",
        ("forward", "reduce_l2"): "over no axes, the norm of a negative number is negative",
        ("gradient", "reduce_l2"): "EuclideanNorm is registered as not differentiable, and passes nothing on",
    },
    "torch==1.7.1": {
        ("forward", "einsum"): ELLIPSIS,
        ("gradient", "einsum"): ELLIPSIS,
        ("gradient", "conv_transpose1d conv_transpose2d conv_transpose3d"): "not 0 for what the padding cuts off",
        ("forward", "clip"): CROSSED,
        ("gradient", "binary_cross_entropy"): "no derivative by the target",
        ("gradient", "mod"): "no derivative by the divisor",
        ("forward", "triplet_margin"): "its triplet loss takes matrices only",
        ("gradient", "triplet_margin"): "its triplet loss takes matrices only",
        ("forward", "quantize_linear dequantize_linear"): "it has no uint16",
        ("gradient", "dequantize_linear"): "it has no uint16",
        ("forward", "grid_sample"): "it samples linearly or the nearest only",
        ("gradient", "grid_sample"): "it samples linearly or the nearest only",
        ("forward", "hann_window hamming_window blackman_window"): "no float16 kernels of its windows",
        ("gradient", "layer_norm"): "fails where there is a bias and no scale",
        ("forward", "group_norm"): "its variance cancels",
        ("gradient", "group_norm"): "its variance cancels",
        ("forward", "argmax argmin"): "keepdims is ignored where no axis is given",
    },
}


@pytest.mark.parametrize("spec", KNOWN)
def test_every_operator(spec):
    environments.create(spec)
    backend = backends.get(spec)
    known = {(check, op): reason for (check, ops), reason in KNOWN[spec].items() for op in ops.split()}
    wrong: dict[tuple[str, str], str] = {}
    computed = set()
    for name, op in REGISTRY.items():
        if backend.support(name)[0] == "unsupported":
            assert backend.support(name)[1], f"{spec} gives no reason for {name}"
            continue
        for check, judge in (("forward", forward_complaints), ("gradient", gradient_complaints)):
            if check == "gradient" and not op.differentiable:
                continue
            for case in filter(ordinary, cases(op, [main_dtype(op)], special=False)):
                try:
                    complaints = judge(backend, case)
                except UnsupportedOpError:
                    continue
                if complaints:
                    wrong.setdefault((check, name), f"{case}: {complaints[0].text}")
                else:
                    computed.add(name)
    assert len(computed) > 100, "almost nothing was computed"
    new = [f"{check} of {name}: {text}" for (check, name), text in wrong.items() if (check, name) not in known]
    outdated = known.keys() - wrong.keys()
    gone = [f"{check} of {name} is right now: remove the row" for check, name in sorted(outdated)]
    assert not new + gone, "\n".join([f"{spec}:", *new, *gone])
