from __future__ import annotations

import ctypes
import io
import itertools
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import sphn
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media import libopus
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.ogg import MAX_FEED_BYTES, OggReader, OggWriter
from rtc_server.media.oggopus import OggOpusReader, OggOpusWriter, OpusHead
from rtc_server.media.opus import OpusDecoder, OpusError
from tests.media.speech import decoded, encoded, long_speech, speech

CAPTURES = Path(__file__).parent.parent / "data" / "ws"
TAGS = b"OpusTags" + struct.pack("<I4sI", 4, b"test", 0)
PACKET_GRANULES = 960


def captured(name: str) -> list[bytes]:
    """The audio messages of a capture, without their kind byte."""
    lines = (CAPTURES / f"{name}.hex").read_text().splitlines()
    return [bytes.fromhex(line[4:]) for line in lines if line.startswith("> 01")]


def tone(hz: float, seconds: float) -> FloatSamples:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(int(SAMPLE_RATE * seconds)) / SAMPLE_RATE)).astype(np.float32)


def pitch_hz(sound: FloatSamples, sample_rate: int = SAMPLE_RATE) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(sound.size)))
    return float(np.argmax(spectrum)) * sample_rate / sound.size


def frames(pcm: FloatSamples) -> list[FloatSamples]:
    return [pcm[at : at + FRAME_SAMPLES] for at in range(0, pcm.size - FRAME_SAMPLES + 1, FRAME_SAMPLES)]


def written(pcm: FloatSamples, serial: int = 1) -> list[bytes]:
    writer = OggOpusWriter(serial=serial)
    return [writer.encode(frame) for frame in frames(pcm)]


def heard(*messages: bytes) -> FloatSamples:
    reader = OggOpusReader()
    return np.concatenate([reader.feed(message) for message in messages])


def streamed(packets: list[bytes], head: bytes | None = None, serial: int = 3, first_page: int = 0) -> list[bytes]:
    """One packet a page, behind the headers."""
    writer = OggWriter(serial)
    headers = [writer.page([head or OpusHead().encode()], 0, bos=True), writer.page([TAGS], 0)]
    return headers + [
        writer.page([packet], PACKET_GRANULES * n) for n, packet in enumerate(packets, start=first_page + 1)
    ]


def relative_error(sound: FloatSamples, original: FloatSamples) -> float:
    return float(np.sum((sound - original) ** 2) / np.sum(original**2))


def test_speech_comes_back_in_its_place() -> None:
    pcm = speech()
    pages = written(pcm)
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(page) for page in pages])
    lookahead = len(pages) * FRAME_SAMPLES - sound.size
    assert 100 < lookahead < 200  # the codec's own delay, 6.5 ms: skipped in front, so missing at the end
    assert relative_error(sound, pcm[: sound.size]) < 0.1
    assert reader.counters.packets == 4 * len(pages)
    assert reader.counters.bad_packets == reader.counters.concealed_samples == reader.counters.dropped_samples == 0


def test_each_frame_is_a_page_of_four_packets_and_the_headers_stand_in_front() -> None:
    messages = written(tone(440, 0.4))
    pages = [OggReader().feed(message) for message in messages]
    assert [len(page) for page in pages] == [3, 1, 1, 1, 1]
    head, tags, first = pages[0]
    assert head.bos and head.granule == 0
    assert OpusHead.decode(head.packets[0]) == OpusHead(channels=1, pre_skip_granules=312, input_rate_hz=24_000)
    assert tags.packets[0].startswith(b"OpusTags") and libopus.version().encode() in tags.packets[0]
    audio = [first, *(page[0] for page in pages[1:])]
    assert [page.granule for page in audio] == [3840, 7680, 11_520, 15_360, 19_200]
    assert [len(page.packets) for page in audio] == [4] * 5
    assert {OpusDecoder().duration_samples(packet) for page in audio for packet in page.packets} == {480}


def test_samples_that_are_no_whole_packets_are_refused() -> None:
    with pytest.raises(OpusError, match="100"):
        OggOpusWriter().encode(np.zeros(580, np.float32))
    with pytest.raises(OpusError, match="bitrate_bps"):
        OggOpusWriter(bitrate_bps=-5)


def test_pages_of_a_recorder_that_are_split_and_merged_sound_as_if_they_were_not() -> None:
    messages = captured("ogg_pages_split_and_merged")
    sound = heard(*messages)
    assert 0.9 * SAMPLE_RATE < sound.size < 1.2 * SAMPLE_RATE
    np.testing.assert_array_equal(sound, heard(b"".join(messages)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4000), max_size=30))
