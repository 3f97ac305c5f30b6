"""The whole pipeline with its real models, in lockstep with them, so that the machine's speed does not matter."""

from __future__ import annotations

import json
import re
import wave
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from rtc_server.engine.cascade import dialogue
from rtc_server.engine.cascade.models import Models, load_models
from rtc_server.engine.cascade.skills.reply import Memory
from rtc_server.engine.cascade.skills.tales import JOKES, STORIES
from rtc_server.engine.cascade.stepper import CascadeStepper
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES, Heard, SessionPrompt
from rtc_server.media.resample import Resampler
from tests.engine.cascade.fakes import NOON

pytestmark = [pytest.mark.e2e]
pytest.importorskip("hibari")
pytest.importorskip("ctranslate2")

SPEECH = Path(__file__).parents[2] / "data" / "speech"
LABELS = json.loads((SPEECH / "labels.json").read_text())
QUIET_FRAMES = 75
"""The greeting is over after so many frames of silence."""
DIGITS = {"10": "ten", "7": "seven"}


def noon() -> datetime:
    return NOON


@pytest.fixture(scope="module")
def models() -> Models:
    return load_models(None)


@dataclass
class Conversation:
    """What happened; frame 0 is the first of the recording."""

    words: list[tuple[int, str]] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(word for _, word in self.words)

    @property
    def final(self) -> list[str]:
        return [heard.text for heard in self.heard if heard.final]

    def sounding(self, start_s: float, end_s: float) -> list[bool]:
        return [level > 0 for level in self.levels[round(start_s / FRAME_S) : round(end_s / FRAME_S)]]


