from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.personaplex.voicefiles import VoiceUnusable
from rtc_server.engine.personaplex.wav import read_wav

from .wavs import Format, riff, speech, wav

STEP = {"u8": 2e-2, "s16": 1e-4, "s24": 1e-5, "s32": 1e-5, "f32": 1e-6, "alaw": 2e-2, "mulaw": 2e-2}


@pytest.mark.parametrize("fmt", ["u8", "s16", "s24", "s32", "f32", "alaw", "mulaw"])
def test_samples_of_any_width_arrive_as_they_were(fmt: Format) -> None:
    pcm = speech(1.0)
    got = read_wav(wav(pcm, fmt=fmt))
    assert got.dtype == np.float32 and got.shape == pcm.shape
    assert np.abs(got - pcm).max() < STEP[fmt]


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_any_rate_becomes_24_khz_without_delay_or_change_of_level(rate: int) -> None:
    got = read_wav(wav(speech(2.0, rate), rate))
    want = speech(2.0)
    assert abs(len(got) - len(want)) <= 4
    middle = slice(4_800, 43_200)
    assert np.abs(got[middle] - want[middle]).max() < 2e-3


@pytest.mark.parametrize("channels", [2, 3, 6, 8])
def test_of_several_channels_the_first_is_taken(channels: int) -> None:
    pcm = np.stack([speech(1.0), *[np.full(24_000, 0.5, np.float32)] * (channels - 1)])
    assert np.abs(read_wav(wav(pcm)) - pcm[0]).max() < 1e-4


def test_more_channels_than_a_voice_can_have_are_refused() -> None:
    with pytest.raises(VoiceUnusable, match="12 channels"):
        read_wav(wav(np.zeros((12, 24_000), np.float32), 8_000))


def test_a_minute_is_read_and_no_more() -> None:
    assert len(read_wav(wav(np.zeros(60 * 8_000, np.float32), 8_000))) == 60 * 24_000
    with pytest.raises(VoiceUnusable, match="more than 60 s"):
        read_wav(wav(np.zeros(600 * 8_000, np.float32), 8_000))


def test_no_audio_is_read_as_none() -> None:
    assert len(read_wav(wav(np.zeros(0, np.float32)))) == 0


def test_a_header_without_a_length_does_no_harm() -> None:
    """Programs that write into a pipe do not know it."""
    raw = wav(speech(1.0))
    assert len(read_wav(raw[:40] + b"\xff\xff\xff\xff" + raw[44:])) == 24_000


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"RIFF",
        b"ID3\x04" + bytes(5_000),
        b"\xff\xfb\x90\x00" * 2_000,
        b"OggS" + bytes(5_000),
        b"#EXTM3U\nhttp://127.0.0.1:9/secret.wav\n",
        b"ffconcat version 1.0\nfile secret.wav\n",
        riff(b"", b""),
        riff(struct.pack("<HHIIHH", 1, 0, 24_000, 0, 0, 16), bytes(4_800)),
        riff(struct.pack("<HHIIHH", 1, 1, 0, 0, 2, 16), bytes(4_800)),
        riff(struct.pack("<HHIIHH", 1, 1, 0xFFFFFFFF, 0, 2, 16), bytes(4_800)),
        riff(struct.pack("<HHIIHH", 1, 1, 100, 200, 2, 16), bytes(4_800)),
        riff(struct.pack("<HHIIHH", 0x55, 1, 24_000, 4_000, 1, 0), b"\xff\xfb\x90\x00" * 2_000),
        riff(struct.pack("<HHIIHH", 0xABCD, 1, 24_000, 48_000, 2, 16), bytes(4_800)),
    ],
)
def test_what_is_no_pcm_wav_is_refused(raw: bytes) -> None:
    with pytest.raises(VoiceUnusable):
        read_wav(raw)


@given(st.binary(max_size=400), st.integers(0, 44))
def test_a_spoilt_header_is_read_or_refused(noise: bytes, at: int) -> None:
    raw = wav(speech(0.05))
    with contextlib.suppress(VoiceUnusable):
        read_wav(raw[:at] + noise + raw[at + len(noise) :])
