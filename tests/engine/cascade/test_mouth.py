from __future__ import annotations

import numpy as np

from rtc_server.engine.cascade.mouth import FADE_SAMPLES, Mouth, time_words
from rtc_server.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE


def sound(frames: float, level: float = 0.5) -> np.ndarray:
    return np.full(int(frames * FRAME_SAMPLES), level, np.float32)


def take(mouth: Mouth) -> tuple[np.ndarray, list[str]]:
    out = np.full(FRAME_SAMPLES, np.nan, np.float32)
    words = mouth.take(out)
    return out, words


def test_words_come_in_the_frame_in_which_they_begin() -> None:
    mouth = Mouth()
    mouth.say("Longest second third", sound(3))
    assert [take(mouth)[1] for _ in range(4)] == [["Longest"], [" second"], [" third"], []]


def test_sentences_follow_one_another_without_a_gap_and_read_well_together() -> None:
    mouth = Mouth()
    mouth.say("Hi there.", sound(1.5, 0.3))
    mouth.say("Bye.", sound(1.5, 0.6))
    pcm, words = zip(*(take(mouth) for _ in range(4)), strict=True)
    assert "".join(sum(words, [])) == "Hi there. Bye."
    joined = np.concatenate(pcm)
    assert np.all(joined[: FRAME_SAMPLES * 3 // 2] == np.float32(0.3))
    assert np.all(joined[FRAME_SAMPLES * 3 // 2 : 3 * FRAME_SAMPLES] == np.float32(0.6))
    assert not joined[3 * FRAME_SAMPLES :].any()
    assert not mouth.active


def test_a_cut_fades_within_20_ms_and_says_what_was_not_finished() -> None:
    mouth = Mouth()
    for sentence in ("First one.", "Second one.", "Third one."):
        mouth.say(sentence, sound(2))
    take(mouth), take(mouth), take(mouth)
    assert mouth.waiting == ["Third one."]
    assert mouth.cut() == ["Second one.", "Third one."]
    out, words = take(mouth)
    assert words == []
    assert out[0] == 0.5
    assert np.all(np.diff(out[:FADE_SAMPLES]) < 0)
    assert not out[FADE_SAMPLES:].any()
    assert not take(mouth)[0].any()
    assert not mouth.active


def test_a_silent_mouth_gives_silence_and_can_be_cut() -> None:
    mouth = Mouth()
    assert mouth.cut() == []
    out, words = take(mouth)
    assert not out.any()
    assert words == []


def test_a_sentence_without_a_sound_is_not_said() -> None:
    mouth = Mouth()
    mouth.say("Nothing.", np.zeros(0, np.float32))
    assert not mouth.active
    assert take(mouth)[1] == []


def test_ahead_is_what_is_left_in_seconds() -> None:
    mouth = Mouth()
    mouth.say("Some words.", sound(10))
    take(mouth)
    assert mouth.ahead_s == 9 * FRAME_SAMPLES / SAMPLE_RATE


def test_words_take_time_by_their_syllables_and_letters() -> None:
    words = time_words("a banana, bb", np.full(24_000, 0.5, np.float32))
    assert [word.text for word in words] == ["a", "banana,", "bb"]
    assert [word.start_sample for word in words] == [0, 24_000 * 3 // 19, 24_000 * 15 // 19]
    assert time_words("", np.zeros(1000, np.float32)) == []


def test_a_word_after_a_comma_starts_when_the_voice_goes_on() -> None:
    pause, speech = np.zeros(4800, np.float32), np.full(9600, 0.5, np.float32)
    words = time_words("One two, three four.", np.concatenate([speech, pause, speech, pause]))
    assert [word.start_sample for word in words] == [0, 5600, 14_400, 14_400 + 9600 * 7 // 13]
    without_comma = time_words("One two three four.", np.concatenate([speech, pause, speech, pause]))
    assert [word.start_sample for word in without_comma][2] != 14_400
