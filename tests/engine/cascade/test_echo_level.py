from __future__ import annotations

import numpy as np

from rtc_server.engine.cascade.ear import EAR_FRAME_SAMPLES, HeardFrame
from rtc_server.engine.cascade.echo_level import EchoLevel

PCM = np.zeros(EAR_FRAME_SAMPLES, np.float32)
AGENT = np.full(1920, 0.2, np.float32)
SILENCE = np.zeros(1920, np.float32)


def heard(level: float) -> HeardFrame:
    return HeardFrame(PCM, (0.9,) * 5, (level,) * 5)


def audible(echo: EchoLevel, level: float, agent: np.ndarray = AGENT) -> bool:
    voice = echo.filter(heard(level)).voice
    echo.played(agent)
    assert len(set(voice)) == 1
    return voice[0] > 0


def caught(level: float) -> EchoLevel:
    echo = EchoLevel()
    for _ in range(10):
        assert audible(echo, level)
    echo.caught()
    return echo


def test_nothing_is_masked_before_an_echo_was_caught() -> None:
    echo = EchoLevel()
    assert all(audible(echo, level) for level in (0.001, 0.02, 0.2))


def test_a_caught_echo_is_masked_and_a_user_who_is_twice_as_loud_is_not() -> None:
    echo = caught(0.02)
    assert not audible(echo, 0.02)
    assert not audible(echo, 0.035)
    assert audible(echo, 0.05)


def test_the_mask_follows_the_agents_level_and_is_gone_a_second_after_its_last_sound() -> None:
    echo = caught(0.02)
    for _ in range(12):
        audible(echo, 0.0, AGENT / 10)
    assert not audible(echo, 0.02, AGENT / 10)
    assert audible(echo, 0.02, AGENT / 10)
    for _ in range(13):
        audible(echo, 0.0, SILENCE)
    assert audible(echo, 0.001, SILENCE)


def test_what_was_learnt_fades() -> None:
    echo = caught(0.02)
    masked = [not audible(echo, 0.03) for _ in range(800)]
    assert masked[0]
    assert not masked[-1]


def test_catching_without_anything_played_learns_nothing() -> None:
    echo = EchoLevel()
    echo.filter(heard(0.1))
    echo.caught()
    assert echo.coupling == 0.0
