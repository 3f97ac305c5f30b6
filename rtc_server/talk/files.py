"""WAV files in place of a microphone and a speaker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np

from rtc_server.errors import ConfigError
from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, FloatSamples
from rtc_server.media.pcm import to_float, to_int16
from rtc_server.media.wav import WavWriter, read_wav

Sleep = Callable[[float], Awaitable[object]]


class FileMicrophone:
    """Says what is in a file, frame after frame as time passes, the last one filled up with silence.

    Args:
        clock: seconds; the first frame starts it.

    Raises: ConfigError for a file that is no WAV.
    """

    def __init__(self, path: Path, clock: Callable[[], float], sleep: Sleep = asyncio.sleep) -> None:
        self._samples = read_wav(path)
        self._clock = clock
        self._sleep = sleep
        self._started_at: float | None = None
        self._position = 0

    async def frame(self) -> FloatSamples | None:
        """The next frame, [1920] samples, when it is due; None: that was all."""
        part = self._samples[self._position : self._position + FRAME_SAMPLES]
        if not part.size:
            return None
        if self._started_at is None:
            self._started_at = self._clock()
        due_at = self._started_at + self._position / FRAME_SAMPLES * FRAME_S
        self._position += part.size
        await self._sleep(max(0.0, due_at - self._clock()))
        frame = np.zeros(FRAME_SAMPLES, np.float32)
        frame[: part.size] = to_float(part)
        return frame

    def close(self) -> None:
        """Nothing to give back."""


class FileSpeaker:
    """Writes what the agent says, without a gap; the file begins with the first sound, and is whole after `close`.

    Raises: ConfigError for a path that cannot be a file.
    """

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            raise ConfigError(f"cannot write {path}: it is a folder")
        if not path.parent.is_dir():
            raise ConfigError(f"cannot write {path}: {path.parent} is no folder")
        self._path = path
        self._writer: WavWriter | None = None

    def play(self, pcm: FloatSamples) -> None:
        """Raises: ConfigError when the file cannot be written."""
        try:
            if self._writer is None:
                self._stream = self._path.open("wb")
                self._writer = WavWriter(self._stream)
            self._writer.write(to_int16(pcm))
        except OSError as error:
            raise self._refused(error) from None

    def close(self) -> None:
        """Raises: ConfigError when the file cannot be completed."""
        if self._writer is None:
            return
        try:
            with self._stream:
                self._writer.finish()
        except OSError as error:
            raise self._refused(error) from None
        finally:
            self._writer = None

    def _refused(self, error: OSError) -> ConfigError:
        return ConfigError(f"cannot write {self._path}: {error.strerror}")
