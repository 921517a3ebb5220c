"""A model file of any kind, told by its name; and inputs for models whose user has none at hand."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from metaop.debug.cradle.feeds import read_feeds
from metaop.errors import FeedError, ModelError
from metaop.graph.nodes import Placeholder
from metaop.models.model import Model

__all__ = ["KINDS", "MOST_DRAWN", "open_model", "random_feeds", "read_feeds"]

#: how many elements of one input are drawn at most
MOST_DRAWN = 1 << 26

KINDS = ".onnx, .metaop, .pt2, .keras or a SavedModel folder"


def open_model(path: str | os.PathLike[str]) -> Model:
    """The model in a file or folder: ``.onnx``, ``.metaop``, ``.pt2``, ``.keras`` or a SavedModel.

    >>> open_model("no/such.onnx")
    Traceback (most recent call last):
    ...
    metaop.errors.ModelError: the model 'no/such.onnx' does not exist
    """
    found = Path(path)
    if not found.exists():
        raise ModelError(f"the model {str(path)!r} does not exist")
    if found.is_dir():
        if not (found / "saved_model.pb").is_file():
            raise ModelError(f"the folder {str(path)!r} is no SavedModel: it has no saved_model.pb in it")
        from metaop.models.tensorflow import from_saved_model

        return from_saved_model(found)
    suffix = found.suffix.lower()
    if suffix == ".onnx":
        from metaop.models.onnx import from_onnx

        return from_onnx(found)
    if suffix == ".metaop":
        from metaop.models.store import load

        return load(found)
    if suffix == ".keras":
        from metaop.models.tensorflow import from_keras

        return from_keras(found)
    if suffix == ".pt2":
        from metaop.models.torch import from_torch

        return from_torch(found)
    raise ModelError(f"{str(path)!r} is no kind of model that metaop reads: {KINDS}")


def random_feeds(
    inputs: Sequence[Placeholder], seed: int = 0, shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, np.ndarray]:
    """Data for each input from its declared type: floats are normal, integers 0 or 1, so that they may be indices.

    Sizes that are not declared are 1, unless ``shapes`` says otherwise.

    >>> import metaop as mo
    >>> random_feeds([mo.Placeholder((None, 2), "float32", name="x")])["x"].shape
    (1, 2)
    """
    given = dict(shapes or {})
    feeds = {}
    for number, node in enumerate(inputs):
        wanted = given.pop(node.name, None)
        if wanted is None and node.shape is None:
            raise FeedError(f"input {node.name!r} declares no shape; give one, for example {node.name}=1,3,224,224")
        shape = tuple(wanted) if wanted is not None else tuple(1 if s is None else s for s in node.shape or ())
        if not node.type.admits(node.type.with_shape(shape)):
            raise FeedError(f"input {node.name!r} is declared {node.type}; the shape {shape} does not fit")
        # Sizes that a file merely claims must not take the machine's memory; who means them has the data.
        if math.prod(shape) > MOST_DRAWN:
            raise FeedError(
                f"input {node.name!r} is {node.type.with_shape(shape)}, too large to be drawn: feed your own data"
            )
        rng = np.random.default_rng([seed, number])
        dtype = np.dtype("float32") if node.dtype is None else node.dtype
        drawn = rng.integers(0, 2, shape) if dtype.kind in "biu" else rng.standard_normal(shape)
        feeds[node.name] = np.asarray(drawn).astype(dtype)
    if given:
        known = ", ".join(repr(n.name) for n in inputs) or "none"
        raise FeedError(f"the model has no input named {next(iter(given))!r}; its inputs: {known}")
    return feeds
