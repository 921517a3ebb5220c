"""Every operator on the oldest releases that are bound, values and gradients, as on the newest.

All samples are judged in the operator's main dtype, with ``METAOP_TEST_THOROUGH=1`` in the other dtypes too. What a
release computes differently, or fails on, is in the table below with its reason; a row that no longer occurs fails.
The environments are made on first use, from the package index, and kept in METAOP_HOME.
"""

import numpy as np
import pytest

from metaop import backends
from metaop.backends.isolation import environments
from metaop.errors import UnsupportedOpError
from metaop.ops import REGISTRY
from tests.backends.test_forward import DTYPES
from tests.checks import THOROUGH, cases, forward_complaints, gradient_complaints, main_dtype

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
NAN = "NaN is lost, or does not get through"
INF = "infinities cancel: it adds with a compensation for rounding"
LOWEST = "NaN is lost, and nothing is below the lowest finite number"
TAILS = "accurate absolutely, not relatively, in the tails"
PRODUCT = "a product, and 0 times Inf is NaN"
SINGLE = "its parameters and constants are of float32"
NEUTRAL = "what nothing is reduced to is 0"
UNWRITTEN = "gives memory that was not written"
DIES = "ends the process"

POOLS = "max_pool1d max_pool2d max_pool3d average_pool1d average_pool2d average_pool3d"

#: releases that compile each new combination of types and attributes: in all dtypes that would take an hour
COMPILED = ("jax==0.4.30",)

#: spec -> (kind, operators) -> why results differ. The kind is the check; or ``special`` for values such as NaN,
#: infinities and the largest numbers; or ``empty``; or a dtype that is not the operator's main one.
KNOWN = {
    "jax==0.4.30": {
        ("forward", "gather_nd scatter_nd"): "what it makes of a single index does not compile",
        ("gradient", "gather_nd scatter_nd"): "what it makes of a single index does not compile",
        ("forward", "reduce_l1 reduce_l2"): "its vector_norm over two axes is the norm of matrices",
        ("gradient", "reduce_l1 reduce_l2"): "its vector_norm over two axes is the norm of matrices",
        ("special", "gelu sinh cosh"): TAILS,
        ("special", "softmax"): NAN,
    },
    "mxnet==1.6.0": {
        ("gradient", "selu"): SELU,
        ("forward", "conv_transpose1d conv_transpose2d"): "wrong with dilations and groups together",
        ("gradient", "pow"): POWER,
        ("forward", "clip"): CROSSED,
        ("gradient", "reduce_prod"): ZERO,
        ("special", "gelu"): TAILS,
        ("special", "dropout softmax_cross_entropy"): PRODUCT,
        ("special", "mod"): "the remainder of a division by 0 is 0",
        ("special", "sign"): NAN,
        ("special", "reduce_sum reduce_mean reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum"): INF,
        ("special", "max_pool1d max_pool2d max_pool3d global_max_pool"): LOWEST,
        ("empty", "reduce_mean reduce_prod"): NEUTRAL,
        ("float64", "gelu leaky_relu elu hard_sigmoid erf layer_norm group_norm softplus"): SINGLE,
        ("float64", "prelu rnn"): SINGLE,
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
        ("special", "gelu mish"): TAILS,
        ("special", "dropout"): PRODUCT,
        ("special", "mod"): "the remainder of a division by 0 is 0",
        ("special", "relu sign softmax"): NAN,
        ("special", "reduce_sum reduce_mean reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum"): INF,
        ("special", "max_pool1d max_pool2d max_pool3d global_max_pool"): LOWEST,
        ("empty", "reduce_mean reduce_prod"): NEUTRAL,
        ("empty", "prelu"): UNWRITTEN,
        ("float64", "gelu leaky_relu elu hard_sigmoid erf layer_norm group_norm"): SINGLE,
        ("float64", "prelu rnn"): SINGLE,
        ("float64", "conv_transpose1d conv_transpose2d"): "wrong with dilations and groups together",
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
        ("special", "sigmoid silu swiglu"): TAILS,
        ("special", "prelu"): PRODUCT,
        ("special", "hardmax maximum minimum argmax argmin erf"): NAN,
        ("special", "global_max_pool"): LOWEST,
        ("special", "sqrt rsqrt"): "NaN of Inf",
        ("special", "floor"): "its result goes through int32",
        ("empty", "matmul linear"): UNWRITTEN,
        ("empty", "one_hot topk"): DIES,
        ("empty", "reduce_sum"): NO_AXES,
        ("float16", "maximum minimum"): DIES,
        ("float16", "sign"): NAN,
        ("float64", "leaky_relu cosine_similarity batch_norm layer_norm"): SINGLE,
        ("float64", "log_softmax"): "its double kernel knows no Inf",
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
        ("special", "sigmoid silu softplus mish swiglu"): TAILS,
        ("special", "hardmax maximum minimum sign reduce_max reduce_min argmax argmin celu"): NAN,
        ("special", "softmax_cross_entropy"): PRODUCT,
        ("special", "max_pool1d max_pool2d max_pool3d global_max_pool"): LOWEST,
        ("empty", "depthwise_conv2d"): UNWRITTEN,
        ("empty", "max_pool_with_indices"): DIES,
        ("float16", "sinh cosh"): NAN,
        ("float64", "leaky_relu selu"): SINGLE,
        ("float64", "dft stft"): "rounded more than newer releases do",
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
        ("special", "binary_cross_entropy"): "its logarithm stops at -100",
        ("special", "sign thresholded_relu shrink"): NAN,
        ("empty", "matmul"): UNWRITTEN,
        ("float64", "conv3d"): UNWRITTEN,
        ("float64", "celu"): SINGLE,
        ("float64", "gelu"): TAILS,
    },
}


