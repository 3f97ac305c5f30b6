from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.pcmformat import SAMPLE_BYTES, PcmDecoder, PcmEncoder, SampleFormat
from rtc_server.media.resample import RATES_HZ

CUT_INSIDE_SAMPLES = Path(__file__).parent.parent / "data" / "ws" / "odd_byte_chunks.hex"
FORMATS: tuple[SampleFormat, ...] = ("f32", "s16")
WIRES = list(itertools.product(FORMATS, RATES_HZ))


def tone(rate_hz: int, seconds: float = 2.0, tone_hz: float = 1000.0) -> FloatSamples:
    return (0.5 * np.sin(2 * np.pi * tone_hz * np.arange(round(rate_hz * seconds)) / rate_hz)).astype(np.float32)


def to_bytes(pcm: FloatSamples, format: SampleFormat) -> bytes:
    return pcm.astype("<f4").tobytes() if format == "f32" else np.rint(pcm * 32768).astype("<i2").tobytes()


def from_bytes(data: bytes, format: SampleFormat) -> FloatSamples:
    if format == "f32":
        return np.frombuffer(data, "<f4").astype(np.float32)
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)


def loudest_hz(pcm: FloatSamples, rate_hz: int) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(pcm * np.hanning(pcm.size)))) * rate_hz / pcm.size)


