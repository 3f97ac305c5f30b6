from __future__ import annotations

from rtc_server.session.bargein import BargeInPolicy


def run(user: str, agent: str) -> list[int]:
    """Frames in which an interruption is recognised; `x` is sound, `.` is none."""
    policy = BargeInPolicy()
    return [k for k, (u, a) in enumerate(zip(user, agent, strict=True)) if policy.update(u == "x", a == "x")]


def test_speech_over_the_agent_counts_after_320_ms() -> None:
    assert run("...xxxxxxxx", "xxxxxxxxxxx") == [6]


def test_cough_is_no_interruption() -> None:
    assert run("...xx.....xxx..", "xxxxxxxxxxxxxxx") == []


def test_one_interruption_for_one_stretch_of_speech() -> None:
    assert run("xxxxxxxxxxxx", "xxxxxxxxxxxx") == [3]


def test_second_stretch_is_a_second_interruption() -> None:
    assert run("xxxxx..xxxxx", "xxxxxxxxxxxx") == [3, 10]


def test_speech_into_silence_is_none() -> None:
    assert run("......xxxxxxxx", "x.............") == []


def test_gap_between_the_agents_words_does_not_hide_an_interruption() -> None:
    assert run("...xxxxxx", "xx..xx..x") == [6]


def test_frames_before_the_detector_was_sure_count_too() -> None:
    policy = BargeInPolicy()
    policy.update(False, True)
    assert not policy.update(True, True, onset_frames=1)
    assert not policy.update(True, True)
    assert policy.update(True, True)
