"""From a module, or a file, to an exported program without in-place operators."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import Dim, ExportedProgram

from metaop.errors import ModelError, UsageError
from metaop.models.torch.read import read

__all__ = ["exported"]


def exported(module: Any, example_inputs: Any, dynamic_batch: bool | Mapping[str, int]) -> tuple[ExportedProgram, str]:
    """The program, every operator of which makes a new tensor, and the name of the model."""
    if isinstance(module, str | os.PathLike):
        name, program = os.path.basename(os.fspath(module)), read(module)
    elif isinstance(module, ExportedProgram):
        name, program = "program", module
    elif isinstance(module, torch.nn.Module):
        if example_inputs is None:
            raise UsageError("from_torch(module, example_inputs): torch.export follows the module on example inputs")
        args, kwargs = _arguments(example_inputs)
        name, program = type(module).__name__, _export(module, args, kwargs, dynamic_batch)
        return _functional(program), name
    else:
        raise UsageError(
            f"from_torch takes a torch.nn.Module, an ExportedProgram or the path of a .pt2 file; got {module!r:.80}"
        )
    if example_inputs is not None or dynamic_batch:
        raise UsageError("an exported program has its inputs and open sizes already; give it alone")
    return _functional(program), name


def _functional(program: ExportedProgram) -> ExportedProgram:
    # An empty table: what PyTorch runs as one operator stays one, and only what writes into tensors is rewritten.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.run_decompositions({})


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, Mapping):
        return (), {name: _tensor(value) for name, value in example_inputs.items()}
    if isinstance(example_inputs, torch.Tensor | np.ndarray):
        return (_tensor(example_inputs),), {}
    if isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str):
        return tuple(_tensor(value) for value in example_inputs), {}
    raise UsageError(
        f"example_inputs is a tensor, a sequence of them or a mapping from names; got {type(example_inputs).__name__}"
    )


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def _export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_batch: bool | Mapping[str, int]
) -> ExportedProgram:
    shapes = None
    if dynamic_batch is not False:
        args, kwargs, shapes = _open(module, args, kwargs, dynamic_batch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(module, args, kwargs or None, dynamic_shapes=shapes)
    except Exception as error:  # torch.export raises whatever the module or its own parts raise
        lines = [line for line in str(error).splitlines() if line.strip()]
        why = "\n  ".join(lines[:12])
        hint = ""
        if shapes is not None:
            hint = "\nwithout dynamic_batch the sizes of the example are taken as they are"
        raise ModelError(
            f"torch.export cannot follow {type(module).__name__} ({type(error).__name__}):\n  {why}{hint}"
        ) from error


def _open(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], which: bool | Mapping[str, int]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
    """Example inputs and the sizes of them that are open, for torch.export.

    It takes a size of 1 for a fact about the model, so that an example of one is doubled.
    """
    signature = inspect.signature(module.forward)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise UsageError(f"example_inputs do not fit {type(module).__name__}.forward: {error}") from None
    flat: dict[str, Any] = {}
    for name, value in given.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            flat.update({f"{name}_{i}": item for i, item in enumerate(value)})
        else:
            flat.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    for name, value in flat.items():
        if not isinstance(value, torch.Tensor):
            raise UsageError(f"dynamic_batch needs inputs that are tensors; {name!r} is a {type(value).__name__}")
    axes = dict(which) if isinstance(which, Mapping) else {name: 0 for name, value in flat.items() if value.dim()}
    for name, axis in axes.items():
        if name not in flat or not 0 <= axis < flat[name].dim():
            known = ", ".join(f"{n} of rank {v.dim()}" for n, v in flat.items())
            raise UsageError(f"dynamic_batch: there is no axis {axis} of {name!r}; the inputs are {known}")
    sizes = {flat[name].shape[axis] for name, axis in axes.items()}
    if len(sizes) != 1:
        raise UsageError(f"dynamic_batch: the open sizes are one number, but the example inputs have {sorted(sizes)}")
    if sizes == {1}:
        flat.update({name: torch.cat((flat[name],) * 2, axis) for name, axis in axes.items()})
    batch = Dim("batch")
    opened = {name: {axes[name]: batch} if name in axes else None for name in flat}
    # In the form of the arguments, where names of further ones stand for a tuple or a dict of them.
    shapes: dict[str, Any] = {}
    for name, value in given.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            shapes[name] = tuple(opened[f"{name}_{i}"] for i in range(len(value)))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            shapes.update({key: opened[key] for key in value})
        else:
            shapes[name] = opened[name]
    values = list(flat.values())
    return tuple(values[: len(args)]), dict(zip(list(flat)[len(args) :], values[len(args) :], strict=True)), shapes
