"""Voice activity on 80 ms frames: when the user begins and stops to speak.

Loudness against the noise of the room finds sound; a pitch in it tells a voice from noise, clicks and knocks. Meant for
engines that don't report speech themselves, and for barge-in: a word more or less does not matter, an event for every
slammed door does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, FloatSamples

_BLOCKS = 8
_BLOCK_SAMPLES = FRAME_SAMPLES // _BLOCKS
"""10 ms."""
_SHORTEST_LAG = SAMPLE_RATE // 400
_LONGEST_LAG = SAMPLE_RATE // 70
_FFT = 4096
_WINDOW = np.hanning(FRAME_SAMPLES).astype(np.float32)
_FREQUENCIES = np.fft.rfftfreq(_FFT, 1 / SAMPLE_RATE)
_VOICE_BAND = (_FREQUENCIES >= 80) & (_FREQUENCIES <= 3000)


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    frame: int
    """Index of the frame in which the speech began; the first frame given to `update` is 0."""


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    frame: int
    """Index of the first frame without speech."""


@dataclass(frozen=True, slots=True)
class VadConfig:
    above_noise_db: float = 9.0
    """How much louder than the room's noise a block of 10 ms must be to count as sound."""
    least_level_db: float = -55.0
    """Nothing below counts, however quiet the room; dB against full scale."""
    loud_blocks: int = 3
    """Of 8: so many make a frame count. A click has fewer."""
    least_pitch: float = 0.25
    """Periodicity, 70 to 400 Hz, from which a frame is voiced."""
    start_frames: int = 2
    """Loud frames in a row that start speech, one of them voiced."""
    stop_frames: int = 6
    """Frames without sound that end it: pauses between words are shorter."""


class VoiceActivity:
    """Sans-IO, a few numbers of state; one frame in, at most one event out.

    Speech is told after `start_frames` frames (160 ms), and its end after `stop_frames` (480 ms); the events name the
    frame in which it really was.
    """

    _FLOOR_FALL = 0.5
    _FLOOR_RISE_DB = 0.25
    """A frame; so noise that grows for good is taken for noise after some seconds."""

    def __init__(self, config: VadConfig | None = None) -> None:
        self._config = config or VadConfig()
        self._frame = -1
        self._floor_db: float | None = None
        self._run = 0
        self._voiced = False
        self._quiet = 0
        self.speaking = False

    def update(self, frame: FloatSamples) -> SpeechStarted | SpeechStopped | None:
        """Take in the next frame, [1920] samples at 24 kHz."""
        self._frame += 1
        blocks = frame.reshape(_BLOCKS, _BLOCK_SAMPLES)
        powers = sorted((np.einsum("ij,ij->i", blocks, blocks) / _BLOCK_SAMPLES).tolist())
        low = _decibels(powers[1])
        floor = low if self._floor_db is None else self._floor_db
        threshold = max(floor + self._config.above_noise_db, self._config.least_level_db)
        loud = _decibels(powers[-self._config.loud_blocks]) > threshold
        self._follow_floor(low)
        if loud:
            return self._loud_frame(frame)
        return self._quiet_frame()

    def _follow_floor(self, low: float) -> None:
        if self._floor_db is None:
            self._floor_db = low
        elif low < self._floor_db:
            self._floor_db += (low - self._floor_db) * self._FLOOR_FALL
        else:
            self._floor_db += min(self._FLOOR_RISE_DB, low - self._floor_db)

    def _loud_frame(self, frame: FloatSamples) -> SpeechStarted | None:
        self._quiet = 0
        self._run += 1
        if self.speaking:
            return None
        self._voiced = self._voiced or _pitch(frame) >= self._config.least_pitch
        if not self._voiced or self._run < self._config.start_frames:
            return None
        self.speaking = True
        return SpeechStarted(self._frame - self._run + 1)

    def _quiet_frame(self) -> SpeechStopped | None:
        self._run, self._voiced = 0, False
        if not self.speaking:
            return None
        self._quiet += 1
        if self._quiet < self._config.stop_frames:
            return None
        self.speaking = False
        return SpeechStopped(self._frame - self._quiet + 1)


def _decibels(power: float) -> float:
    return 10 * math.log10(power + 1e-10)


def _pitch(frame: FloatSamples) -> float:
    """How well the frame repeats itself at the best pitch period: 0.3 to 0.7 for a voice, at most 0.17 for noise.

    The spectrum's magnitudes instead of its powers: they flatten formants and rumble, so that only the pitch is left.
    """
    magnitudes = np.abs(np.fft.rfft(frame * _WINDOW, _FFT)) * _VOICE_BAND
    correlation = np.fft.irfft(magnitudes)[: _LONGEST_LAG + 1]
    if correlation[0] <= 0:
        return 0.0
    return float(correlation[_SHORTEST_LAG:].max() / correlation[0])