def test_stream_cut_anywhere_sounds_the_same(cuts: list[int]) -> None:
    stream = b"".join(captured("ogg_pages_split_and_merged"))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    sound = heard(*(stream[start:end] for start, end in itertools.pairwise(edges)))
    np.testing.assert_array_equal(sound, heard(stream))


def test_stream_cut_at_every_byte_sounds_the_same() -> None:
    stream = b"".join(captured("ogg_pages_split_and_merged"))
    np.testing.assert_array_equal(heard(*(stream[at : at + 1] for at in range(len(stream)))), heard(stream))


def test_stream_that_starts_mid_way_starts_by_itself() -> None:
    whole = captured("ogg_pages_split_and_merged")
    messages = captured("reconnect_without_headers")
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(message) for message in messages])
    assert reader.counters.streams == 1
    assert abs(pitch_hz(sound[4800:14_400]) - pitch_hz(heard(*whole)[9600:19_200])) < 5
    assert np.sqrt(np.mean(sound**2)) > 0.05


def test_stream_that_starts_inside_a_page_starts_with_the_next() -> None:
    pages = written(tone(440, 0.8))
    sound = heard(b"".join(pages)[len(pages[0]) + 100 :])
    assert sound.size == 8 * FRAME_SAMPLES
    assert abs(pitch_hz(sound[2400:]) - 440) < 5


@pytest.mark.parametrize("lost", [0, 1])
def test_lost_header_makes_no_call_deaf(lost: int) -> None:
    packets = encoded(tone(440, 0.4))
    pages = streamed(packets)
    del pages[lost]
    np.testing.assert_array_equal(heard(*pages), decoded(packets))


@pytest.mark.parametrize("head", [b"OpusHead", OpusHead().encode()[:-1], b"OpusHead\xff" + OpusHead().encode()[9:]])
def test_header_that_cannot_be_read_is_as_good_as_none(head: bytes) -> None:
    packets = encoded(tone(440, 0.2))
    np.testing.assert_array_equal(heard(*streamed(packets, head)), decoded(packets))


def test_comment_header_of_any_length_is_passed_over() -> None:
    packets = encoded(tone(440, 0.2))
    head, _, *audio = streamed(packets)
    tags = TAGS + bytes(100 * 255)
    lacing = OggWriter(3)
    lacing.page([], 0)  # one page of each number that goes before
    long_tags = lacing.page([tags], 0)
    np.testing.assert_array_equal(heard(head, long_tags, *audio), decoded(packets))


@pytest.mark.parametrize("serial", [1, 2])
def test_second_stream_starts_anew(serial: int) -> None:
    first, second = written(tone(300, 0.8)), written(tone(500, 0.8), serial)
    reader = OggOpusReader()
    for page in first:
        reader.feed(page)
    sound = np.concatenate([reader.feed(page) for page in second])
    np.testing.assert_array_equal(sound, heard(*second))
    assert reader.counters.streams == 2
    assert reader.counters.concealed_samples == 0


def test_other_stream_without_header_starts_anew() -> None:
    first, second = written(tone(300, 0.4)), written(tone(500, 0.4), serial=9)
    sound = heard(*first, *second[1:])[-len(second[1:]) * FRAME_SAMPLES :]
    np.testing.assert_array_equal(sound, heard(*second[1:]))


def test_streams_of_other_codecs_are_passed_over() -> None:
    other = OggWriter(77)
    pages = written(tone(440, 0.8))
    mixed = [other.page([b"fishead\0" + bytes(56)], 0, bos=True)]
    for n, page in enumerate(pages):
        mixed += [page, other.page([bytes([0x48]) * 20], n)]
    np.testing.assert_array_equal(heard(*mixed), heard(*pages))


def test_surround_sound_is_not_played_but_counted() -> None:
    head = struct.pack("<8sBBHIhBBB", b"OpusHead", 1, 6, 0, 48_000, 0, 1, 4, 2) + bytes(range(6))
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(page) for page in streamed(encoded(tone(440, 0.2)), head)])
    assert sound.size == 0
    assert reader.counters.unsupported_streams == 1
    assert np.concatenate([reader.feed(page) for page in written(tone(440, 0.2))]).size > 3000


