"""PyTorch's operations on bits."""

import torch

from metaop.backends.torch.bindings import VERSION, bind, where_kernels_exist
from metaop.backends.torch.elementwise import TORCH_DTYPES
from metaop.errors import UnsupportedOpError

bind.rename(
    {
        "bitwise_and": where_kernels_exist(torch.bitwise_and),
        "bitwise_or": where_kernels_exist(torch.bitwise_or),
        "bitwise_xor": where_kernels_exist(torch.bitwise_xor),
        "bitwise_not": where_kernels_exist(torch.bitwise_not),
    }
)

if VERSION >= (1, 10):

    @bind
    @where_kernels_exist
    def bit_shift(x, y, *, direction):
        return torch.bitwise_left_shift(x, y) if direction == "left" else torch.bitwise_right_shift(x, y)

    @bind
    def bit_cast(x, *, to):
        if to.name not in TORCH_DTYPES:
            raise UnsupportedOpError("torch {} has no tensors of {}".format(torch.__version__, to.name))
        return x.view(TORCH_DTYPES[to.name])

else:
    bind.unsupported("bit_shift", "bit_cast", reason="PyTorch has it from 1.10 on, this is " + torch.__version__)
