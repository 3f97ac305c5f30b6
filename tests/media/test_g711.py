from __future__ import annotations

import numpy as np
import pytest
from aiortc.codecs import get_decoder
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.g711 import G711Decoder, G711Encoder, Law, levels
from rtc_server.media.waveformdecoder import PayloadError
from tests.media.speech import speech

LAWS: tuple[Law, ...] = ("PCMU", "PCMA")
ALL_CODES = bytes(range(256))
DELAY_SAMPLES = 96
"""Of each direction, at 24 kHz."""


def by_the_standard(law: Law, octet: int) -> int:
    """One code's level in 16-bit units, by the formulas behind tables 1a to 2b of ITU-T G.711."""
    if law == "PCMU":
        bits = f"{octet ^ 0xFF:08b}"
        segment, step = int(bits[1:4], 2), int(bits[4:], 2)
        magnitude = 4 * ((2 * step + 33) * 2**segment - 33)  # of 14 bits
        return -magnitude if bits[0] == "1" else magnitude
    bits = f"{octet ^ 0x55:08b}"
    segment, step = int(bits[1:4], 2), int(bits[4:], 2)
    magnitude = 8 * (2 * step + 1 if segment == 0 else (2 * step + 33) * 2 ** (segment - 1))  # of 13 bits
    return magnitude if bits[0] == "1" else -magnitude


def tone(hz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(int(24_000 * seconds)) / 24_000)).astype(np.float32)


def packets(pcm: np.ndarray, law: Law = "PCMU") -> list[bytes]:
    encoder = G711Encoder(law)
    return [encoder.encode(pcm[at : at + 480]) for at in range(0, pcm.size - 479, 480)]


@pytest.mark.parametrize("law", LAWS)
def test_every_code_stands_for_the_level_of_the_standard(law: Law) -> None:
    assert (levels(law) * 32_768).tolist() == [by_the_standard(law, octet) for octet in range(256)]


@pytest.mark.parametrize("law", LAWS)
def test_every_code_stands_for_what_another_decoder_makes_of_it(law: Law) -> None:
    codec = RTCRtpCodecParameters(mimeType=f"audio/{law}", clockRate=8000, channels=1, payloadType=0)
    (frame,) = get_decoder(codec).decode(JitterFrame(data=ALL_CODES, timestamp=0))
    assert (levels(law) * 32_768).tolist() == frame.to_ndarray().ravel().tolist()


