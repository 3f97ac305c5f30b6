from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from rtc_server.errors import ConfigError
from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES
from rtc_server.media.wav import read_wav
from rtc_server.talk.files import FileMicrophone, FileSpeaker


class Clock:
    """Time passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


def recording(path: Path, samples: int, rate_hz: int = 24_000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate_hz, 0, "NONE", ""))
        file.writeframes(np.full(samples, 8192, "<i2").tobytes())
    return path


async def test_a_file_is_said_as_time_passes_and_its_end_is_filled_up(tmp_path: Path) -> None:
    clock = Clock()
    microphone = FileMicrophone(recording(tmp_path / "in.wav", 2 * FRAME_SAMPLES + 1), clock, clock.sleep)
    frames = [await microphone.frame() for _ in range(4)]
    assert [None if frame is None else float(frame.sum()) for frame in frames] == [480.0, 480.0, 0.25, None]
    assert clock.now == pytest.approx(100 + 2 * FRAME_S)


async def test_what_was_held_up_is_made_up_for(tmp_path: Path) -> None:
    clock = Clock()
    microphone = FileMicrophone(recording(tmp_path / "in.wav", 5 * FRAME_SAMPLES), clock, clock.sleep)
    await microphone.frame()
    clock.now += 2.5 * FRAME_S
    for _ in range(4):
        await microphone.frame()
    assert clock.naps == pytest.approx([0, 0, 0, 0.5 * FRAME_S, FRAME_S])


async def test_other_rates_keep_their_duration(tmp_path: Path) -> None:
    clock = Clock()
    microphone = FileMicrophone(recording(tmp_path / "in.wav", 16_000, rate_hz=16_000), clock, clock.sleep)
    frames = 0
    while await microphone.frame() is not None:
        frames += 1
    assert frames == 13


def test_a_file_begins_with_the_first_sound_and_replaces_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.wav"
    target.write_bytes(b"an earlier call")
    silent = FileSpeaker(target)
    silent.close()
    assert target.read_bytes() == b"an earlier call"
    speaker = FileSpeaker(target)
    for _ in range(3):
        speaker.play(np.full(100, 0.5, np.float32))
    speaker.close()
    speaker.close()
    assert read_wav(target).tolist() == [16384] * 300


def test_a_disk_that_is_full_is_one_sentence() -> None:
    speaker = FileSpeaker(Path("/dev/full"))
    with pytest.raises(ConfigError, match="cannot write /dev/full: No space left"):  # noqa: PT012
        for _ in range(100):
            speaker.play(np.zeros(FRAME_SAMPLES, np.float32))
    with pytest.raises(ConfigError, match="No space left"):
        speaker.close()
