from __future__ import annotations

import numpy as np
import pytest

from rtc_server.engine.cascade.mouth import FADE_SAMPLES
from rtc_server.engine.cascade.worker import Recognise, Recognised
from tests.engine.cascade.fakes import Rig, speech


def after_greeting(**options: object) -> Rig:
    rig = Rig(**options)  # type: ignore[arg-type]
    rig.listen_until_quiet()
    return rig


def in_a_story(**options: object) -> Rig:
    """A rig whose agent has just begun the second sentence of a story."""
    rig = after_greeting(**options)
    rig.user_says("Tell me a story about the sea.")
    rig.silence(6.0)
    assert rig.levels[-1] > 0
    return rig


# ---- greeting --------------------------------------------------------------------------------------------------------


def test_the_agent_greets_first_and_at_once() -> None:
    rig = Rig()
    assert rig.conversation.ready is False
    rig.silence(0.48)
    assert rig.conversation.ready
    assert rig.levels[-1] > 0
    rig.listen_until_quiet()
    assert rig.text == "Hi, I'm the demo voice. Ask me the time, tell me your name, or interrupt me."


def test_the_persona_names_the_agent() -> None:
    rig = Rig("Your name is Ada. You like the sea.")
    assert rig.listen_until_quiet().startswith("Hi, I'm Ada.")
    rig.user_says("Who are you?")
    assert "I am Ada, the demo voice" in rig.listen_until_quiet()


def test_the_greeting_waits_for_a_user_who_speaks_first() -> None:
    rig = Rig()
    assert rig.user_says("Hello?", frames=20) == ""
    assert rig.listen_until_quiet() == "Hello! What would you like to do?"


def test_the_agent_waits_at_most_five_seconds_for_noise_that_never_ends() -> None:
    rig = Rig()
    rig.user_says("", frames=60)
    assert rig.text == ""
    rig.user_says("", frames=40)
    assert rig.text.startswith("Hi,")


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_the_reply_starts_within_0_9_s_of_the_last_word_although_models_take_two_frames() -> None:
    rig = after_greeting(latency=2)
    rig.user_says("What time is it?")
    ended = rig.frame
    rig.listen_until_quiet()
    first = next(i for i in range(ended, rig.frame) if rig.levels[i] > 0)
    assert 6 <= first - ended <= 11
    assert rig.text.endswith("It is 12:05 PM.")


def test_recognition_starts_in_the_pause_and_the_reply_is_ready_at_its_end() -> None:
    rig = after_greeting()
    rig.user_says("What time is it?")
    ended = rig.frame
    rig.silence(0.32)
    assert any(isinstance(job, Recognise) for job in rig.jobs)
    assert [(h.text, h.final) for h in rig.heard] == [("What time is it?", False)]
    rig.silence(0.24)
    assert rig.levels[-1] > 0
    assert rig.final == ["What time is it?"]
    assert rig.frame - ended <= 7


def test_a_speculation_is_dropped_when_speech_resumes() -> None:
    rig = after_greeting()
    rig.user_says("My name is Alex.")
    rig.silence(0.32)
    rig.user_says("My name is Alex. What time is it?")
    rig.silence(0.32)
    assert rig.text.endswith("interrupt me.")
    rig.listen_until_quiet()
    assert rig.final == ["My name is Alex. What time is it?"]
    assert rig.text.endswith("interrupt me. It is 12:05 PM.")
    rig.user_says("What is my name?")
    assert "do not know your name" in rig.listen_until_quiet()


def test_words_are_reported_with_the_frames_in_which_they_were_said() -> None:
    rig = after_greeting()
    start = rig.frame
    rig.user_says("Thank you.", frames=10)
    rig.listen_until_quiet()
    final = [heard for heard in rig.heard if heard.final]
    assert [(h.start_frame, h.end_frame) for h in final] == [(start, start + 9)]


def test_speech_that_goes_on_before_it_was_recognised_stays_one_utterance() -> None:
    rig = after_greeting(latency=12)
    start = rig.frame
    rig.user_says("Set a timer", frames=10)
    rig.silence(0.56)
    rig.user_says("for ten seconds.", frames=10)
    rig._current_text = "Set a timer for ten seconds."
    rig.silence(2.4)
    longest = [job for job in rig.jobs if isinstance(job, Recognise)][-1]
    assert len(longest.pcm) > 20 * 1280
    assert rig.heard[-1].start_frame == start
    assert rig.final == ["Set a timer for ten seconds."]


def test_silence_and_noise_without_words_are_answered_with_nothing() -> None:
    rig = after_greeting()
    rig.silence(5)
    rig.user_says("", frames=15)
    rig.silence(5)
    assert rig.heard == []
    assert rig.text.endswith("interrupt me.")


def test_an_endless_voice_is_cut_into_utterances_of_20_s() -> None:
    rig = after_greeting()
    rig.user_says("blah", frames=600)
    lengths = [len(job.pcm) / 16_000 for job in rig.jobs if isinstance(job, Recognise)]
    assert len(lengths) == 2
    assert max(lengths) <= 20.0


def test_without_a_recogniser_the_agent_says_so_and_tells_stories() -> None:
    rig = Rig(understands=False)
    assert "I do not understand words" in rig.listen_until_quiet()
    rig.user_says("What time is it?", frames=25)
    assert rig.listen_until_quiet().startswith(" I heard you speak for 2 seconds, but I cannot understand words. Once")
    assert rig.heard == []
    assert not any(isinstance(job, Recognise) for job in rig.jobs)


# ---- interruptions ---------------------------------------------------------------------------------------------------


