from __future__ import annotations

import numpy as np

from rtc_server.engine.conformance import check_stepper
from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt


def test_echo_keeps_the_contract() -> None:
    assert len(check_stepper(lambda slots: EchoStepper(slots, EngineOptions(slots=slots)))) == 9


def test_echo_returns_the_frame_it_was_given_in_the_same_step() -> None:
    stepper = EchoStepper(2, EngineOptions(slots=2))
    stepper.open(1, SessionPrompt(persona="ignored", seed=1))
    assert stepper.prefill(1, 0.0) is True
    pcm = np.random.default_rng(1).uniform(-1, 1, (2, FRAME_SAMPLES)).astype(np.float32)
    output = stepper.step(pcm, np.array([False, True]))
    np.testing.assert_array_equal(output.pcm[1], pcm[1])
    assert not output.pcm[0].any()
    assert output.text == [None, None] and output.failed == frozenset()


def test_echo_says_that_it_hears_interruptions_so_that_nothing_is_dropped() -> None:
    spec = EchoStepper(1, EngineOptions()).spec
    assert spec.hears_interruptions
    assert "text" not in spec.capabilities.output and not spec.capabilities.proactive