def read(name: str) -> np.ndarray:
    with wave.open(str(SPEECH / name)) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
    return np.pad(pcm, (0, -len(pcm) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES)


def converse(models: Models, frames: np.ndarray, silence_s: float = 5.0) -> Conversation:
    stepper = CascadeStepper(1, models=models, clock=noon)
    stepper.open(0, SessionPrompt())
    while not stepper.prefill(0, 1.0):
        pass
    conversation = Conversation()
    silence = np.zeros((round(silence_s / FRAME_S), FRAME_SAMPLES), np.float32)
    lead = np.zeros((QUIET_FRAMES, FRAME_SAMPLES), np.float32)
    for n, frame in enumerate(np.concatenate((lead, frames, silence)), -QUIET_FRAMES):
        assert stepper.drain()
        output = stepper.step(frame[None], np.ones(1, np.bool_))
        assert not output.failed
        if n < 0:
            continue
        if output.text[0]:
            conversation.words.append((n, output.text[0]))
        conversation.heard.extend(output.heard[0])
        conversation.levels.append(float(np.abs(output.pcm[0]).max()))
    return conversation


def plain(text: str) -> list[str]:
    return [DIGITS.get(word, word) for word in re.findall(r"[a-z0-9:']+", text.lower())]


def word_errors(said: str, heard: str) -> int:
    return edits(plain(said), plain(heard))


def character_errors(said: str, heard: str) -> int:
    """Blind to spaces and punctuation, which digits and times are written with in more than one way."""
    return edits(re.sub(r"[^a-z0-9]", "", said.lower()), re.sub(r"[^a-z0-9]", "", heard.lower()))


def edits(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Insertions, deletions and substitutions that make one of the other."""
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(hypothesis, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("01_single_turn.wav", "I have no window and no internet"),
        ("02_two_turns.wav", "Okay, I will tell you in 10 minutes."),
        ("03_barge_in.wav", "It is 12:05 PM."),
    ],
)
def test_every_utterance_is_understood_and_answered_in_time(models: Models, name: str, reply: str) -> None:
    conversation = converse(models, read(name))
    labels = LABELS[name]
    assert len(conversation.final) == len(labels)
    said = " ".join(label["text"] for label in labels)
    assert word_errors(said, " ".join(conversation.final)) <= 0.1 * len(plain(said))
    finals = [heard for heard in conversation.heard if heard.final]
    for label, heard in zip(labels, finals, strict=True):
        assert (heard.start_frame - QUIET_FRAMES) * FRAME_S == pytest.approx(label["start"], abs=0.2)
        assert (heard.end_frame - QUIET_FRAMES + 1) * FRAME_S == pytest.approx(label["end"], abs=0.2)
        silent = conversation.sounding(label["end"], label["end"] + 0.4)
        answered = conversation.sounding(label["end"] + 0.4, label["end"] + 0.9)
        assert not any(silent)
        assert any(answered)
    assert reply in conversation.text


def test_speech_over_the_story_cuts_it_and_the_cut_words_are_never_shown(models: Models) -> None:
    conversation = converse(models, read("03_barge_in.wav"))
    onset_s = LABELS["03_barge_in.wav"][1]["start"]
    assert all(conversation.sounding(onset_s - 0.5, onset_s))
    assert not any(conversation.sounding(onset_s + 0.4, onset_s + 3.0))
    assert conversation.text.startswith(" Once upon a time, a small boat left")
    assert conversation.text.endswith(" Okay, I stopped. It is 12:05 PM.")
    assert "calm and silver" not in conversation.text


@pytest.mark.parametrize("name", ["05_noise_only.wav", "07_silence.wav"])
def test_noise_clicks_and_silence_trigger_nothing(models: Models, name: str) -> None:
    conversation = converse(models, read(name))
    assert conversation.words == []
    assert conversation.heard == []
    assert not any(conversation.levels)


def test_a_turn_in_noise_at_10_db_is_one_turn_with_most_of_its_words(models: Models) -> None:
    conversation = converse(models, read("06_noisy_turn.wav"))
    assert len(conversation.final) == 1
    assert word_errors(LABELS["06_noisy_turn.wav"][0]["text"], conversation.final[0]) <= 5
    assert conversation.text.startswith(f" I heard: {conversation.final[0].rstrip('.')}")


def test_the_agents_own_voice_in_the_microphone_stops_it_once_at_most(models: Models) -> None:
    """No headphones, no echo cancellation: what it says comes back 160 ms later, 20 dB down."""
    stepper = CascadeStepper(1, models=models, clock=noon)
    stepper.open(0, SessionPrompt())
    while not stepper.prefill(0, 1.0):
        pass
    echo = [np.zeros(FRAME_SAMPLES, np.float32)] * 2
    heard: list[Heard] = []
    text = ""
    for n in range(200):
        assert stepper.drain()
        output = stepper.step(echo[n][None], np.ones(1, np.bool_))
        echo.append(0.1 * output.pcm[0])
        heard.extend(output.heard[0])
        text += output.text[0] or ""
    assert heard == []
    assert text.count("Hi,") <= 2
    assert text.endswith("Hi, I'm the demo voice. Ask me the time, tell me your name, or interrupt me.")


SENTENCES = {
    "greeting": dialogue.greeting(Memory(), understands=True),
    "greeting without words": dialogue.greeting(Memory(), understands=False),
    **{f"story of the {topic}": story[:4] for topic, story in STORIES.items()},
    "jokes": tuple(sentence for joke in JOKES if "fish" not in joke[0] for sentence in joke),
    **{
        text: dialogue.answer(text, Memory(user_name="Alex"), NOON).sentences
        for text in (
            "My name is Maria.",
            "What is my name?",
            "Who are you?",
            "What time is it?",
            "What day is it?",
            "What is twelve times twelve?",
            "Set a timer for ten minutes.",
            "Set a timer.",
            "Cancel the timer.",
            "Repeat after me, the sky is blue.",
            "Count to ten.",
            "Help.",
            "What's the weather like?",
            "How are you?",
            "Can you hear me?",
            "Stop.",
            "Goodbye.",
            "Thank you.",
            "Hello.",
            "Please book a table for two people.",
        )
    },
}


@pytest.mark.parametrize("skill", SENTENCES)
def test_what_the_voice_says_can_be_understood(models: Models, skill: str) -> None:
    """The round trip: every sentence, spoken by the voice and recognised."""
    assert models.recogniser is not None
    errors = characters = 0
    for sentence in SENTENCES[skill]:
        heard = models.recogniser.transcribe(Resampler(24_000, 16_000).process(models.voice.speak(sentence)))
        errors += character_errors(sentence, heard)
        characters += len(sentence)
    assert errors <= 0.15 * characters