def level(pcm: FloatSamples) -> float:
    return float(np.sqrt(np.mean(np.square(pcm[pcm.size // 4 : -pcm.size // 4]))))


@pytest.mark.parametrize(("format", "rate_hz"), WIRES)
def test_a_tone_keeps_its_pitch_and_its_level_on_the_way_in(format: SampleFormat, rate_hz: int) -> None:
    heard = PcmDecoder(format, rate_hz).feed(to_bytes(tone(rate_hz), format))
    assert heard.size == 2 * SAMPLE_RATE
    assert loudest_hz(heard, SAMPLE_RATE) == pytest.approx(1000)
    assert level(heard) == pytest.approx(0.5 / math.sqrt(2), rel=0.01)


@pytest.mark.parametrize(("format", "rate_hz"), WIRES)
def test_a_tone_keeps_its_pitch_and_its_level_on_the_way_out(format: SampleFormat, rate_hz: int) -> None:
    encoder, pcm = PcmEncoder(format, rate_hz), tone(SAMPLE_RATE)
    messages = [encoder.encode(frame) for frame in np.split(pcm, pcm.size // FRAME_SAMPLES)]
    assert {len(message) for message in messages} == {rate_hz * 80 // 1000 * SAMPLE_BYTES[format]}
    sent = from_bytes(b"".join(messages), format)
    assert loudest_hz(sent, rate_hz) == pytest.approx(1000)
    assert level(sent) == pytest.approx(0.5 / math.sqrt(2), rel=0.01)


@pytest.mark.parametrize(("format", "rate_hz"), WIRES)
def test_there_and_back_is_the_same_later_by_the_stated_delays(format: SampleFormat, rate_hz: int) -> None:
    encoder, decoder = PcmEncoder(format, rate_hz), PcmDecoder(format, rate_hz)
    pcm = tone(SAMPLE_RATE, 0.4)
    back = decoder.feed(encoder.encode(pcm))
    delay = round((encoder.delay_s + decoder.delay_s) * SAMPLE_RATE)
    assert (delay == 0) == (rate_hz == SAMPLE_RATE)
    np.testing.assert_allclose(back[delay + 200 :], pcm[200 : pcm.size - delay], atol=2e-3)


@pytest.mark.parametrize("format", FORMATS)
def test_24_khz_goes_through_unchanged_both_ways(format: SampleFormat) -> None:
    pcm = (np.random.default_rng(0).integers(-32768, 32768, FRAME_SAMPLES) / 32768).astype(np.float32)
    message = PcmEncoder(format, SAMPLE_RATE).encode(pcm)
    np.testing.assert_array_equal(PcmDecoder(format, SAMPLE_RATE).feed(message), pcm)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WIRES), st.lists(st.integers(0, 9000), max_size=12), st.integers(0, 2**32 - 1))
def test_any_cutting_of_the_bytes_gives_the_same_samples(
    wire: tuple[SampleFormat, int], cuts: list[int], seed: int
) -> None:
    """The last byte belongs to a sample that never comes: it is nothing."""
    format, rate_hz = wire
    pcm = np.random.default_rng(seed).uniform(-1, 1, 9000 // SAMPLE_BYTES[format]).astype(np.float32)
    data = to_bytes(pcm, format) + b"\x7f"
    decoder = PcmDecoder(format, rate_hz)
    parts = [decoder.feed(data[start:end]) for start, end in itertools.pairwise([0, *sorted(cuts), len(data)])]
    whole = PcmDecoder(format, rate_hz).feed(data[:-1])
    assert whole.size == math.ceil(pcm.size * SAMPLE_RATE / rate_hz)
    rounding = 0 if rate_hz == SAMPLE_RATE else 2e-6  # of sums in another order
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=0, atol=rounding)


def test_messages_that_end_inside_a_sample_carry_its_bytes_over() -> None:
    lines = CUT_INSIDE_SAMPLES.read_text().splitlines()
    messages = [bytes.fromhex(line[1:]) for line in lines if line.startswith(">")]
    assert any(len(message) % 2 for message in messages)
    decoder = PcmDecoder("s16", SAMPLE_RATE)
    heard = np.concatenate([decoder.feed(message) for message in messages])
    np.testing.assert_array_equal(heard, from_bytes(b"".join(messages), "s16"))
    assert heard.size == 2 * FRAME_SAMPLES


def test_a_dangling_byte_at_the_end_gives_no_sample() -> None:
    decoder = PcmDecoder("s16", SAMPLE_RATE)
    assert decoder.feed(b"\x00\x40\x01").tolist() == [0.5]
    assert decoder.feed(b"").size == 0
    assert PcmDecoder("f32", 8_000).feed(b"\x00\x00\x80").size == 0


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_floats_that_are_no_samples_do_no_harm(rate_hz: int) -> None:
    """They are within full scale behind the decoder, and the sound after them is what it would have been."""
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-40, 2.0, -7.5], np.float32)
    decoder = PcmDecoder("f32", rate_hz)
    assert np.abs(decoder.feed(to_bytes(odd, "f32"))).max() <= 1.3  # a low-pass swings beyond its input by a little
    heard = decoder.feed(to_bytes(tone(rate_hz, 0.2), "f32"))
    expected = PcmDecoder("f32", rate_hz).feed(to_bytes(np.concatenate((np.zeros(10), tone(rate_hz, 0.2))), "f32"))
    settled = heard.size // 2
    np.testing.assert_allclose(heard[-settled:], expected[-settled:], atol=2e-6)


def test_what_is_no_number_is_silence_and_what_is_too_loud_is_full_scale() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 3.4e38, -2.0, 1e-40, 0.25], np.float32)
    assert PcmDecoder("f32", SAMPLE_RATE).feed(to_bytes(odd, "f32")).tolist() == [0, 1, -1, 1, -1, 0, 0.25]


def test_16_bit_samples_are_clipped_on_the_way_out() -> None:
    loud = np.array([1.5, -1.5, 1.0, -1.0, 0.5], np.float32)
    assert np.frombuffer(PcmEncoder("s16", SAMPLE_RATE).encode(loud), "<i2").tolist() == [
        32767,
        -32768,
        32767,
        -32768,
        16384,
    ]


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_at_the_end_comes_what_the_resampler_held_back(rate_hz: int) -> None:
    said = tone(rate_hz, 0.2)
    decoder = PcmDecoder("f32", rate_hz)
    heard = np.concatenate((decoder.feed(to_bytes(said, "f32") + b"\x00"), decoder.end()))
    assert heard.size == round((0.2 + decoder.delay_s) * SAMPLE_RATE)
    within = heard[-round(0.1 * SAMPLE_RATE) :]
    assert np.abs(within[: within.size // 2]).max() > 0.4 * np.abs(said).max(), "the sound goes on to its end"


@pytest.mark.parametrize("rate_hz", [0, 44_100, 192_000])
def test_a_rate_that_no_engine_hears_is_refused_by_name(rate_hz: int) -> None:
    with pytest.raises(ValueError, match=str(rate_hz)):
        PcmDecoder("s16", rate_hz)
    with pytest.raises(ValueError, match=str(rate_hz)):
        PcmEncoder("s16", rate_hz)
