"""MXNet's attention works on projections that are interleaved in one tensor, which is another operator."""

from metaop.backends.mxnet.bindings import bind

bind.unsupported(
    "attention",
    reason="it has attention only as products of projections interleaved in one tensor, without masks "
    "(contrib.interleaved_matmul_selfatt_qk)",
)
bind.unsupported("rotary_embedding", reason="it has no such operator")
