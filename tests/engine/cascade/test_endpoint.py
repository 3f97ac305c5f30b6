from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rtc_server.engine.cascade.ear import EAR_FRAME_SAMPLES, HeardFrame
from rtc_server.engine.cascade.endpoint import Dismissed, Ended, Endpointer, EndpointEvent, Paused, Resumed, Started


def feed(endpointer: Endpointer, pattern: str, *, agent_speaks: bool = False) -> list[EndpointEvent]:
    """One block per character: # is voice, . is silence, ? lies between the thresholds with and without the agent."""
    pattern += "." * (-len(pattern) % 5)
    probabilities = [{"#": 0.9, ".": 0.1, "?": 0.55}[block] for block in pattern]
    events: list[EndpointEvent] = []
    for start in range(0, len(probabilities), 5):
        voice = tuple(probabilities[start : start + 5])
        heard = HeardFrame(np.full(EAR_FRAME_SAMPLES, start // 5, np.float32), voice, (0.1,) * 5)
        events += endpointer.feed(heard, agent_speaks=agent_speaks)
    return events


def kinds(events: Iterable[EndpointEvent]) -> list[type[EndpointEvent]]:
    return [type(event) for event in events]


def test_an_utterance_starts_pauses_and_ends() -> None:
    events = feed(Endpointer(), "." * 12 + "#" * 20 + "." * 30)
    assert kinds(events) == [Started, Paused, Ended]
    assert events[0] == Started(2)
    assert isinstance(events[2], Ended)
    assert events[2].frame == 6


def test_the_audio_begins_before_the_voice_was_noticed_and_includes_the_silence_after_it() -> None:
    events = feed(Endpointer(), "." * 50 + "#" * 20 + "." * 30)
    ended = events[-1]
    assert isinstance(ended, Ended)
    frames = ended.pcm.reshape(-1, EAR_FRAME_SAMPLES)[:, 0]
    assert frames.tolist() == list(range(7, 20))


def test_it_ends_after_480_ms_of_silence_and_not_before() -> None:
    endpointer = Endpointer()
    feed(endpointer, "#" * 20)
    assert Ended not in kinds(feed(endpointer, "." * 25))
    assert endpointer.speaking
    assert Ended in kinds(feed(endpointer, "." * 5))
    assert not endpointer.speaking


def test_a_pause_of_less_than_480_ms_resumes() -> None:
    events = feed(Endpointer(), "#" * 20 + "." * 25 + "#" * 20 + "." * 30)
    assert kinds(events) == [Started, Paused, Resumed, Paused, Ended]


def test_a_single_block_of_noise_in_a_pause_does_not_resume() -> None:
    assert kinds(feed(Endpointer(), "#" * 20 + "." * 20 + "#" + "." * 14)) == [Started, Paused, Ended]


def test_clicks_never_start_anything() -> None:
    assert feed(Endpointer(), "####.###..####." * 20) == []


def test_a_short_noise_starts_and_is_dismissed() -> None:
    assert kinds(feed(Endpointer(), "#" * 8 + "." * 30)) == [Started, Dismissed]


def test_the_threshold_is_higher_while_the_agent_speaks() -> None:
    assert kinds(feed(Endpointer(), "?" * 30)) == [Started]
    assert feed(Endpointer(), "?" * 30, agent_speaks=True) == []


def test_speech_without_end_is_cut_at_20_s_and_goes_on_as_another_utterance() -> None:
    events = feed(Endpointer(), "#" * 5 * 520 + "." * 30)
    assert kinds(events) == [Started, Ended, Started, Ended, Started, Paused, Ended]
    assert max(len(event.pcm) for event in events if isinstance(event, Ended)) <= 20 * 16_000
