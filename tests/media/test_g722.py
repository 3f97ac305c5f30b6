from __future__ import annotations

import hashlib

import av
import numpy as np
import pytest
from aiortc.codecs.g722 import G722Decoder as AiortcDecoder
from aiortc.codecs.g722 import G722Encoder as AiortcEncoder
from aiortc.jitterbuffer import JitterFrame
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.g722 import CODEC_DELAY_SAMPLES, G722Decoder, G722Encoder
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.resample import Resampler
from rtc_server.media.waveformdecoder import PayloadError
from tests.media.speech import speech

ROUND_TRIP_SAMPLES = 48 + 33 + 48
"""At 24 kHz: the resampler's 2 ms, the codec's filters, the resampler's 2 ms."""


class Through:
    """In the place of a resampler: the codec alone, at 16 kHz."""

    def process(self, pcm: np.ndarray) -> np.ndarray:
        return pcm

    def reset(self) -> None:
        """There is nothing to forget."""


@pytest.fixture
def encoder_at_16_khz(monkeypatch: pytest.MonkeyPatch) -> G722Encoder:
    encoder = G722Encoder()
    monkeypatch.setattr(encoder, "_resampler", Through())
    return encoder


@pytest.fixture
def decoder_at_16_khz(monkeypatch: pytest.MonkeyPatch) -> G722Decoder:
    decoder = G722Decoder()
    monkeypatch.setattr(decoder, "_resampler", Through())
    return decoder


def tone(hz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(int(24_000 * seconds)) / 24_000)).astype(np.float32)


def packets(pcm: np.ndarray) -> list[bytes]:
    encoder = G722Encoder()
    return [encoder.encode(pcm[at : at + 480]) for at in range(0, pcm.size - 479, 480)]


def through(pcm: np.ndarray) -> np.ndarray:
    decoder = G722Decoder()
    return np.concatenate([decoder.decode(packet) for packet in packets(pcm)])


def noise(n_samples: int) -> np.ndarray:
    """16-bit samples, the same everywhere and for ever."""
    return np.frombuffer(hashlib.shake_256(b"G.722").digest(2 * n_samples), "<i2").astype(np.int64)


def bursts() -> np.ndarray:
    """2 s at 16 kHz of coloured noise in bursts, from full level down to silence."""
    wide = noise(32_007)
    smooth = sum(wide[late : late + 32_000] for late in range(8)) // 8
    return (smooth >> np.arange(32_000) // 640 % 10).astype(np.int16)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def test_codes_and_sound_are_those_of_another_implementation_bit_by_bit(
    encoder_at_16_khz: G722Encoder, decoder_at_16_khz: G722Decoder
) -> None:
    """The digests are those of what libg722 1.2.8 makes of the same signal, and of any bytes."""
    codes = encoder_at_16_khz.encode(bursts().astype(np.float32) / 32_768)
    assert digest(codes) == "ed21ab14322f45111986865da72c41fe"
    assert digest(in_16_bits(decoder_at_16_khz.decode(codes))) == "ef6b042670302dd4a9dd0fe3b9cc9e4d"
    decoder_at_16_khz.reset()
    garbage = noise(8000).astype("<i2").tobytes()
    assert digest(in_16_bits(decoder_at_16_khz.decode(garbage))) == "19cc44d00465ff4dfd1e000b46a44e34"


def in_16_bits(pcm: np.ndarray) -> bytes:
    return (pcm * 32_768).astype("<i2").tobytes()


