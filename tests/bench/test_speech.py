import json
import wave
from pathlib import Path

import numpy as np
import pytest

from rtc_server.bench import speech as speech_module
from rtc_server.bench.speech import load_speech
from rtc_server.errors import ConfigError


def write_wav(path: Path, seconds: float, rate_hz: int = 24_000) -> Path:
    samples = (np.sin(np.arange(round(seconds * rate_hz)) / 10) * 8000).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(samples.tobytes())
    return path


def test_the_test_speech_has_its_words() -> None:
    speech = load_speech()
    assert speech.seconds == 40
    assert [utterance.text.split()[0] for utterance in speech.utterances] == [
        *("Hello", "Hello,", "Can", "Tell", "Wait.", "Thank", "Please")
    ]
    for utterance in speech.utterances:
        begin, end = speech.surroundings(utterance)
        assert 0 <= begin < utterance.begin < utterance.end < end <= speech.pcm.size
        said = speech.pcm[utterance.begin : utterance.end]
        assert np.sqrt(np.mean(said**2)) > 0.02


def test_without_pauses_everything_is_said_and_goes_round() -> None:
    speech = load_speech()
    assert speech.without_pauses(30.0).size == 30 * 24_000
    quiet = np.abs(speech.without_pauses(16.0).reshape(-1, 2400)).max(axis=1) < 0.01
    assert quiet.mean() < 0.1


def test_own_recordings_may_come_with_their_words_or_without(tmp_path: Path) -> None:
    first, second = write_wav(tmp_path / "a.wav", 1.0), write_wav(tmp_path / "b.wav", 2.0, rate_hz=48_000)
    labels = {"b.wav": [{"who": "user", "start": 0.5, "end": 1.5, "text": "hello"}, {"who": "noise", "start": 0}]}
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    speech = load_speech([first, second])
    assert speech.seconds == 3
    (utterance,) = speech.utterances
    assert (utterance.text, utterance.begin, utterance.end) == ("hello", 36_000, 60_000)
    assert load_speech([first]).utterances == ()
    assert load_speech([first]).without_pauses(0.5).size == 12_000


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("{", "cannot read"),
        ("[]", "no list of utterances"),
        ('{"a.wav": 1}', "no list of utterances"),
        ('{"a.wav": [{"who": "user", "start": 0.1, "text": "hello"}]}', "lacks start, end or text"),
    ],
)
def test_labels_that_make_no_sense_are_refused(tmp_path: Path, labels: str, reason: str) -> None:
    path = write_wav(tmp_path / "a.wav", 1.0)
    (tmp_path / "labels.json").write_text(labels)
    with pytest.raises(ConfigError, match=reason):
        load_speech([path])


def test_where_there_is_no_speech_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_speech([tmp_path / "missing.wav"])
    monkeypatch.setattr(speech_module, "TEST_SPEECH", tmp_path)
    with pytest.raises(ConfigError, match=r"no speech here.*--speech"):
        load_speech()
