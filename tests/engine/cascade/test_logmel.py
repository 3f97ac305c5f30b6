from __future__ import annotations

import numpy as np
import pytest

from rtc_server.engine.cascade.logmel import log_mel


def test_shape_follows_the_frames_asked_for_whatever_the_length() -> None:
    for samples in (0, 100, 16_000, 80_000):
        assert log_mel(np.zeros(samples, np.float32), 300).shape == (80, 300)
    assert log_mel(np.zeros(16_000, np.float32), 100, bands=128).shape == (128, 100)


def test_silence_is_flat_and_the_loudest_80_db_are_kept() -> None:
    silence = log_mel(np.zeros(16_000, np.float32), 100)
    assert np.ptp(silence) == 0
    pcm = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    pcm[8000:] = 0
    assert np.ptp(log_mel(pcm, 100)) == pytest.approx(8.0 / 4.0)


@pytest.mark.parametrize(("tone_hz", "band"), [(200, 5), (1000, 27), (4000, 61)])
def test_a_tone_shows_in_its_band(tone_hz: float, band: int) -> None:
    """Slaney's scale: linear to 1 kHz, then logarithmic; 80 bands reach to 8 kHz."""
    pcm = np.sin(2 * np.pi * tone_hz * np.arange(16_000) / 16_000).astype(np.float32)
    assert abs(int(log_mel(pcm, 100)[:, 50].argmax()) - band) <= 1


def test_a_sound_shows_in_its_frames() -> None:
    pcm = np.zeros(16_000, np.float32)
    pcm[8000:8160] = np.random.default_rng(0).normal(0, 0.1, 160)
    assert 48 <= int(log_mel(pcm, 100).sum(axis=0).argmax()) <= 52
