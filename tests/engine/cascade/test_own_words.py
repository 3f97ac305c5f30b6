from __future__ import annotations

import pytest

from rtc_server.engine.cascade.own_words import OwnWords

SENTENCE = "The sea was calm and silver, and the sailor sang to the gulls."


@pytest.fixture
def own_words() -> OwnWords:
    own = OwnWords()
    for n, word in enumerate(SENTENCE.split()):
        own.said([f" {word}"], 100 + 4 * n)
    return own


@pytest.mark.parametrize(
    "text", ["The sea was calm and silver.", "see was calm and silver and the sailor", "the sailor sang to the GULLS!"]
)
def test_what_the_agent_just_said_is_an_echo(own_words: OwnWords, text: str) -> None:
    assert own_words.is_echo(text, 110, 150)


@pytest.mark.parametrize("text", ["Stop please.", "What is the time?", "The weather today?", "Hm.", ""])
def test_other_words_are_none(own_words: OwnWords, text: str) -> None:
    assert not own_words.is_echo(text, 110, 140)


def test_words_said_long_before_or_after_the_utterance_are_no_echo(own_words: OwnWords) -> None:
    assert not own_words.is_echo(SENTENCE, 400, 440)
    assert not own_words.is_echo(SENTENCE, 40, 80)


def test_it_remembers_only_so_much() -> None:
    own = OwnWords()
    for n in range(10_000):
        own.said([f"word{n}"], n)
    assert len(own._said) == 400
