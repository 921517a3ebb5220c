"""Contractions, and the lookup that is one with a one-hot matrix."""

from metaop.backends.onnxruntime.bindings import bind
from metaop.backends.onnxruntime.graph import node

bind.rename({"matmul": node("MatMul")})


@bind
def linear(o, x, w, b=None):
    if x.rank == 2:
        return o.Gemm(x, w, b, alpha=1.0, beta=1.0, transA=0, transB=1)
    y = o.MatMul(x, o.Transpose(w, perm=(1, 0)))
    return y if b is None else o.Add(y, b)


@bind
def einsum(o, *inputs, equation):
    if any(0 in x.shape for x in inputs):
        o.no_kernel("its Einsum divides by zero on some empty tensors, which kills the process")
    terms = equation.replace(" ", "").split("->")[0].split(",")
    # ONNX wants every ellipsis to stand for the same number of axes; what is missing in front broadcasts as 1.
    hidden = [x.rank - len(term.replace("...", "")) for x, term in zip(inputs, terms)]
    aligned = []
    for x, term, rank in zip(inputs, terms, hidden):
        missing = max(hidden) - rank
        if missing and "..." in term:
            first = term.index("...")
            x = o.Unsqueeze(x, tuple(range(first, first + missing)))
        aligned.append(x)
    return o.Einsum(*aligned, equation=equation)


@bind
def embedding(o, indices, weight):
    return o.Gather(weight, indices, axis=0)
