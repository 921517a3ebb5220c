"""Frames keep every bit, and whatever is not a frame is refused."""

import socket
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from metaop.backends.isolation.protocol import SHARED, Channel, ChannelClosed, ProtocolError, decode_attrs, encode_attrs

DTYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]


@pytest.fixture
def ends():
    a, b = socket.socketpair()
    yield Channel(a), Channel(b)
    a.close()
    b.close()


def exchange(ends, header, tensors):
    sender = threading.Thread(target=ends[0].send, args=(header, tensors))
    sender.start()
    received = ends[1].receive()
    sender.join()
    return received


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3), (SHARED + 1,)])
def test_every_dtype_and_size_keeps_its_bits(ends, dtype, shape):
    array = np.random.default_rng(0).integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
    array = (
        np.ascontiguousarray(array).view(dtype).reshape(shape) if dtype != "bool" else (array[..., 0] % 2).astype(bool)
    )
    header, (found,) = exchange(ends, {"do": "x", "n": [1, None]}, [array])
    assert header == {"do": "x", "n": [1, None]}
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable or found.size == 0


def test_many_tensors_of_mixed_sizes(ends):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(n).astype("float32") for n in (1, 40_000, 0, 7, 90_000, 3)] * 20
    _, found = exchange(ends, {}, arrays)
    assert len(found) == len(arrays)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, found, strict=True))


def test_views_arrive_as_what_they_show(ends):
    array = np.arange(60_000, dtype="float64").reshape(200, 300)[::-2, ::3].T
    _, (found,) = exchange(ends, {}, [array])
    assert np.array_equal(found, array)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.one_of(
            st.integers(-(2**63), 2**63),
            st.floats(allow_nan=False),
            st.booleans(),
            st.none(),
            st.text(max_size=8),
            st.tuples(st.integers(), st.integers()),
            hnp.floating_dtypes(endianness="="),
        ),
        max_size=4,
    )
)
def test_attributes_come_back_as_they_were(attrs):
    import json

    back = decode_attrs(json.loads(json.dumps(encode_attrs(attrs))))
    assert back == attrs
    assert {k: type(v) for k, v in back.items()} == {k: type(v) for k, v in attrs.items()}


@pytest.mark.parametrize(
    "junk", [b"this is not a frame, and long enough to look like one", struct.pack("<IQB", 5, 0, 0) + b"{oops"]
)
def test_junk_is_refused(ends, junk):
    ends[0].socket.sendall(junk)
    with pytest.raises(ProtocolError):
        ends[1].receive()


def test_a_closed_end_is_noticed(ends):
    ends[0].socket.sendall(struct.pack("<IQB", 100, 0, 0))
    ends[0].close()
    with pytest.raises(ChannelClosed):
        ends[1].receive()
