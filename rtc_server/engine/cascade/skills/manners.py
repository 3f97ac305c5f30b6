"""Greeting, thanks, goodbye, stop, help, and an honest word about what the agent cannot do."""

from __future__ import annotations

import dataclasses
import re
from datetime import datetime

from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said

CAN_DO = "You can ask me for the time, a sum, a timer, a story or a joke."
_BACKCHANNEL = re.compile(
    r"m+|mhm|hm+|uh|huh|um|yeah|yep|yes|okay|ok|right|sure|oh|ah|wow|aha|alright|cool|nice|good|i|see"
)
_MAX_QUOTED_WORDS = 12


def stop(said: Said, memory: Memory, now: datetime) -> Reply | None:
    """Asked to be quiet it says so in a word, and then is."""
    if not said.has(r"stop|wait|quiet|silence|shut up|hush|enough|hold on|pause|never mind"):
        return None
    return Reply("stop", ("Okay, I stopped.",), memory)


def help_(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"help|what can you do|what do you do|what can i (?:ask|say|do).*|how does this work|your skills"):
        return None
    more = "I also count, repeat after you, and remember your name."
    return Reply("help", (CAN_DO, more, "And you can interrupt me whenever you like."), memory)


def thanks(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"thanks?|thank you"):
        return None
    return Reply("thanks", (f"You are welcome{_comma_name(memory)}.",), memory)


def goodbye(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"bye|goodbye|bye bye|good night|see you(?: later)?|talk to you later"):
        return None
    return Reply("goodbye", (f"Goodbye{_comma_name(memory)}. It was nice talking with you.",), memory)


def how_are_you(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"how are you.*|how do you (?:do|feel)|how is it going|how's it going|you okay"):
        return None
    return Reply("how are you", ("I am well, every eighty milliseconds. How are you?",), memory)


def hearing(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"can you hear me.*|do you hear me|are you there|is this working|does this work|testing|test"):
        return None
    return Reply("hearing", (f"Yes{_comma_name(memory)}, I hear you.",), memory)


def weather(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"weather|rain(?:ing)?|sunny|temperature|forecast|news"):
        return None
    return Reply("weather", ("I have no window and no internet, so I cannot tell.", CAN_DO), memory)


def greet(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"hello|hi|hey|good (?:morning|afternoon|evening)|greetings"):
        return None
    return Reply("greet", (f"Hello{_comma_name(memory)}!", "What would you like to do?"), memory)


def acknowledge(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not is_backchannel(said) and not said.has(r"no|nope|nothing|no thanks?"):
        return None
    return Reply("acknowledge", ("All right.",), memory)


def fallback(said: Said, memory: Memory, now: datetime) -> Reply:
    """Repeats what it understood, says that it is lost, and what it can do: the long version only now and then."""
    words = said.text.strip().rstrip(".!?,;: ").split()
    quoted = " ".join(words[:_MAX_QUOTED_WORDS]) + (" and so on" if len(words) > _MAX_QUOTED_WORDS else "")
    sentences: tuple[str, ...] = (f"I heard: {quoted}.", "I do not know what to do with that.")
    if memory.fallbacks % 3 == 0:
        sentences = (*sentences, CAN_DO)
    return Reply("fallback", sentences, dataclasses.replace(memory, fallbacks=memory.fallbacks + 1))


def is_backchannel(said: Said) -> bool:
    """Only the small noises of somebody who listens: no reason to stop talking."""
    words = said.plain.split()
    return bool(words) and all(_BACKCHANNEL.fullmatch(word) for word in words)


def _comma_name(memory: Memory) -> str:
    return f", {memory.user_name}" if memory.user_name else ""
