"""WAV files and the engine's sound: 24 kHz, mono, int16."""

from __future__ import annotations

import contextlib
import wave
from pathlib import Path
from typing import BinaryIO, Self

import av
import numpy as np
from numpy.typing import NDArray

from rtc_server.errors import ConfigError
from rtc_server.media.frames import SAMPLE_RATE

Samples = NDArray[np.int16]


def read_wav(path: Path) -> Samples:
    """The whole file, [n] samples at 24 kHz: any rate and sample format, channels mixed down to one.

    A file that is 24 kHz mono int16 already comes through bit for bit. Another rate gives as many samples as the file
    lasts, rounded up.

    Raises: ConfigError for a file that cannot be read, is no WAV, or has no sound in it.
    """
    try:
        with path.open("rb") as stream:
            samples = _decode(stream)
    except (OSError, av.FFmpegError) as error:  # FFmpeg's errors are OSErrors only where the system made them
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"cannot read {path}: {reason}", hint="give a WAV file") from None
    if not len(samples):
        raise ConfigError(f"{path} has no sound in it", hint="give a WAV file of at least one sample")
    return samples


def _decode(stream: BinaryIO) -> Samples:
    # From an open file and as this one format: FFmpeg must follow no address and no playlist.
    with av.open(stream, "r", format="wav") as container:
        if not container.streams.audio:
            return np.zeros(0, np.int16)
        audio = container.streams.audio[0]
        resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
        taken, pieces = 0, []
        for frame in container.decode(audio):
            taken += frame.samples
            pieces += resampler.resample(frame)
        if taken:
            pieces += resampler.resample(None)
    length = -(-taken * SAMPLE_RATE // audio.rate) if taken else 0
    samples = np.zeros(length, np.int16)
    found = np.concatenate([np.zeros(0, np.int16), *(piece.to_ndarray()[0] for piece in pieces)])[:length]
    samples[: len(found)] = found  # the resampler may give a sample more or less
    return samples


class WavWriter:
    """24 kHz, mono, int16 into an open file, which stays open. Leaving the ``with`` block completes its header."""

    def __init__(self, stream: BinaryIO) -> None:
        self._wave = wave.Wave_write(stream)
        self._wave.setnchannels(1)
        self._wave.setsampwidth(2)
        self._wave.setframerate(SAMPLE_RATE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # on a full disk; whoever wants the file calls `finish` and hears of it
            self._wave.close()

    def write(self, samples: Samples) -> None:
        self._wave.writeframesraw(samples.astype("<i2", copy=False).tobytes())

    def finish(self) -> None:
        """Raises: OSError when the disk is full."""
        self._wave.close()
