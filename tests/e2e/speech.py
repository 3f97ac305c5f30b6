"""What the microphone hears: test utterances, tones and silence, and the file for Chromium's fake microphone."""

from __future__ import annotations

import functools
import json
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.voice import HibariVoice

DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "speech"
RATE_HZ = 48_000
PAD_S = 60.0
"""Chromium plays the file again from its start when it ends, so that silence must come first."""

Pcm = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Utterance:
    start_s: float
    end_s: float
    text: str


def silence(seconds: float) -> Pcm:
    return np.zeros(round(seconds * RATE_HZ), np.float32)


def tone(seconds: float, hz: float = 440.0, level: float = 0.2) -> Pcm:
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (level * np.sin(2 * np.pi * hz * time_s)).astype(np.float32)


def spoken(name: str) -> Pcm:
    """A recording of ``tests/data/speech`` at 48 kHz."""
    with wave.open(str(DIRECTORY / f"{name}.wav"), "rb") as file:
        rate_hz, channels = file.getframerate(), file.getnchannels()
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, channels)[:, 0]
    return resampled(samples.astype(np.float32) / 32768, rate_hz, RATE_HZ)


def utterances(name: str) -> list[Utterance]:
    """What is said in a recording, and when."""
    labels: dict[str, list[dict[str, Any]]] = json.loads((DIRECTORY / "labels.json").read_text())
    return [Utterance(label["start"], label["end"], label["text"]) for label in labels[f"{name}.wav"]]


def said(name: str, index: int) -> Pcm:
    """One utterance of a recording."""
    utterance = utterances(name)[index]
    return spoken(name)[round(utterance.start_s * RATE_HZ) : round(utterance.end_s * RATE_HZ)]


def clearly(text: str) -> Pcm:
    """A text in the demo engine's own voice: far easier to recognise than the recordings, holes and all."""
    return resampled(_voice().speak(text), 24_000, RATE_HZ)


def chatter(seconds: float) -> Pcm:
    """Speech without a pause: noise suppression takes a tone for noise."""
    parts = [said("03_barge_in", index) for index in range(3)]
    return np.resize(np.concatenate(parts), round(seconds * RATE_HZ))


def resampled(pcm: Pcm, from_hz: int, to_hz: int) -> Pcm:
    """A whole recording at another rate, through its spectrum."""
    if from_hz == to_hz:
        return pcm
    length = len(pcm) * to_hz // from_hz
    spectrum = np.fft.rfft(pcm)
    kept = min(len(spectrum), length // 2 + 1)
    wanted = np.zeros(length // 2 + 1, complex)
    wanted[:kept] = spectrum[:kept]
    return (np.fft.irfft(wanted, length) * (length / len(pcm))).astype(np.float32)


def write_microphone(path: Path, *parts: Pcm, pad_s: float = PAD_S) -> Path:
    """The file for Chromium's fake microphone: it starts when the page opens the microphone."""
    pcm = np.concatenate([*parts, silence(pad_s)])
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
    return path


@functools.cache
def _voice() -> HibariVoice:
    return HibariVoice()
