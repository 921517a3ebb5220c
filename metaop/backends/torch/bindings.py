"""The table of PyTorch bindings; one file per family fills it. Releases from 1.7 on are known to work."""

import functools

import torch

from metaop.backends.bind import Bindings
from metaop.errors import UnsupportedOpError

bind = Bindings("torch")

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
if VERSION < (1, 7):
    raise ImportError("metaop binds PyTorch from release 1.7 on; this is " + torch.__version__)


def refuse_if_no_kernel(error):
    """Raise a refusal where PyTorch says that it has no kernel for a dtype (uint16, mostly) or for empty axes."""
    message = str(error).partition("\n")[0]
    if any(words in message for words in ("not implemented for", "not supported", "to have non-zero size")):
        raise UnsupportedOpError("torch {}: {}".format(torch.__version__, message)) from error


def where_kernels_exist(function):
    """The function, with PyTorch's word that it has no kernel made a refusal."""

    @functools.wraps(function)
    def call(*tensors, **attrs):
        try:
            return function(*tensors, **attrs)
        except (IndexError, RuntimeError) as error:
            refuse_if_no_kernel(error)
            raise

    return call
