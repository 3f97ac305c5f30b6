from __future__ import annotations

import contextlib
import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.errors import MissingLibrary
from rtc_server.media import libopus, opuspacket
from rtc_server.media.opus import OpusDecoder, OpusEncoder, OpusError
from tests.media.speech import decoded, encoded, long_speech, speech


def tone(hz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.3 * np.sin(2 * np.pi * hz * np.arange(int(24_000 * seconds)) / 24_000)).astype(np.float32)


def test_speech_survives_the_way_there_and_back() -> None:
    pcm = speech()
    heard = decoded(encoded(pcm, bitrate_bps=64_000))
    delay = int(np.argmax(np.correlate(heard[: 48_000 + 400], pcm[:48_000], "valid")))
    assert 100 < delay < 200  # the codec's own delay: 6.5 ms
    error = heard[delay:] - pcm[: heard.size - delay]
    assert np.sum(error**2) < 0.1 * np.sum(pcm**2)


@pytest.mark.parametrize("packet_ms", [10, 20, 40, 60])
def test_duration_is_told_without_decoding(packet_ms: int) -> None:
    payloads = encoded(tone(440), packet_ms)
    decoder = OpusDecoder()
    assert {decoder.duration_samples(payload) for payload in payloads} == {packet_ms * 24}
    assert {decoder.decode(payload).size for payload in payloads} == {packet_ms * 24}


@pytest.mark.parametrize("payload", [b"", b"\x03", b"\xfb\x3f", bytes([0x7A, 251, 0])])
def test_what_is_no_packet_has_no_duration(payload: bytes) -> None:
    assert OpusDecoder().duration_samples(payload) == 0


def test_stereo_packets_are_mixed_to_mono() -> None:
    library = libopus.load()
    error = ctypes.c_int()
    encoder = library.opus_encoder_create(24_000, 2, libopus.APPLICATION_VOIP, ctypes.byref(error))
    left_only = np.zeros((480, 2), np.float32)
    left_only[:, 0] = tone(440, 0.02)
    out = ctypes.create_string_buffer(1275)
    sizes = [library.opus_encode_float(encoder, left_only.ctypes.data, 480, out, 1275) for _ in range(5)]
    library.opus_encoder_destroy(encoder)
    payload = out.raw[: sizes[-1]]
    assert payload[0] & 4
    decoder = OpusDecoder()
    assert decoder.duration_samples(payload) == 480
    assert decoder.decode(payload).shape == (480,)


def test_corrupt_packet_is_an_error_and_the_decoder_goes_on() -> None:
    decoder = OpusDecoder()
    payloads = encoded(tone(440))
    decoder.decode(payloads[0])
    for corrupt in (b"", b"\x03", bytes([0x7A, 251, 0])):
        with pytest.raises(OpusError):
            decoder.decode(corrupt)
        with pytest.raises(OpusError):
            decoder.recover(corrupt, 480)
    assert decoder.decode(payloads[1]).size == 480


@pytest.mark.parametrize("n_samples", [1, 60, 61, 480, 1920, 5000])
def test_concealment_goes_on_with_the_sound(n_samples: int) -> None:
    decoder = OpusDecoder()
    for payload in encoded(tone(440)):
        last = decoder.decode(payload)
    more = decoder.conceal(n_samples)
    assert n_samples <= more.size < n_samples + 60
    assert abs(more[0] - last[-1]) < 0.1


def test_recovered_packet_is_nearer_than_a_concealed_one() -> None:
    pcm = speech()
    payloads = encoded(pcm, expected_loss_pct=30)
    truth = decoded(payloads)
    errors = {"recover": 0.0, "conceal": 0.0}
    repeated = 0
    for lost in range(60, 160, 4):
        if not opuspacket.has_fec(payloads[lost + 1]):
            continue
        repeated += 1
        expected = truth[lost * 480 : (lost + 1) * 480]
        for way in errors:
            decoder = OpusDecoder()
            for payload in payloads[:lost]:
                decoder.decode(payload)
            guess = decoder.recover(payloads[lost + 1], 480) if way == "recover" else decoder.conceal(480)
            errors[way] += float(np.sum((guess - expected) ** 2))
    assert repeated > 10
    assert errors["recover"] < 0.5 * errors["conceal"]


def test_fec_can_be_left_out() -> None:
    assert any(map(opuspacket.has_fec, encoded(speech(), expected_loss_pct=20)))
    assert not any(map(opuspacket.has_fec, encoded(speech(), fec=False)))


def test_bitrate_and_loss_can_be_changed_while_running() -> None:
    encoder = OpusEncoder(fec=False)
    pcm = long_speech(2.0)
    sizes = []
    for bitrate_bps in (16_000, 64_000):
        encoder.set_bitrate(bitrate_bps)
        encoder.set_expected_loss(5)
        sizes.append(sum(len(encoder.encode(pcm[at : at + 480])) for at in range(0, pcm.size, 480)))
    assert sizes[1] > 2 * sizes[0]


def test_dtx_packets_are_told_apart() -> None:
    payloads = encoded(np.zeros(48_000, np.float32), dtx=True)
    assert any(map(opuspacket.is_dtx, payloads))
    assert not any(map(opuspacket.is_dtx, encoded(tone(440))))


