"""Moves the read pointer of a jitter buffer, a little per frame, where nobody hears it."""

from __future__ import annotations

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.timescale import (
    FADE_SAMPLES,
    Place,
    SpeechLevel,
    lengthened,
    pitch_place,
    quiet_place,
    shortened,
)

_LATEST = FRAME_SAMPLES - FADE_SAMPLES
"""Every splice lies within its frame, so that the next frame goes on where it ends."""


class Splicer:
    """Makes frames out of somewhat more or fewer samples than a frame has."""

    def __init__(self, config: JitterConfig, level: SpeechLevel) -> None:
        self._config = config
        self._level = level
        self._pressing_frames = 0
        """In a row, in which more was to be cut than may wait for a quiet place."""

    def frame(self, samples: FloatSamples, correction: int) -> tuple[FloatSamples, int]:
        """A frame that begins with the first of `samples` (at least 1920), and how many of them it used.

        `correction` > 0 wants so many samples cut, < 0 so many added. Where there is no place for it nothing happens.
        """
        pressing = correction > self._config.voiced_above_ms * SAMPLES_PER_MS
        self._pressing_frames = self._pressing_frames + 1 if pressing else 0
        if correction < 0:
            return self._added(samples[:FRAME_SAMPLES], -correction)
        return self._cut(samples, correction)

    def _added(self, samples: FloatSamples, wanted: int) -> tuple[FloatSamples, int]:
        place = self._place(samples, min(wanted, self._quiet_step), wanted, self._config.voiced_add_ms)
        if place is None:
            return samples.copy(), FRAME_SAMPLES
        return lengthened(samples, place)[:FRAME_SAMPLES], FRAME_SAMPLES - place.length

    def _cut(self, samples: FloatSamples, wanted: int) -> tuple[FloatSamples, int]:
        """One cut, or two where much is wanted."""
        samples = samples[: FRAME_SAMPLES + min(wanted, self._quiet_step)]
        used = FRAME_SAMPLES
        for _ in range(2 if wanted > self._config.two_cuts_above_ms * SAMPLES_PER_MS else 1):
            spare = samples.size - FRAME_SAMPLES
            place = self._place(samples, spare, wanted, self._config.voiced_cut_ms) if spare > 0 else None
            if place is None:
                break
            samples = shortened(samples, place)
            used += place.length
        return samples[:FRAME_SAMPLES].copy(), used

    @property
    def _quiet_step(self) -> int:
        return int(self._config.quiet_step_ms * SAMPLES_PER_MS)

    @property
    def _similarity(self) -> float:
        """Noisy speech may have neither a quiet place nor a clear pitch for seconds: the demand falls meanwhile."""
        return self._config.similarity - self._config.similarity_fall_per_s * FRAME_S * self._pressing_frames

    def _place(self, samples: FloatSamples, most: int, wanted: int, voiced_ms: float) -> Place | None:
        place = quiet_place(samples, most, self._level.quiet, _LATEST)
        if place is None and wanted > self._config.voiced_above_ms * SAMPLES_PER_MS:
            most = min(most, int(voiced_ms * SAMPLES_PER_MS))
            place = pitch_place(samples, most, self._similarity, _LATEST)
        return place
