"""Stories, each longer than twenty seconds so that there is something to interrupt, and jokes."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said

STORIES: dict[str, tuple[str, ...]] = {
    "sea": (
        "Once upon a time, a small boat left the harbor before sunrise.",
        "The sea was calm and silver, and the sailor sang to the gulls.",
        "By noon the wind had fallen asleep, and the boat stood still.",
        "So the sailor told the sea a story, to pass the time.",
        "The sea had never heard a story before, and it came closer to listen.",
        "Wave after wave lifted the boat, and each one carried it a little further.",
        "When the story was over, the boat lay at the beach of an island that was on no map.",
        "An old woman sat there, mending a net, and she was not surprised at all.",
        "They all come here when they tell it well, she said, and she put the kettle on.",
        "The sailor stayed for supper, and in the morning the sea asked for another story.",
    ),
    "train": (
        "There was once a little train that was afraid of tunnels.",
        "Every evening it stopped in front of the mountain and waited for somebody to go first.",
        "The passengers read their books, and the driver poured himself some tea.",
        "One evening, a girl climbed down and walked to the mouth of the tunnel.",
        "She called hello into the dark, and the dark said hello to her.",
        "It sounds friendly, she told the train, but it does not know many words.",
        "The train thought about that for a while, and then it blew its whistle.",
        "The tunnel whistled back, a little lower, like a big brother.",
        "So the train rolled in, slowly at first, and they whistled together all the way through.",
        "On the other side there was the lake, and the lights of the town, and nobody was late.",
    ),
    "clock": (
        "In a tower above the market lived a clock that was always five minutes late.",
        "The baker was used to it, and the mayor had written it three letters.",
        "One winter a young clockmaker climbed the stairs to find out what was wrong.",
        "She looked at every wheel and every spring, and all of them were perfect.",
        "Then she sat down, because there were many stairs, and looked out of the window.",
        "Below her, a boy ran across the square to catch the last bus.",
        "The clock held its breath, and did not strike, until he had jumped aboard.",
        "Only then did it ring the hour, loud and clear, as if nothing had happened.",
        "The clockmaker closed her bag and went down again, very quietly.",
        "She told the mayor that it could not be repaired, and that she was sorry.",
    ),
}
JOKES: tuple[tuple[str, str], ...] = (
    ("Why did the packet cross the network?", "Nobody knows, it has not arrived yet."),
    ("What did the microphone say to the loudspeaker?", "You never listen."),
    ("Why was the clock sent out of the classroom?", "It tocked too much."),
    ("What do you call a fish without an eye?", "A fsh."),
    ("Why do programmers prefer the dark?", "Because light attracts bugs."),
    ("What is brown and sticky?", "A stick."),
)
_TOPICS = {
    "sea": r"sea|boats?|ships?|sailors?|ocean|water|island",
    "train": r"trains?|tunnels?|railways?|mountains?",
    "clock": r"clocks?|towers?|winter|watch",
}


def story(said: Said, memory: Memory, now: datetime) -> Reply | None:
    """Tells the story of the topic that was named, else the next one; the seed says which comes first."""
    if not said.has(r"story|stories|tale|fairy tale"):
        return None
    topics = tuple(STORIES)
    named = (topic for topic, pattern in _TOPICS.items() if said.has(pattern))
    topic = next(named, topics[(memory.seed + memory.stories_told) % len(topics)])
    return Reply("story", STORIES[topic], dataclasses.replace(memory, stories_told=memory.stories_told + 1))


def joke(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(r"jokes?|something funny|make me laugh"):
        return None
    chosen = JOKES[(memory.seed + memory.jokes_told) % len(JOKES)]
    return Reply("joke", chosen, dataclasses.replace(memory, jokes_told=memory.jokes_told + 1))
