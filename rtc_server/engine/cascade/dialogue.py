"""What the agent answers. Pure: the same words, memory and clock give the same reply, and nothing is changed.

So a reply can be prepared while the user may still go on, and thrown away without a trace.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta

from rtc_server.engine.cascade.skills import clock, echoing, manners, names, sums, tales, timers
from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said, Skill
from rtc_server.engine.stepper import FRAME_S

SKILLS: tuple[Skill, ...] = (
    echoing.repeat,
    timers.timers,
    tales.story,
    tales.joke,
    sums.sums,
    clock.time_of_day,
    clock.date,
    echoing.count,
    names.names,
    manners.help_,
    manners.weather,
    manners.how_are_you,
    manners.hearing,
    manners.stop,
    manners.goodbye,
    manners.thanks,
    manners.greet,
    manners.acknowledge,
)
"""The first one that feels addressed answers; so the narrow ones come before the wide ones."""


def first_memory(persona: str | None, seed: int | None) -> Memory:
    """What a conversation starts with: the agent's name out of the persona, and the seed that picks tales."""
    return Memory(agent_name=names.name_in_persona(persona), seed=seed or 0)


def greeting(memory: Memory, *, understands: bool) -> tuple[str, ...]:
    """What the agent says before anybody else has."""
    name = memory.agent_name or "the demo voice"
    if understands:
        return (f"Hi, I'm {name}.", "Ask me the time, tell me your name, or interrupt me.")
    return (
        f"Hi, I'm {name}.",
        "My speech recogniser is missing, so I hear that you speak, but I do not understand words.",
        "Say anything, and I will tell you a story that you can interrupt.",
    )


def answer(text: str, memory: Memory, now: datetime) -> Reply:
    """The reply to an utterance that has words."""
    said = Said.of(text)
    if memory.asked_length:
        memory = dataclasses.replace(memory, asked_length=False)
        if (reply := timers.start(said, memory, now)) is not None:
            return reply
    for skill in SKILLS:
        if (reply := skill(said, memory, now)) is not None:
            return reply
    return manners.fallback(said, memory, now)


def answer_without_words(frames: int, memory: Memory) -> Reply:
    """The reply of an agent without a recogniser to an utterance of so many frames: stories and jokes in turn."""
    length = timers.speak_duration(timedelta(seconds=frames * FRAME_S))
    heard = f"I heard you speak for {length}, but I cannot understand words."
    if memory.stories_told <= memory.jokes_told:
        topic = tuple(tales.STORIES)[(memory.seed + memory.stories_told) % len(tales.STORIES)]
        told = dataclasses.replace(memory, stories_told=memory.stories_told + 1)
        return Reply("deaf", (heard, *tales.STORIES[topic]), told)
    joke = tales.JOKES[(memory.seed + memory.jokes_told) % len(tales.JOKES)]
    return Reply("deaf", (heard, *joke), dataclasses.replace(memory, jokes_told=memory.jokes_told + 1))
