"""Files read without their weights are the same models."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

import metaop as mo
from metaop.models.onnx import skim as module
from metaop.models.onnx.skim import skim
from tests.models.hostile import BASES, BYTES


@pytest.fixture(autouse=True)
def _small_tensors_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST", 4)


def put_back(content: bytes) -> ModelProto | None:
    """What protobuf makes of the skimmed file, with the data where it belongs."""
    found = skim(content)
    if found is None:
        return None
    text, spans = found
    proto = ModelProto.FromString(text)
    for tensor, span in zip(proto.graph.initializer, spans, strict=True):
        if span is not None:
            assert not tensor.raw_data
            tensor.raw_data = content[slice(*span)]
    return proto


@pytest.mark.parametrize("base", range(len(BASES)))
def test_nothing_else_is_lost(base: int) -> None:
    content = BASES[base]().SerializeToString()
    found = put_back(content)
    assert found == ModelProto.FromString(content)
    assert found.SerializeToString(deterministic=True) == ModelProto.FromString(content).SerializeToString(
        deterministic=True
    )


def test_damaged_files_are_what_protobuf_says() -> None:
    content = BASES[0]().SerializeToString()
    skimmed = 0
    for seed in range(600):
        rng = np.random.default_rng(seed)
        damaged = bytearray(content)
        BYTES[seed % len(BYTES)](rng, damaged)
        try:
            wanted = ModelProto.FromString(bytes(damaged))
        except Exception:
            wanted = None
        try:
            found = put_back(bytes(damaged))
        except Exception:
            found = None
        skimmed += found is not None
        if found is not None and wanted is not None:
            assert found == wanted, seed
        elif found is not None:
            pytest.fail(f"seed {seed}: read although protobuf cannot")
    assert skimmed > 50


def test_unusual_files_are_left_to_protobuf() -> None:
    content = BASES[0]().SerializeToString()
    assert skim(content + content) is None  # two graphs, which protobuf merges
    assert skim(content[:-3]) is None
    assert skim(b"") is None
    assert skim(b"\x3b\x3c") is None  # a group


def test_weights_are_private() -> None:
    content = bytearray(BASES[0]().SerializeToString())
    found = mo.from_onnx(content)
    before = [p.value.copy() for p in found.parameters]
    content[:] = bytes(len(content))
    for parameter, value in zip(found.parameters, before, strict=True):
        np.testing.assert_array_equal(parameter.value, value)
        assert parameter._value.flags.writeable
        assert parameter._value.flags.c_contiguous
