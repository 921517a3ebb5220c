"""PyTorch's elementwise arithmetic."""

import torch

from metaop.backends.torch.bindings import VERSION, bind, refuse_if_no_kernel, where_kernels_exist

bind.rename(
    {
        "add": torch.add,
        "subtract": torch.sub,
        "multiply": torch.mul,
        "div": torch.div,
        "maximum": torch.maximum,
        "minimum": torch.minimum,
        "negative": torch.neg,
        "inv": torch.reciprocal,
        "square": torch.square,
        "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt,
        "abs": torch.abs,
        "sign": torch.sign,
        "exp": torch.exp,
        "log": torch.log,
        "sin": torch.sin,
        "cos": torch.cos,
        "erf": torch.erf,
        "floor": torch.floor,
        "ceil": torch.ceil,
        "round": torch.round,
    }
)


@bind
def pow(x, y):
    # Not where_kernels_exist: another frame would be a tenth of the time that a small power takes.
    try:
        return torch.pow(x, y)
    except RuntimeError as error:
        refuse_if_no_kernel(error)
        raise


if VERSION >= (1, 8):

    @bind
    @where_kernels_exist
    def trunc_div(x, y):
        return torch.div(x, y, rounding_mode="trunc")

else:
    bind.unsupported("trunc_div", reason="PyTorch has it from 1.8 on, this is " + torch.__version__)


@bind
def clip(x, *, min, max):
    if min is None and max is None:
        return x
    if x.dtype.is_floating_point:
        return torch.clamp(x, min, max)
    # A float bound would make the result floating.
    return torch.clamp(x, None if min is None else int(min), None if max is None else int(max))


@bind
def identity(x):
    return x


@bind
def cast(x, *, to):
    return x.to(TORCH_DTYPES[to.name])


KNOWN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"),
    # Since PyTorch 2.3.
    *("uint16", "uint32", "uint64"),
)
TORCH_DTYPES = {name: getattr(torch, name) for name in KNOWN if hasattr(torch, name)}
