from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.cascade.ear import BLOCKS_PER_FRAME, EAR_FRAME_SAMPLES, HeardFrame
from rtc_server.engine.cascade.interruption import INTERRUPTING_BLOCKS, InterruptionDetector

PCM = np.zeros(EAR_FRAME_SAMPLES, np.float32)


def frames(pattern: str) -> list[HeardFrame]:
    """One block per character: # loud voice, - what the detector still takes for voice after the sound, . silence."""
    pattern += "." * (-len(pattern) % BLOCKS_PER_FRAME)
    made = []
    for start in range(0, len(pattern), BLOCKS_PER_FRAME):
        blocks = pattern[start : start + BLOCKS_PER_FRAME]
        voice = tuple(0.1 if block == "." else 0.9 for block in blocks)
        made.append(HeardFrame(PCM, voice, tuple({"#": 0.1, "-": 0.001, ".": 0.0005}[block] for block in blocks)))
    return made


def interrupted_after(pattern: str, detector: InterruptionDetector | None = None) -> int | None:
    """Number of frames up to the one that interrupts."""
    detector = detector or InterruptionDetector()
    for n, heard in enumerate(frames(pattern), 1):
        if detector.feed(heard, agent_speaks=True):
            return n
    return None


def test_192_ms_of_speech_interrupt_at_the_end_of_their_frame() -> None:
    assert interrupted_after("....." + "#" * 15) == 4


@given(st.integers(0, 4), st.integers(0, 40))
def test_speech_that_sets_in_anywhere_interrupts_within_four_frames(offset: int, quiet_frames: int) -> None:
    lead = "." * (5 * quiet_frames + 5 + offset)
    found = interrupted_after(lead + "#" * 40)
    assert found is not None
    assert found - len(lead) // 5 <= 4


def test_short_sounds_do_not_interrupt_even_with_the_detectors_hangover() -> None:
    assert interrupted_after("....." + "#" * (INTERRUPTING_BLOCKS - 1) + "-" * 8 + "." * 20) is None


def test_words_with_gaps_add_up_and_scattered_noises_do_not() -> None:
    assert interrupted_after("....." + "#" * 9 + "..." + "#" * 9) is not None
    assert interrupted_after("....." + "###..." * 30) is None


def test_speech_that_went_on_before_the_agent_began_is_no_interruption() -> None:
    detector = InterruptionDetector()
    for heard in frames("#" * 20):
        assert not detector.feed(heard, agent_speaks=False)
    assert interrupted_after("#" * 100, detector) is None
    assert interrupted_after("....." + "#" * 20, detector) is not None


def test_it_never_interrupts_an_agent_that_is_silent() -> None:
    detector = InterruptionDetector()
    assert not any(detector.feed(heard, agent_speaks=False) for heard in frames("....." + "#" * 100))