def test_one_stream_in_a_family_of_its_own_is_played() -> None:
    head = struct.pack("<8sBBHIhBBB", b"OpusHead", 1, 1, 0, 48_000, 0, 255, 1, 0) + b"\0"
    packets = encoded(tone(440, 0.2))
    np.testing.assert_array_equal(heard(*streamed(packets, head)), decoded(packets))


@pytest.mark.parametrize("pre_skip_ms", [0, 6.5, 80, 300])
def test_pre_skip_is_not_heard(pre_skip_ms: float) -> None:
    packets = encoded(tone(440, 0.4))
    sound = heard(*streamed(packets, OpusHead(pre_skip_granules=int(pre_skip_ms * 48)).encode()))
    np.testing.assert_array_equal(sound, decoded(packets)[int(pre_skip_ms * 24) :])


@pytest.mark.parametrize(("gain_db", "factor"), [(-6.0, 0.501), (0.0, 1.0), (3.0, 1.4125)])
def test_output_gain_is_applied(gain_db: float, factor: float) -> None:
    packets = encoded(tone(440, 0.4))
    head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, 0, 48_000, int(gain_db * 256), 0)
    np.testing.assert_allclose(heard(*streamed(packets, head)), decoded(packets) * factor, atol=1e-3)


def test_output_gain_never_gives_more_than_full_scale() -> None:
    head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, 0, 48_000, 0x7FFF, 0)
    assert np.abs(heard(*streamed(encoded(tone(440, 0.2)), head))).max() == 1


def test_stereo_is_mixed() -> None:
    library = libopus.load()
    encoder = library.opus_encoder_create(48_000, 2, libopus.APPLICATION_VOIP, ctypes.byref(ctypes.c_int()))
    out = ctypes.create_string_buffer(1275)
    left = np.repeat(tone(440, 0.4), 2) * 0.99
    packets = []
    for at in range(0, left.size - 959, 960):
        pcm = np.ascontiguousarray(np.stack((left[at : at + 960], np.zeros(960)), axis=1), np.float32)
        size = library.opus_encode_float(encoder, pcm.ctypes.data, 960, out, 1275)
        packets.append(out.raw[:size])
    library.opus_encoder_destroy(encoder)
    sound = heard(*streamed(packets, OpusHead(channels=2).encode()))
    assert sound.size == len(packets) * 480
    assert abs(pitch_hz(sound[480:]) - 440) < 5
    assert 0.07 < np.abs(sound[2400:]).max() < 0.2


def test_end_of_the_stream_is_cut_where_its_position_says() -> None:
    packets = encoded(tone(440, 0.2))
    pages = streamed(packets[:-1])
    writer = OggWriter(3)
    for _ in pages:
        writer.page([], 0)
    last = writer.page(packets[-1:], PACKET_GRANULES * len(packets) - 400, eos=True)
    np.testing.assert_array_equal(heard(*pages, last), decoded(packets)[:-200])


@pytest.mark.parametrize("damage", [b"", b"\x03", b"\x02\xff\xff"])
def test_corrupt_packet_is_concealed(damage: bytes) -> None:
    packets = encoded(speech()[: 2 * SAMPLE_RATE])
    packets[50] = damage
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(page) for page in streamed(packets)])
    assert reader.counters.bad_packets == 1
    assert reader.counters.concealed_samples in (480, 960)  # the last kind claims two frames
    assert sound.size == 480 * (len(packets) - 1) + reader.counters.concealed_samples
    assert not reader.page_counters.gaps


@pytest.mark.parametrize(("missing", "concealed_ms"), [(1, 20), (3, 60), (40, 120)])
def test_missing_pages_are_concealed_but_not_for_ever(missing: int, concealed_ms: int) -> None:
    packets = encoded(speech()[: 2 * SAMPLE_RATE])
    pages = streamed(packets)
    del pages[52 : 52 + missing]
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(page) for page in pages])
    assert reader.page_counters.gaps == 1
    assert reader.counters.concealed_samples == concealed_ms * 24
    assert sound.size == 480 * (len(packets) - missing) + concealed_ms * 24


def test_nothing_is_concealed_before_the_first_sound() -> None:
    packets = encoded(tone(440, 0.4))
    pages = streamed(packets, first_page=5000)  # a recorder that ran before the call
    del pages[2:5]
    reader = OggOpusReader()
    assert np.concatenate([reader.feed(page) for page in pages]).size == 480 * (len(packets) - 3)