def test_speech_over_the_agent_stops_it_within_four_frames_with_a_20_ms_fade() -> None:
    rig = in_a_story()
    onset = rig.frame
    rig.user_says("Stop, please.", frames=10)
    silent = next(i for i in range(onset, rig.frame) if rig.levels[i] == 0)
    assert silent - onset <= 4
    fading = rig.sounds[silent - 1]
    assert np.all(np.diff(fading[:FADE_SAMPLES]) <= 0)
    assert fading[0] == 0.5
    assert not fading[FADE_SAMPLES:].any()
    assert max(rig.levels[silent:]) == 0
    assert rig.listen_until_quiet() == " Okay, I stopped."
    assert rig.final == ["Tell me a story about the sea.", "Stop, please."]


def test_words_that_an_interruption_swallowed_never_appear() -> None:
    rig = in_a_story()
    said = rig.text
    rig.user_says("What time is it?", frames=10)
    rig.listen_until_quiet()
    assert rig.text.startswith(said)
    assert rig.text.endswith(" It is 12:05 PM.")
    assert "kettle" not in rig.text


@pytest.mark.parametrize("blocks", [[1], [5, 4], [2, 0, 2, 0, 2]])
def test_clicks_and_coughs_do_not_stop_the_agent(blocks: list[int]) -> None:
    rig = in_a_story()
    for voiced in blocks:
        rig.play(speech(voiced))
    rig.silence(3)
    assert min(rig.levels[-40:]) > 0
    assert rig.final == ["Tell me a story about the sea."]


def test_a_listeners_mm_hmm_does_not_stop_a_story() -> None:
    rig = in_a_story()
    rig.play(speech())
    rig.user_says("Mm-hmm.", frames=1)
    rig.play(speech(1))
    rig.silence(3)
    assert min(rig.levels[-40:]) > 0
    assert rig.final == ["Tell me a story about the sea."]


def test_a_short_stop_is_obeyed_although_it_was_too_short_to_interrupt() -> None:
    rig = in_a_story()
    rig.play(speech())
    rig.user_says("Stop.", frames=1)
    rig.play(speech(1))
    assert rig.silence(4).endswith(" Okay, I stopped.")
    assert rig.levels[-1] == 0


def test_the_agents_own_echo_is_no_answer_and_the_story_goes_on() -> None:
    rig = in_a_story()
    own = " ".join(rig.text.split()[-5:])
    rig.user_says(own, frames=8)
    assert rig.levels[-1] == 0
    rest = rig.listen_until_quiet()
    assert rig.final == ["Tell me a story about the sea."]
    assert rest.endswith("the sea asked for another story.")


def test_the_same_words_said_in_silence_are_no_echo() -> None:
    rig = after_greeting()
    rig.user_says("Tell me your name.")
    rig.listen_until_quiet()
    assert rig.final == ["Tell me your name."]
    assert "demo voice of this server" in rig.text


def test_a_noise_that_stopped_the_agent_is_forgiven_once() -> None:
    rig = in_a_story()
    rig.user_says("", frames=8)
    assert rig.levels[-1] == 0
    rig.silence(2)
    assert rig.levels[-1] > 0
    rig.user_says("", frames=8)
    rig.silence(4)
    assert rig.levels[-1] == 0


# ---- the agent's own initiative --------------------------------------------------------------------------------------


def test_a_timer_speaks_up_by_itself() -> None:
    rig = after_greeting()
    rig.user_says("Set a timer for ten seconds.")
    rig.silence(9)
    assert rig.text.endswith("Okay, I will tell you in 10 seconds.")
    assert rig.silence(6) == " Ding! Your timer of 10 seconds is done."


def test_a_timer_speaks_up_between_two_sentences_of_a_story() -> None:
    rig = after_greeting()
    rig.user_says("Set a timer for ten seconds.")
    rig.silence(1)
    rig.listen_until_quiet()
    rig.user_says("Tell me a story about the sea.")
    story = rig.listen_until_quiet()
    before, _, after = story.partition(" Ding! Your timer of 10 seconds is done.")
    assert before.endswith(".")
    assert after.endswith("the sea asked for another story.")


def test_a_timer_that_falls_due_while_the_user_speaks_waits_for_the_reply() -> None:
    rig = after_greeting()
    rig.user_says("Set a timer for five seconds.")
    rig.listen_until_quiet()
    rig.user_says("What time is it?", frames=60)
    assert rig.listen_until_quiet() == " It is 12:05 PM. Ding! Your timer of 5 seconds is done."


# ---- results ---------------------------------------------------------------------------------------------------------


def test_results_that_nobody_asked_for_are_ignored() -> None:
    rig = after_greeting()
    rig.conversation.deliver(Recognised(99, "What time is it?"))
    rig.silence(3)
    assert rig.heard == []


def test_a_voice_that_fails_leaves_out_the_words_and_the_conversation_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.engine.cascade.fakes.fake_speech", lambda sentence: np.zeros(0, np.float32))
    rig = Rig()
    rig.silence(3)
    rig.user_says("What time is it?")
    rig.silence(3)
    assert rig.text == ""
    assert rig.final == ["What time is it?"]


def test_models_that_never_answer_do_not_make_it_grow() -> None:
    rig = Rig()
    rig.lost_results = True
    for _ in range(20):
        rig.user_says("Hello", frames=8)
        rig.silence(1)
    assert len(rig.conversation._script) <= 3
    assert len(rig.conversation._turn.pcm) <= 20 * 16_000  # type: ignore[union-attr]
