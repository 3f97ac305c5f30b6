"""Names: the user's, which is remembered, and the agent's, which the persona may give."""

from __future__ import annotations

import dataclasses
import re
from datetime import datetime

from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said

_MAX_NAME = 24
_TELLS = re.compile(r"\b(?:my name is|my name's|call me|people call me)\s+([a-z][a-z']*)", re.IGNORECASE)
_TELLS_SHORT = re.compile(r"^(?i:hi|hello|hey)?[\s,.!]*(?:there)?[\s,.!]*(?i:i am|i'm|this is)\s+([A-Z][a-z]+)[.!]?$")
_ASKS_MINE = r"what's my name|what is my name|who am i|do you (?:know|remember) (?:my name|me|who i am)|say my name"
_ASKS_YOURS = r"your name|who are you|what are you|who is this|are you (?:a )?(?:human|real|person|robot|personaplex)"
_PERSONA_NAME = re.compile(
    r"(?:[Yy]our name is|[Yy]our name's|[Yy]ou are called|[Yy]ou're called|[Cc]all yourself|[Yy]ou are|[Yy]ou're"
    r"|[Mm]y name is)\s+([A-Z][a-z][A-Za-z'-]*)"
)
_NO_NAME_WORDS = "a an the in not so very here fine good sorry late back anything you maybe what it"
_NOT_NAMES = frozenset(_NO_NAME_WORDS.split())


def names(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if said.has(_ASKS_MINE):
        known = f"Your name is {memory.user_name}." if memory.user_name else "I do not know your name yet. Tell me."
        return Reply("name", (known,), memory)
    if said.has(_ASKS_YOURS):
        return Reply("name", introduction(memory), memory)
    text = said.text.replace("’", "'")
    told = _TELLS.search(text) or _TELLS_SHORT.search(text)
    if told is None or told[1].lower() in _NOT_NAMES:
        return None
    name = told[1][:_MAX_NAME].capitalize()
    again = "Good to hear from you again" if memory.user_name == name else "Nice to meet you"
    return Reply("name", (f"{again}, {name}.", "What can I do for you?"), dataclasses.replace(memory, user_name=name))


def introduction(memory: Memory) -> tuple[str, ...]:
    name = f"I am {memory.agent_name}, the" if memory.agent_name else "I am the"
    return (f"{name} demo voice of this server.", "I am a small program, not a large model.")


def name_in_persona(persona: str | None) -> str | None:
    """The agent's name in a persona such as "Your name is Ada. You like the sea."; None where there is none."""
    for found in _PERSONA_NAME.finditer(persona or ""):
        if found[1].lower() not in _NOT_NAMES:
            return found[1][:_MAX_NAME]
    return None
