from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.process.wire import (
    MAX_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    Frame,
    FrameDecoder,
    WireError,
    encode_frame,
    pack_pcm,
    unpack_pcm,
)

frames = st.lists(st.builds(Frame, st.binary(max_size=200), st.binary(max_size=2000)), max_size=8)


def _feed_in_pieces(stream: bytes, cuts: list[int]) -> tuple[list[Frame], FrameDecoder]:
    decoder = FrameDecoder()
    received: list[Frame] = []
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in zip(edges, edges[1:], strict=False):
        received += decoder.feed(stream[start:end])
    return received, decoder


@given(frames, st.lists(st.integers(0, 1 << 16), max_size=30))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(sent: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(map(encode_frame, sent))
    assert _feed_in_pieces(stream, cuts)[0] == sent


@given(frames.filter(bool), st.integers(0, 1 << 16))
def test_a_truncated_frame_is_not_there_yet(sent: list[Frame], missing: int) -> None:
    last = encode_frame(sent[-1])
    cut = 1 + missing % len(last)
    stream = b"".join(map(encode_frame, sent))
    received, decoder = _feed_in_pieces(stream[:-cut], [])
    assert received == sent[:-1]
    assert decoder.feed(stream[-cut:]) == sent[-1:]


@given(st.binary(max_size=4000), st.lists(st.integers(0, 4000), max_size=10))
def test_garbage_is_a_wire_error_or_nothing(stream: bytes, cuts: list[int]) -> None:
    with contextlib.suppress(WireError):
        _feed_in_pieces(stream, cuts)


@pytest.mark.parametrize("sizes", [(MAX_HEADER_BYTES + 1, 0), (0, MAX_PAYLOAD_BYTES + 1), (2**32 - 1, 2**32 - 1)])
def test_a_frame_over_the_limits_is_refused_before_it_is_kept(sizes: tuple[int, int]) -> None:
    with pytest.raises(WireError, match="over the limits"):
        FrameDecoder().feed(struct.pack("!II", *sizes))


def test_a_frame_over_the_limits_is_not_sent() -> None:
    with pytest.raises(WireError, match="over the limits"):
        encode_frame(Frame(b"{}", bytes(MAX_PAYLOAD_BYTES + 1)))


@given(st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_sound_is_bit_exact(rows: int, seed: int) -> None:
    pcm = np.random.default_rng(seed).integers(-32768, 32768, (rows, 1920)).astype(np.int16)
    np.testing.assert_array_equal(unpack_pcm(pack_pcm(pcm), rows), pcm)
    np.testing.assert_array_equal(unpack_pcm(pack_pcm(list(pcm[::-1])), rows), pcm[::-1])


def test_sound_of_another_byte_order_is_turned() -> None:
    pcm = np.arange(1920, dtype=">i2").reshape(1, 1920)
    np.testing.assert_array_equal(unpack_pcm(pack_pcm(pcm), 1), pcm)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 3839, 3841, 2 * 3840])
def test_sound_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(WireError, match="not 1 frames"):
        unpack_pcm(bytes(size), 1)
