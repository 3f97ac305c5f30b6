from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.errors import ConfigError
from rtc_server.media.wav import WavWriter, read_wav


def write_wav(path: Path, pcm: NDArray[np.int16], rate: int = 24_000) -> Path:
    """[n] or [n, channels]"""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if pcm.ndim == 1 else pcm.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm.tobytes())
    return path


@pytest.mark.parametrize("samples", [1, 1919, 5000])
def test_what_is_written_is_read_bit_for_bit(samples: int, tmp_path: Path) -> None:
    pcm = np.random.default_rng(1).integers(-32768, 32768, samples).astype(np.int16)
    with (tmp_path / "out.wav").open("wb") as stream, WavWriter(stream) as writer:
        writer.write(pcm[:1000])
        writer.write(pcm[1000:])
        writer.finish()
    assert np.array_equal(read_wav(tmp_path / "out.wav"), pcm)


@pytest.mark.parametrize(
    ("rate", "channels", "samples", "expected"),
    [(48_000, 2, 96_001, 48_001), (44_100, 1, 44_100, 24_000), (16_000, 1, 16_001, 24_002), (8_000, 1, 800, 2_400)],
)
def test_other_rates_and_channels_keep_their_duration(
    rate: int, channels: int, samples: int, expected: int, tmp_path: Path
) -> None:
    tone = 10_000 * np.sin(2 * np.pi * 440 * np.arange(samples) / rate)
    source = write_wav(tmp_path / "in.wav", np.repeat(tone.astype(np.int16)[:, None], channels, 1), rate)
    pcm = read_wav(source)
    assert len(pcm) == expected
    wanted = 10_000 * np.sin(2 * np.pi * 440 * np.arange(expected) / 24_000)
    middle = slice(expected // 4, -expected // 4)
    assert np.abs(pcm[middle] - wanted[middle]).max() < 100


def test_channels_are_mixed(tmp_path: Path) -> None:
    pcm = np.stack([np.full(4000, 8000), np.full(4000, 2000)], 1).astype(np.int16)
    mixed = read_wav(write_wav(tmp_path / "in.wav", pcm))
    assert np.abs(mixed - 5000).max() <= 1


def test_samples_of_other_formats_are_read(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "in.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(24_000)
        file.writeframes(bytes([128, 255, 0, 128]))
    assert read_wav(tmp_path / "in.wav").tolist() == [0, 127 << 8, -128 << 8, 0]


@pytest.mark.parametrize("content", [b"", b"RIFF", b"no sound at all" * 100, b"#EXTM3U\nhttp://localhost/x\n"])
def test_what_is_no_wav_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.wav").write_bytes(content)
    with pytest.raises(ConfigError, match=r"in\.wav"):
        read_wav(tmp_path / "in.wav")


def test_a_wav_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no sound"):
        read_wav(write_wav(tmp_path / "in.wav", np.zeros(0, np.int16)))
