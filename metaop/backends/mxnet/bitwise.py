"""MXNet's operations on bits."""

import mxnet as mx

from metaop.backends.mxnet.bindings import bind

for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"):
    if hasattr(mx.np, _name):
        bind.rename({_name: getattr(mx.np, _name)})
    else:
        bind.unsupported(_name, reason="MXNet has it from 1.7 on, this is " + mx.__version__)

bind.unsupported("bit_shift", "bit_cast", reason="MXNet has no operator for it")
