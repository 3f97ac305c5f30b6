from __future__ import annotations

import pytest

from rtc_server.engine.cascade.skills.names import names
from rtc_server.engine.cascade.skills.reply import Memory, Said
from tests.engine.cascade.fakes import NOON


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hello, my name is Alex.", "Alex"),
        ("My name's O'Brien", "O'brien"),
        ("You can call me sam.", "Sam"),
        ("Hi, I'm Maria.", "Maria"),
        ("I am Noah", "Noah"),
    ],
)
def test_a_name_is_learnt_and_remembered(text: str, name: str) -> None:
    told = names(Said.of(text), Memory(), NOON)
    assert told is not None
    assert told.sentences[0] == f"Nice to meet you, {name}."
    asked = names(Said.of("Do you remember my name?"), told.memory, NOON)
    assert asked is not None
    assert asked.sentences == (f"Your name is {name}.",)


@pytest.mark.parametrize("text", ["I'm fine.", "I am not sure about that", "Call me back later.", "I'm hungry"])
def test_other_things_people_are_do_not_become_their_names(text: str) -> None:
    assert names(Said.of(text), Memory(), NOON) is None


def test_asked_who_it_is_the_agent_is_honest() -> None:
    reply = names(Said.of("Are you a real person?"), Memory(), NOON)
    assert reply is not None
    assert "small program" in " ".join(reply.sentences)
