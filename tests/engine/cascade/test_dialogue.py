from __future__ import annotations

import pytest

from rtc_server.engine.cascade import dialogue
from rtc_server.engine.cascade.skills.reply import Memory, Said
from rtc_server.engine.cascade.skills.tales import STORIES
from tests.engine.cascade.fakes import NOON

FRESH = Memory()


@pytest.mark.parametrize(
    ("text", "skill"),
    [
        ("Hello there. What is the weather like today?", "weather"),
        ("Hello, my name is Alex.", "name"),
        ("Can you set a timer for ten minutes?", "timer"),
        ("Tell me a long story about the sea.", "story"),
        ("Wait, stop. Please stop talking!", "stop"),
        ("Thank you, what time is it?", "time"),
        ("What's the date today?", "date"),
        ("What is twelve times twelve?", "sums"),
        ("Repeat after me, what time is it?", "repeat"),
        ("Please stop the timer.", "timer"),
        ("Count to five.", "count"),
        ("Do you know a joke?", "joke"),
        ("What can you do?", "help"),
        ("How are you today?", "how are you"),
        ("Can you hear me?", "hearing"),
        ("Goodbye!", "goodbye"),
        ("Thanks a lot.", "thanks"),
        ("Hey!", "greet"),
        ("Okay.", "acknowledge"),
        ("No, thank you.", "thanks"),
        ("Nope.", "acknowledge"),
        ("Please book a table for two people at seven.", "fallback"),
        ("Bonjour, ça va?", "fallback"),
        ("今何時ですか", "fallback"),
    ],
)
def test_the_right_skill_answers(text: str, skill: str) -> None:
    reply = dialogue.answer(text, FRESH, NOON)
    assert reply.skill == skill
    assert reply.sentences
    assert all(reply.sentences)


def test_the_fallback_says_what_it_understood_and_now_and_then_what_it_can_do() -> None:
    memory = FRESH
    replies = []
    for _ in range(4):
        reply = dialogue.answer("Please book a table for two people at seven.", memory, NOON)
        replies.append(reply.sentences)
        memory = reply.memory
    assert replies[0][0] == "I heard: Please book a table for two people at seven."
    assert [len(sentences) for sentences in replies] == [3, 2, 2, 3]


def test_a_long_utterance_is_quoted_shortly() -> None:
    first = dialogue.answer("word " * 60, FRESH, NOON).sentences[0]
    assert len(first.split()) == 2 + 12 + 3


def test_answering_changes_nothing_and_is_repeatable() -> None:
    once = dialogue.answer("Set a timer for one minute.", FRESH, NOON)
    assert dialogue.answer("Set a timer for one minute.", FRESH, NOON) == once
    assert Memory() == FRESH


def test_a_timer_without_a_length_asks_and_takes_the_next_answer() -> None:
    asked = dialogue.answer("Can you set a timer?", FRESH, NOON)
    assert "For how long?" in asked.sentences[0]
    answered = dialogue.answer("Twenty seconds.", asked.memory, NOON)
    assert answered.skill == "timer"
    assert len(answered.memory.timers) == 1
    changed_mind = dialogue.answer("Tell me a joke.", asked.memory, NOON)
    assert changed_mind.skill == "joke"
    assert not changed_mind.memory.asked_length


def test_the_seed_picks_stories_and_jokes_and_they_do_not_repeat_at_once() -> None:
    def told(seed: int) -> list[str]:
        memory = dialogue.first_memory(None, seed)
        firsts = []
        for _ in STORIES:
            reply = dialogue.answer("Tell me a story.", memory, NOON)
            firsts.append(reply.sentences[0])
            memory = reply.memory
        return firsts

    assert len(set(told(0))) == len(STORIES)
    assert told(0) == told(0)
    assert told(0) != told(1)


def test_every_story_is_long_enough_to_interrupt() -> None:
    """150 words a minute are usual: 60 words last more than 20 s."""
    assert all(len(" ".join(story).split()) > 60 for story in STORIES.values())


@pytest.mark.parametrize(
    ("persona", "name"),
    [
        ("Your name is Ada. You like the sea.", "Ada"),
        ("You are Robin, a kind teacher.", "Robin"),
        ("You are a wise and friendly teacher.", None),
        ("You enjoy having a good conversation.", None),
        ("your name is " + "X" * 4000, None),
        ("Your name is " + "Xy" * 2000, ("Xy" * 2000)[:24]),
        ("", None),
        (None, None),
    ],
)
def test_the_agents_name_is_taken_from_the_persona(persona: str | None, name: str | None) -> None:
    assert dialogue.first_memory(persona, None).agent_name == name


def test_plain_words_keep_numbers_and_signs_apart_from_punctuation() -> None:
    assert Said.of("It's twenty-one, isn't it? 1,200 + 3.5 × 2!").plain == "it's twenty one isn't it 1200 + 3.5 * 2"
