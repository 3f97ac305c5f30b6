"""Speech with its words: recordings one after the other, and who says what in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import SAMPLE_RATE
from rtc_server.errors import ConfigError
from rtc_server.media.pcm import to_float
from rtc_server.media.wav import read_wav

LABELS = "labels.json"
TEST_SPEECH = Path(__file__).resolve().parents[2] / "tests" / "data" / "speech"
"""In a checkout; wheels hold none."""
_MARGIN_S = 0.3
"""Around an utterance: what its recogniser gets too."""


@dataclass(frozen=True, slots=True)
class Utterance:
    text: str
    begin: int
    """Sample of its `Speech`."""
    end: int


@dataclass(frozen=True, slots=True)
class Speech:
    pcm: NDArray[np.float32]
    """[n] at 24 kHz, in [-1, 1]."""
    utterances: tuple[Utterance, ...]
    """Those whose words are known; there may be none."""

    @property
    def seconds(self) -> float:
        return self.pcm.size / SAMPLE_RATE

    def without_pauses(self, seconds: float) -> NDArray[np.float32]:
        """The utterances alone, over and over; everything where none are known."""
        said = [self.pcm[one.begin : one.end] for one in self.utterances] or [self.pcm]
        return np.resize(np.concatenate(said), round(seconds * SAMPLE_RATE))

    def surroundings(self, utterance: Utterance) -> tuple[int, int]:
        """An utterance with a moment before and after it, as samples [begin, end)."""
        margin = round(_MARGIN_S * SAMPLE_RATE)
        return max(0, utterance.begin - margin), min(self.pcm.size, utterance.end + margin)


def load_speech(files: Sequence[Path] = ()) -> Speech:
    """The recordings `files`, or the project's own test speech.

    The words of a recording stand in ``labels.json`` beside it: {"NAME.wav": [{"who": "user", "start": seconds, "end":
    seconds, "text": words}]}.

    Raises: ConfigError when a file or its labels cannot be read, or there is no test speech here.
    """
    recordings = [(path, _labels(path.parent).get(path.name, [])) for path in files or _test_recordings()]
    sounds: list[NDArray[np.float32]] = []
    utterances: list[Utterance] = []
    length = 0
    for path, labels in recordings:
        sound = to_float(read_wav(path))
        utterances += [_utterance(label, length, path) for label in labels if label.get("who") == "user"]
        sounds.append(sound)
        length += sound.size
    return Speech(np.concatenate(sounds), tuple(utterances))


def _test_recordings() -> list[Path]:
    names = [name for name, labels in _labels(TEST_SPEECH).items() if any(label.get("text") for label in labels)]
    if not names:
        raise ConfigError("there is no speech here: wheels hold none", hint="name recordings with --speech FILE.wav")
    return [TEST_SPEECH / name for name in sorted(names)]


def _labels(folder: Path) -> dict[str, list[dict[str, Any]]]:
    path = folder / LABELS
    if not path.is_file():
        return {}
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if not isinstance(labels, dict) or not all(_is_list_of_objects(entry) for entry in labels.values()):
        raise ConfigError(f"{path} is no list of utterances by file name")
    return labels


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _utterance(label: dict[str, Any], offset: int, path: Path) -> Utterance:
    try:
        begin, end = (offset + round(float(label[key]) * SAMPLE_RATE) for key in ("start", "end"))
        return Utterance(str(label["text"]), begin, end)
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{path.parent / LABELS}: an utterance of {path.name} lacks start, end or text") from None