#: rows that need not occur: what such memory holds may be right by accident
UNSTEADY = (UNWRITTEN,)


def excused(case, complaint):
    """A kernel that is missing, or fails on an empty tensor, says so itself; one that ends the process needs a row."""
    elsewhere = case.empty or case.dtype != main_dtype(case.op)
    return complaint.kind == "raised" and elsewhere and "WorkerDied" not in complaint.text


def rows_for(check, case):
    """Which rows may explain a complaint, the most special one first."""
    name = case.op.name
    kinds = [case.dtype] if case.dtype != main_dtype(case.op) else []
    kinds += ["special"] if case.special else ["empty"] if case.empty else []
    return [(kind, name) for kind in (*kinds, check)]


def judged(spec, op):
    """Every sample of an operator with the judges to show it to: in its main dtype, or in all of them."""
    dtypes = dict.fromkeys([main_dtype(op), *(DTYPES if THOROUGH and spec not in COMPILED else ())])
    for case in cases(op, dtypes):
        yield "forward", forward_complaints, case
        if op.differentiable and not case.special and np.dtype(case.dtype).kind == "f":
            yield "gradient", gradient_complaints, case


@pytest.mark.parametrize("spec", KNOWN)
def test_every_operator(spec):
    environments.create(spec)
    backend = backends.get(spec)
    known = {(kind, op): reason for (kind, ops), reason in KNOWN[spec].items() for op in ops.split()}
    new, occurred, computed = [], set(), set()
    for name, op in REGISTRY.items():
        if backend.support(name)[0] == "unsupported":
            assert backend.support(name)[1], f"{spec} gives no reason for {name}"
            continue
        for check, judge, case in judged(spec, op):
            try:
                complaints = judge(backend, case)
                if any("WorkerDied" in c.text for c in complaints) and not set(rows_for(check, case)) & set(known):
                    # Memory that an earlier kernel spoiled may kill the process later: asked of a new worker.
                    complaints = judge(backend, case)
            except UnsupportedOpError:
                continue
            if not complaints:
                computed.add(name)
            for complaint in complaints:
                row = next((row for row in rows_for(check, case) if row in known), None)
                if row is not None:
                    occurred.add(row)
                elif not excused(case, complaint):
                    new.append(f"{check} of {case}: {complaint.text}")
    assert len(computed) > 100, "almost nothing was computed"
    expected = {row for row, reason in known.items() if reason not in UNSTEADY}
    if not THOROUGH or spec in COMPILED:
        expected = {row for row in expected if row[0] not in DTYPES}
    gone = [f"{kind} of {name} is right now: remove the row" for kind, name in sorted(expected - occurred)]
    assert not new + gone, "\n".join([f"{spec}:", *new, *gone])