def test_page_with_a_wrong_checksum_is_not_played() -> None:
    pages = written(tone(440, 0.8))
    damaged = bytearray(pages[4])
    damaged[-10] ^= 1
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(page) for page in (*pages[:4], bytes(damaged), *pages[5:])])
    assert sound.size == heard(*pages).size
    assert reader.page_counters.bad_pages == 1
    assert reader.counters.concealed_samples == FRAME_SAMPLES


def test_of_a_backlog_in_one_message_the_newest_is_decoded() -> None:
    pages = written(long_speech(8.0))
    reader = OggOpusReader()
    reader.feed(pages[0])
    sound = reader.feed(b"".join(pages[1:]), max_ms=2000)
    assert sound.size == 2 * SAMPLE_RATE
    assert reader.counters.dropped_samples == (len(pages) - 1) * FRAME_SAMPLES - sound.size
    np.testing.assert_allclose(sound[-SAMPLE_RATE:], heard(*pages)[-SAMPLE_RATE:], atol=0.05)


@pytest.mark.parametrize("packet", [b"", b"\x03", b"\x80", b"\x48", b"\x02\xff\xff", b"\x1b\x06"])
def test_megabytes_of_tiny_packets_are_not_all_decoded(packet: bytes) -> None:
    page = OggWriter(1).page([packet] * 255, 0)
    reader = OggOpusReader()
    reader.feed(written(tone(440, 0.08))[0])
    sound = reader.feed(page * (4 * 2**20 // len(page)), max_ms=2000)
    assert sound.size <= 2120 * 24
    assert reader.counters.packets <= 4 + 2000 / 2.5
    assert reader.page_counters.skipped_bytes > 4 * 2**20 - 2 * MAX_FEED_BYTES


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.binary(max_size=40), max_size=8), min_size=1, max_size=6),
    st.sampled_from([b"", b"OpusHead", OpusHead().encode(), b"OpusHead\x01\x01" + bytes(9)]),
    st.integers(-(2**63), 2**63 - 1),
)
def test_no_packets_raise(pages: list[list[bytes]], head: bytes, granule: int) -> None:
    writer = OggWriter(1)
    reader = OggOpusReader()
    reader.feed(written(tone(440, 0.08))[0])
    for packets in ([head], *pages):
        page = writer.page(packets, granule, bos=packets == [head], eos=granule % 3 == 0)
        sound = reader.feed(page)
        assert sound.dtype == np.float32 and sound.size <= 2240 * 24
        granule = (granule + 2**62) % 2**63


def test_client_of_the_moshi_package_is_understood() -> None:
    pcm = speech()[: 4 * SAMPLE_RATE]
    theirs, their_ears = sphn.OpusStreamWriter(SAMPLE_RATE), sphn.OpusStreamReader(SAMPLE_RATE)
    messages = [theirs.append_pcm(frame) for frame in frames(pcm)]
    reader = OggOpusReader()
    sound = np.concatenate([reader.feed(message) for message in messages])
    assert sound.size == pcm.size - FRAME_SAMPLES  # their header asks for 80 ms to be skipped
    heard_by_them = np.concatenate([their_ears.append_bytes(message) for message in messages])
    assert relative_error(sound, heard_by_them[FRAME_SAMPLES:]) < 0.01
    original = pcm[FRAME_SAMPLES - 156 :]  # 6.5 ms are the codec's delay
    assert relative_error(sound[: original.size], original[: sound.size]) < 0.3
    assert reader.counters.bad_packets == reader.page_counters.skipped_bytes == 0


def test_client_of_the_moshi_package_understands() -> None:
    pcm = speech()[: 4 * SAMPLE_RATE]
    theirs = sphn.OpusStreamReader(SAMPLE_RATE)
    parts = [theirs.append_bytes(page) for page in written(pcm)]
    assert [part.size for part in parts] == [FRAME_SAMPLES] * len(parts)  # nothing waits for the next message
    sound = np.concatenate(parts)
    assert relative_error(sound[156:], pcm[: sound.size - 156]) < 0.1


def test_file_of_what_was_written_plays_elsewhere_in_length_and_pitch() -> None:
    file = io.BytesIO(b"".join(written(tone(440, 4.0))))
    with av.open(file) as container:
        stream = container.streams.audio[0]
        assert stream.codec_context.name == "opus"
        assert stream.channels == 1
        sound = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(stream)])
        rate_hz = stream.rate
    assert abs(sound.size / rate_hz - 4.0) < 0.01
    assert abs(pitch_hz(sound, rate_hz) - 440) < 0.5
    assert abs(np.abs(sound[4800:]).max() - 0.3) < 0.03