def test_stream_is_that_of_aiortc_both_ways(encoder_at_16_khz: G722Encoder, decoder_at_16_khz: G722Decoder) -> None:
    theirs, their_decoder = AiortcEncoder(), AiortcDecoder()
    for at in range(0, 16_000, 320):
        block = bursts()[at : at + 320]
        frame = av.AudioFrame.from_ndarray(block[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts = 16_000, at
        (expected,), _ = theirs.encode(frame)
        payload = encoder_at_16_khz.encode(block.astype(np.float32) / 32_768)
        assert payload == expected and len(payload) == 160
        (heard,) = their_decoder.decode(JitterFrame(data=payload, timestamp=at // 2))
        assert np.array_equal(decoder_at_16_khz.decode(payload) * 32_768, heard.to_ndarray()[0])


@pytest.mark.parametrize("hz", [50, 100, 300, 1000, 2000, 3400, 3900, 4000, 4100, 5000, 6000, 6500, 6700])
def test_band_from_50_hz_up_passes_with_its_level(hz: float) -> None:
    assert gain_db(hz) == pytest.approx(0, abs=0.15)


def test_band_ends_at_7_khz() -> None:
    assert -1.5 < gain_db(7000) < 0
    assert gain_db(7600) < -20


@pytest.mark.parametrize("hz", [8100, 9000, 11_000])
def test_what_the_codec_does_not_carry_is_not_folded_into_what_it_does(hz: float) -> None:
    assert np.sqrt(np.mean(through(tone(hz))[2400:] ** 2)) < 1e-3


def gain_db(hz: float) -> float:
    heard = through(tone(hz))[2400:21_600]
    wave = np.exp(-2j * np.pi * hz * np.arange(2400, 21_600) / 24_000)
    return float(20 * np.log10(2 * abs(np.mean(heard * wave)) / 0.3))


def test_delay_is_that_of_the_filters_and_of_two_resamplers() -> None:
    filters = CODEC_DELAY_SAMPLES * 24_000 / 16_000
    assert Resampler(24_000, 16_000).delay_s * 24_000 * 2 + filters == ROUND_TRIP_SAMPLES


@pytest.mark.parametrize(("hz", "least_db"), [(100, 55), (1000, 40), (3400, 32), (5000, 20), (6700, 20)])
def test_tones_survive_the_way_there_and_back(hz: float, least_db: float) -> None:
    said = tone(hz)
    error = through(said)[2400:] - said[2400 - ROUND_TRIP_SAMPLES : -ROUND_TRIP_SAMPLES]
    assert 10 * np.log10(np.mean(said**2) / np.mean(error**2)) > least_db


@pytest.mark.parametrize("n_bytes", [1, 3, 80, 160, 161, 240, 320, 1600])
def test_three_samples_a_byte_whatever_the_packet_holds(n_bytes: int) -> None:
    decoder = G722Decoder()
    for _ in range(3):
        assert decoder.decode(bytes(n_bytes)).shape == (3 * n_bytes,)
    assert decoder.duration_samples(bytes(n_bytes)) == 3 * n_bytes


def test_how_a_stream_is_cut_into_packets_changes_nothing() -> None:
    stream = b"".join(packets(speech()[:24_000]))
    whole = G722Decoder().decode(stream)
    decoder, cuts = G722Decoder(), np.cumsum([80, 160, 240, 320, 1, 7, 1000])
    parts = [decoder.decode(bytes(part)) for part in np.split(np.frombuffer(stream, np.uint8), cuts)]
    assert np.allclose(np.concatenate(parts), whole, atol=2e-6)


@pytest.mark.parametrize("n_samples", [240, 720, 960])
def test_packets_of_any_whole_10_ms_are_one_stream(n_samples: int) -> None:
    pcm, encoder = speech()[:24_000], G722Encoder()
    sent = [encoder.encode(pcm[at : at + n_samples]) for at in range(0, 24_000, n_samples)]
    assert len(sent[0]) == n_samples // 3
    # The resampler's sums differ in the last bit, by which a sample may be rounded the other way.
    differ = np.frombuffer(b"".join(sent), np.uint8) != np.frombuffer(b"".join(packets(pcm)), np.uint8)
    assert np.mean(differ) < 0.05
    assert np.mean((G722Decoder().decode(b"".join(sent)) - through(pcm)) ** 2) < 1e-8


def test_samples_that_fill_no_10_ms_wait() -> None:
    pcm, encoder = speech()[:4800], G722Encoder()
    sent = [encoder.encode(part) for part in np.split(pcm, [0, 100, 1000, 1001])]
    assert [len(part) for part in sent] == [0, 0, 320, 0, 1280]
    assert np.mean((G722Decoder().decode(b"".join(sent)) - through(pcm)) ** 2) < 1e-8


def test_overload_is_clipped_and_silence_stays_quiet() -> None:
    assert np.abs(through(7 * tone(300))).max() < 1.5
    assert np.abs(through(np.zeros(9600, np.float32))[2400:]).max() < 1e-3


def test_empty_packet_is_an_error_and_the_stream_goes_on() -> None:
    sent, decoder, undisturbed = packets(speech()[:9600]), G722Decoder(), G722Decoder()
    assert decoder.duration_samples(b"") == 0
    for packet in sent:
        with pytest.raises(PayloadError):
            decoder.decode(b"")
        assert np.array_equal(decoder.decode(packet), undisturbed.decode(packet))


def test_packets_repair_nothing_and_announce_no_silence() -> None:
    decoder: AudioDecoder = G722Decoder()
    assert not decoder.has_fec(bytes(160)) and not decoder.is_dtx(bytes(160))
    with pytest.raises(PayloadError):
        decoder.recover(bytes(160), 480)


@pytest.mark.parametrize("n_samples", [1, 3, 61, 480, 1920, 12_000])
def test_concealment_is_as_long_as_asked_for(n_samples: int) -> None:
    decoder = G722Decoder()
    decoder.decode(packets(tone(200))[3])
    assert n_samples <= decoder.conceal(n_samples).size < n_samples + 3


@pytest.mark.parametrize("hz", [100, 150, 237, 440])
def test_voice_goes_on_through_a_gap_at_its_pitch(hz: float) -> None:
    decoder, sent = G722Decoder(), packets(tone(hz))
    for packet in sent[:10]:
        decoder.decode(packet)
    concealed, wanted = decoder.conceal(480), through(tone(hz))[4800:5280]
    assert concealed @ wanted / np.sqrt((concealed @ concealed) * (wanted @ wanted)) > 0.97


def lossy(burst: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Speech that lost so many packets at a time: as it would have been, as heard, and which packets follow a gap."""
    sent = packets(speech())
    lost = np.zeros(len(sent), bool)
    for start in np.cumsum(np.random.default_rng(2).integers(25, 35, len(sent) // 36)):
        lost[start : start + burst] = True
    decoder = G722Decoder()
    heard = [decoder.conceal(480) if gone else decoder.decode(packet) for packet, gone in zip(sent, lost, strict=True)]
    after = np.flatnonzero(np.roll(lost, 1) & ~lost)
    return through(speech()).reshape(-1, 480), np.array(heard), after


@pytest.mark.parametrize(("burst", "worst"), [(1, 0.12), (2, 0.1), (3, 0.5), (8, 0.5)])
def test_decoder_is_soon_itself_again_behind_a_gap_and_never_too_loud(burst: int, worst: float) -> None:
    clean, heard, after = lossy(burst)
    errors = []
    for later in (0, 1, 2, 10):
        spectra = [np.abs(np.fft.rfft(part[after + later], axis=1)) for part in (clean, heard)]
        errors.append(float(np.sum((spectra[0] - spectra[1]) ** 2) / np.sum(spectra[0] ** 2)))
    assert np.mean(errors[:3]) < worst
    assert errors[3] < 0.02
    assert np.abs(heard).max() < 1.15 * np.abs(clean).max()


@pytest.mark.parametrize("hz", [100, 237, 440])
def test_nothing_clicks_where_a_gap_begins_or_ends(hz: float) -> None:
    decoder, sent = G722Decoder(), packets(tone(hz))
    steepest = np.abs(np.diff(through(tone(hz))[2400:])).max()
    heard = [decoder.decode(packet) for packet in sent[:10]] + [decoder.conceal(480)]
    heard += [decoder.decode(packet) for packet in sent[11:20]]
    assert np.abs(np.diff(np.concatenate(heard)[2400:])).max() < 1.5 * steepest


def test_long_gap_fades_to_silence() -> None:
    decoder = G722Decoder()
    for packet in packets(tone(200))[:10]:
        decoder.decode(packet)
    concealed = decoder.conceal(4800)
    loudness = [float(np.abs(concealed[at : at + 240]).max()) for at in range(0, 4800, 240)]
    assert loudness[0] == pytest.approx(0.3, abs=0.02)
    assert max(loudness[7:]) < 1e-3


def test_reset_forgets_the_stream() -> None:
    used, fresh = G722Decoder(), G722Decoder()
    for packet in packets(tone(200))[:5]:
        used.decode(packet)
    used.conceal(480)
    used.reset()
    packet = packets(tone(300))[2]
    assert np.array_equal(used.conceal(480), fresh.conceal(480))
    assert np.array_equal(used.decode(packet), fresh.decode(packet))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.binary(min_size=1, max_size=300), st.integers(1, 3000)), max_size=12))
def test_any_packets_and_gaps_make_finite_sound_of_their_length(steps: list[bytes | int]) -> None:
    decoder = G722Decoder()
    for step in steps:
        sound = decoder.decode(step) if isinstance(step, bytes) else decoder.conceal(step)
        assert sound.size == 3 * len(step) if isinstance(step, bytes) else step <= sound.size < step + 3
        assert np.isfinite(sound).all() and np.abs(sound).max() < 4


def test_jitter_buffer_goes_on_through_empty_odd_and_garbled_packets() -> None:
    buffer = JitterBuffer(G722Decoder, 8000)
    timestamp = 0
    for number, packet in enumerate(packets(speech()[: 24_000 * 2])):
        payload = {10: b"", 20: bytes(range(160)), 30: packet[:33], 40: packet + packet}.get(number, packet)
        buffer.put(0.02 * number, number, timestamp, payload, 7)
        timestamp += 160
        if number % 4 == 3:
            frame = buffer.take(0.02 * number + 0.01)
            assert frame.shape == (1920,) and np.isfinite(frame).all()
