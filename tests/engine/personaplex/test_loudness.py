from __future__ import annotations

import numpy as np
import pyloudnorm
import pytest

from rtc_server.engine.personaplex.loudness import TARGET_LUFS, normalised
from rtc_server.engine.personaplex.voicefiles import VoiceUnusable

from .wavs import speech


@pytest.mark.parametrize("level", [0.003, 0.1, 0.8])
def test_every_voice_gets_the_same_loudness(level: float) -> None:
    got = normalised(speech(3.0, level=level))
    assert got.dtype == np.float32
    assert pyloudnorm.Meter(24_000).integrated_loudness(got.astype(np.float64)) == pytest.approx(TARGET_LUFS, abs=0.01)


def test_only_the_gain_changes() -> None:
    pcm = speech(1.0)
    got = normalised(pcm)
    gain = got[1_000] / pcm[1_000]
    assert np.allclose(got, gain * pcm, atol=1e-6)


def test_peaks_are_not_cut() -> None:
    pcm = speech(2.0, level=0.01)
    pcm[24_000] = 1.0
    assert normalised(pcm).max() > 1.5


@pytest.mark.parametrize("level", [0.0, 1e-6])
def test_silence_has_no_loudness_to_correct(level: float) -> None:
    with pytest.raises(VoiceUnusable, match="silent"):
        normalised(speech(1.0, level=level))