@pytest.mark.parametrize("law", LAWS)
def test_code_of_a_level_is_that_code(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    again = at_8_khz(law, levels(law), monkeypatch)
    two_zeros = {0x7F: 0xFF} if law == "PCMU" else {}  # sent as the positive one
    assert again == bytes(two_zeros.get(octet, octet) for octet in range(256))


@pytest.mark.parametrize("law", LAWS)
def test_every_sample_gets_the_nearest_code(law: Law, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.arange(-32_768, 32_768)
    coded = levels(law)[np.frombuffer(at_8_khz(law, samples / 32_768, monkeypatch), np.uint8)] * 32_768
    distances = np.abs(coded - samples)
    ordered = np.sort(np.array([by_the_standard(law, octet) for octet in range(256)]))
    after = np.clip(np.searchsorted(ordered, samples), 1, 255)
    nearest = np.minimum(np.abs(ordered[after] - samples), np.abs(ordered[after - 1] - samples))
    assert np.array_equal(distances, nearest)


def at_8_khz(law: Law, samples: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The codes themselves, without the resampler."""
    encoder = G711Encoder(law)
    monkeypatch.setattr(encoder, "_resampler", type("Through", (), {"process": staticmethod(lambda pcm: pcm)}))
    return encoder.encode(samples.astype(np.float32))


@pytest.mark.parametrize("law", LAWS)
def test_silence_and_overload_are_coded(law: Law) -> None:
    quiet = {"PCMU": 0xFF, "PCMA": 0xD5}[law]
    assert set(packets(np.zeros(4800, np.float32), law)[0]) == {quiet}
    loud = packets(np.full(4800, 7.0, np.float32), law)[-1]
    assert set(loud) == {0x80 if law == "PCMU" else 0xAA}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n_codes", [1, 80, 160, 240, 1600])
def test_three_samples_a_byte_whatever_the_packet_holds(law: Law, n_codes: int) -> None:
    decoder = G711Decoder(law)
    for _ in range(3):
        assert decoder.decode(bytes(n_codes)).shape == (3 * n_codes,)
    assert decoder.duration_samples(bytes(n_codes)) == 3 * n_codes


@pytest.mark.parametrize("law", LAWS)
def test_speech_survives_the_way_there_and_back_4_ms_later_each_way(law: Law) -> None:
    decoder = G711Decoder(law)
    said = tone(300) + tone(1000) + tone(3000) * 0.3
    heard = np.concatenate([decoder.decode(packet) for packet in packets(said, law)])
    assert heard.size == said.size
    delay = 2 * DELAY_SAMPLES
    error = heard[2400:] - said[2400 - delay : -delay]
    assert 10 * np.log10(np.mean(said**2) / np.mean(error**2)) > 30


def test_what_a_telephone_does_not_carry_is_not_folded_into_what_it_does() -> None:
    decoder = G711Decoder("PCMU")
    heard = np.concatenate([decoder.decode(packet) for packet in packets(tone(6000))])
    assert np.sqrt(np.mean(heard[2400:] ** 2)) < 1e-3


def test_empty_packet_is_an_error_and_the_decoder_goes_on() -> None:
    decoder = G711Decoder("PCMA")
    assert decoder.duration_samples(b"") == 0
    with pytest.raises(PayloadError):
        decoder.decode(b"")
    assert decoder.decode(bytes(160)).size == 480


def test_packets_repair_nothing_and_announce_no_silence() -> None:
    decoder = G711Decoder("PCMA")
    assert not decoder.has_fec(bytes(160)) and not decoder.is_dtx(b"\xd5")
    with pytest.raises(PayloadError):
        decoder.recover(bytes(160), 480)


@pytest.mark.parametrize("n_samples", [1, 3, 61, 480, 1920, 12_000])
def test_concealment_is_as_long_as_asked_for(n_samples: int) -> None:
    decoder = G711Decoder("PCMU")
    decoder.decode(packets(tone(200))[3])
    assert n_samples <= decoder.conceal(n_samples).size < n_samples + 3


@pytest.mark.parametrize("hz", [100, 150, 237, 440])
def test_voice_goes_on_through_a_gap_at_its_pitch(hz: float) -> None:
    decoder = G711Decoder("PCMU")
    sent = packets(tone(hz))
    for packet in sent[:10]:
        decoder.decode(packet)
    concealed = decoder.conceal(480)
    true = G711Decoder("PCMU")
    wanted = np.concatenate([true.decode(packet) for packet in sent[:11]])[-480:]
    similarity = concealed @ wanted / np.sqrt((concealed @ concealed) * (wanted @ wanted))
    assert similarity > 0.97


@pytest.mark.parametrize("hz", [100, 237, 440])
def test_nothing_clicks_where_a_gap_begins_or_ends(hz: float) -> None:
    decoder = G711Decoder("PCMU")
    sent = packets(tone(hz))
    whole = np.concatenate([decoder.decode(packet) for packet in sent[:20]])
    steepest = np.abs(np.diff(whole[2400:])).max()
    decoder.reset()
    heard = [decoder.decode(packet) for packet in sent[:10]] + [decoder.conceal(480)]
    heard += [decoder.decode(packet) for packet in sent[11:20]]
    assert np.abs(np.diff(np.concatenate(heard)[2400:])).max() < 1.3 * steepest


def test_long_gap_fades_to_silence() -> None:
    decoder = G711Decoder("PCMU")
    for packet in packets(tone(200))[:10]:
        decoder.decode(packet)
    concealed = decoder.conceal(4800)
    loudness = [float(np.abs(concealed[at : at + 240]).max()) for at in range(0, 4800, 240)]
    assert loudness[0] == pytest.approx(0.3, abs=0.02)
    assert all(later <= earlier + 0.02 for earlier, later in zip(loudness, loudness[1:], strict=False))
    assert max(loudness[7:]) < 1e-3


def test_lost_speech_is_nearer_to_the_truth_than_silence() -> None:
    pcm = speech()
    sent = packets(pcm)
    lost = np.random.default_rng(2).random(len(sent)) < 0.1
    decoder, through = G711Decoder("PCMU"), G711Decoder("PCMU")
    clean = np.concatenate([through.decode(packet) for packet in sent])
    heard = np.concatenate(
        [decoder.conceal(480) if gone else decoder.decode(packet) for packet, gone in zip(sent, lost, strict=True)]
    )
    gaps = np.concatenate([clean[at * 480 : at * 480 + 480] for at in np.flatnonzero(lost)])
    filled = np.concatenate([heard[at * 480 : at * 480 + 480] for at in np.flatnonzero(lost)])
    spectra = [np.abs(np.fft.rfft(part.reshape(-1, 480), axis=1)) for part in (gaps, filled)]
    assert np.sum((spectra[0] - spectra[1]) ** 2) < 0.5 * np.sum(spectra[0] ** 2)


def test_reset_forgets_the_stream() -> None:
    used = G711Decoder("PCMA")
    for packet in packets(tone(200), "PCMA")[:5]:
        used.decode(packet)
    used.conceal(480)
    used.reset()
    fresh = G711Decoder("PCMA")
    packet = packets(tone(300), "PCMA")[2]
    assert np.array_equal(used.conceal(480), fresh.conceal(480))
    assert np.array_equal(used.decode(packet), fresh.decode(packet))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.binary(min_size=1, max_size=300), st.integers(1, 3000)), max_size=12))
def test_any_packets_and_gaps_make_finite_sound_of_their_length(steps: list[bytes | int]) -> None:
    decoder = G711Decoder("PCMU")
    for step in steps:
        sound = decoder.decode(step) if isinstance(step, bytes) else decoder.conceal(step)
        assert sound.size == 3 * len(step) if isinstance(step, bytes) else step <= sound.size < step + 3
        assert np.isfinite(sound).all() and np.abs(sound).max() < 4