def test_reset_decoder_gives_what_a_new_one_gives() -> None:
    payloads = encoded(speech())
    decoder = OpusDecoder()
    for payload in payloads[30:60]:
        decoder.decode(payload)
    decoder.reset()
    np.testing.assert_array_equal(decoder.decode(payloads[0]), OpusDecoder().decode(payloads[0]))


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(OpusError, match="bitrate_bps"):
        OpusEncoder(bitrate_bps=-5)
    with pytest.raises(OpusError, match="complexity"):
        OpusEncoder(complexity=11)
    with pytest.raises(OpusError, match="22050"):
        OpusDecoder(22_050)
    with pytest.raises(OpusError, match="481"):
        OpusEncoder().encode(np.zeros(481, np.float32))


def test_the_library_in_use_is_named() -> None:
    assert "opus" in libopus.libopus_path()
    assert libopus.version().startswith("libopus")


def test_no_library_is_a_clear_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    libopus.load.cache_clear()
    monkeypatch.setattr(libopus, "candidates", lambda: iter(["/nowhere/libopus.so.0"]))
    with pytest.raises(MissingLibrary, match=r"nowhere.*install PyAV"):
        OpusDecoder()
    monkeypatch.undo()
    assert libopus.load() is libopus.load()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80))
def test_bytes_are_read_as_libopus_reads_them(payload: bytes) -> None:
    library = libopus.load()
    decoder = OpusDecoder()
    told = max(0, library.opus_packet_get_nb_samples(payload, len(payload), 24_000)) if payload else 0
    assert opuspacket.duration_ms(payload) * 24 == told
    assert decoder.duration_samples(payload) in (0, told)
    opuspacket.has_fec(payload)
    with contextlib.suppress(OpusError):
        assert decoder.decode(payload).size == told


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=80))
def test_fec_flag_is_found_where_libopus_finds_it(payload: bytes) -> None:
    library = libopus.load()
    if not hasattr(library, "opus_packet_has_lbrr"):
        pytest.skip("this libopus is older than 1.4")
    told = library.opus_packet_has_lbrr(payload, len(payload))
    if told >= 0:
        assert opuspacket.has_fec(payload) == (told == 1)


def test_without_loss_the_transform_codec_is_used_and_with_loss_the_one_that_has_fec() -> None:
    encoder, decoder = OpusEncoder(), OpusDecoder()
    pcm = long_speech(6.0)
    payloads = []
    for at in range(0, pcm.size - 479, 480):
        if at == 48_000:
            encoder.set_expected_loss(10)
        if at == 96_000:
            encoder.set_expected_loss(0)
        payloads.append(encoder.encode(pcm[at : at + 480]))
    transform = [payload[0] >> 3 >= 16 for payload in payloads]  # RFC 6716 section 3.1, table 2
    assert all(transform[:99]) and not any(transform[105:199]) and all(transform[205:])
    assert not any(decoder.has_fec(payload) for payload in payloads[:99])
    assert any(decoder.has_fec(payload) for payload in payloads[105:199])
    sound = np.concatenate([decoder.decode(payload) for payload in payloads])
    assert np.abs(np.diff(sound)).max() < 1.2 * np.abs(np.diff(pcm)).max(), "changing over makes no click"


def test_dtx_announces_a_pause_then_sends_nothing_and_describes_its_noise_now_and_then() -> None:
    encoder = OpusEncoder(dtx=True)
    pcm = np.concatenate((tone(440), np.zeros(48_000, np.float32), tone(440)))
    payloads = [encoder.encode(pcm[at : at + 480]) for at in range(0, pcm.size - 479, 480)]
    assert all(payloads[:50]) and all(payloads[155:])
    pause = payloads[80:150]
    sizes = [len(payload) for payload in pause if payload]
    assert 2 <= len(sizes) <= 10
    first_empty = payloads.index(b"")
    assert opuspacket.is_dtx(payloads[first_empty - 1]), "the peer is told before the packets stop"
    for here, payload in enumerate(payloads):
        if not payload:
            assert any(payloads[here - 20 : here]), "never more than 420 ms without a packet"


def test_without_dtx_every_packet_is_to_be_sent() -> None:
    encoder = OpusEncoder()
    assert all(encoder.encode(np.zeros(480, np.float32)) for _ in range(200))


def test_dtx_keeps_to_the_codec_that_knows_speech_from_noise() -> None:
    encoder = OpusEncoder(dtx=True)
    noise = np.random.default_rng(3).standard_normal(96_000).astype(np.float32) * 1e-3
    for loss_pct in (0, 10, 0):
        encoder.follow(loss_pct, 32_000)
        payloads = [encoder.encode(noise[at : at + 480]) for at in range(0, noise.size - 479, 480)]
        assert sum(not payload for payload in payloads) > 100


def test_path_is_followed_without_asking_libopus_twice_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = OpusEncoder(bitrate_bps=40_000)
    asked: list[str] = []
    set_value = encoder._set
    monkeypatch.setattr(
        encoder, "_set", lambda name, request, value: (asked.append(name), set_value(name, request, value))
    )
    encoder.follow(0, 40_000)
    assert not asked
    encoder.follow(10, 40_000)
    encoder.follow(10, 16_000)
    assert asked == ["expected_loss_pct", "signal", "bitrate_bps"]
