from __future__ import annotations

import numpy as np
import pytest

from rtc_server.engine.cascade.ear import EarshotEar

pytest.importorskip("earshot")


def hear(pcm: np.ndarray) -> list[float]:
    ear = EarshotEar()
    return [p for frame in pcm.reshape(-1, 1920).astype(np.float32) for p in ear.hear(frame).voice]


def test_a_frame_becomes_five_blocks_at_16_khz_with_their_levels() -> None:
    frame = np.sin(2 * np.pi * 440 * np.arange(1920) / 24_000).astype(np.float32)
    ear = EarshotEar()
    ear.hear(frame)
    heard = ear.hear(frame)
    assert heard.pcm.shape == (1280,)
    assert len(heard.voice) == 5
    assert heard.rms == pytest.approx([0.707] * 5, abs=0.02)


def test_silence_noise_clicks_and_coughs_are_no_voice() -> None:
    rng = np.random.default_rng(3)
    click = np.zeros(1920 * 10)
    click[9600] = 1.0
    cough = rng.normal(0, 0.001, 19_200)
    cough[6000:9600] += 0.3 * rng.standard_normal(3600) * np.exp(-np.arange(3600) / 1800)
    for sound in (np.zeros(19_200), rng.normal(0, 0.1, 19_200), click, cough):
        assert max(hear(sound)) < 0.65


def test_what_nobody_can_hear_is_no_voice_whatever_its_shape() -> None:
    assert max(hear(1e-5 * np.random.default_rng(0).standard_normal(19_200))) == 0


def test_reset_forgets() -> None:
    frames = np.random.default_rng(1).normal(0, 0.1, (10, 1920)).astype(np.float32)
    ear = EarshotEar()
    first = [ear.hear(frame).voice for frame in frames]
    ear.reset()
    assert [ear.hear(frame).voice for frame in frames] == first
