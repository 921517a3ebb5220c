"""PyTorch modules and exported programs. PyTorch is loaded when one is first read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from metaop.errors import MissingFrameworkError
from metaop.models.model import Model

__all__ = ["from_torch"]


def from_torch(
    module: Any | str | os.PathLike[str],
    example_inputs: Any = None,
    *,
    dynamic_batch: bool | Mapping[str, int] = False,
) -> Model:
    """A PyTorch module as a graph of meta operators, through ``torch.export``.

    ``example_inputs`` is a tensor, a sequence of them or a mapping from the names of ``forward``'s arguments. The
    module is taken in the mode it is in: in ``train()`` batch normalization uses the statistics of the batch (running
    ones are not updated) and dropout draws metaop's masks. ``dynamic_batch=True`` leaves the first size of every
    input open, all of them being one number; a mapping ``{"input": axis}`` says which.

    ``module`` may also be a ``torch.export.ExportedProgram``, or the path of one in a ``.pt2`` file; these know their
    inputs and which sizes are open.

    Parameters become variables and buffers constants, named as in ``state_dict``; nodes are named after the modules
    that compute them. Operators that metaop has no mapping for are taken apart by PyTorch's decompositions. What metaop
    cannot express exactly is refused with one :class:`~metaop.errors.ModelError` that lists every such operator.

        model = mo.from_torch(net.eval(), torch.zeros(1, 3, 224, 224))
        model.run({"x": array}, backend="onnxruntime")
    """
    try:
        import torch  # noqa: F401  only to say early and clearly that it is missing
    except ImportError:
        raise MissingFrameworkError("reading PyTorch modules needs PyTorch: pip install 'metaop[torch]'") from None
    from metaop.models.torch.convert import convert
    from metaop.models.torch.export import exported

    return convert(*exported(module, example_inputs, dynamic_batch))
