#!/usr/bin/env python3
"""Makes the speech of this folder: a caller's side of a conversation, 24 kHz mono 16 bit, and labels.json.

    python make_speech.py [FOLDER]

Needs numpy and the program espeak-ng, whose output is nobody's recording; the same version gives the same samples.
Labels: per file a list of {who, start, end, text}, in seconds.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import wave
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
PEAK = 0.5
ROOM_NOISE = 0.0003
AUDIBLE = 0.01
MARGIN_SAMPLES = 240

Signal = NDArray[np.float64]


@dataclass
class Recording:
    """One file that is being made."""

    samples: Signal
    labels: list[dict[str, object]] = field(default_factory=list)

    def put(self, clip: Signal, at_s: float, who: str, text: str = "") -> None:
        start = round(at_s * SAMPLE_RATE)
        self.samples[start : start + len(clip)] += clip
        end_s = at_s + len(clip) / SAMPLE_RATE
        self.labels.append({"who": who, "start": round(at_s, 3), "end": round(end_s, 3), "text": text})


def say(text: str) -> Signal:
    """A sentence without the silence around it, at a peak of -6 dBFS."""
    command = ["espeak-ng", "-v", "en-us", "-s", "155", "-p", "45", "--stdout", text]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(output)) as file:
        rate = file.getframerate()
        pcm = np.frombuffer(output[44:], "<i2").astype(np.float64)
    clip = resample(pcm / 32768, rate)
    audible = np.flatnonzero(np.abs(clip) > AUDIBLE)
    clip = clip[max(0, audible[0] - MARGIN_SAMPLES) : audible[-1] + MARGIN_SAMPLES]
    return PEAK * clip / np.abs(clip).max()


def resample(pcm: Signal, rate: int) -> Signal:
    """To 24 kHz, exactly, by padding the spectrum of the whole clip."""
    length = round(len(pcm) * SAMPLE_RATE / rate)
    return np.fft.irfft(np.fft.rfft(pcm), length) * (length / len(pcm))


def room(rng: np.random.Generator, seconds: float) -> Recording:
    return Recording(ROOM_NOISE * rng.standard_normal(round(seconds * SAMPLE_RATE)))


def pink(rng: np.random.Generator, samples: int) -> Signal:
    spectrum = np.fft.rfft(rng.standard_normal(samples))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), samples)
    return noise / noise.std()


def turns(rng: np.random.Generator, seconds: float, *utterances: tuple[float, str]) -> Recording:
    recording = room(rng, seconds)
    for at_s, text in utterances:
        recording.put(say(text), at_s, "user", text)
    return recording


def noise_only(rng: np.random.Generator) -> Recording:
    """Pink noise and a click of 100 ms: nothing may take this for speech."""
    recording = Recording(np.zeros(5 * SAMPLE_RATE))
    recording.put(0.02 * pink(rng, 5 * SAMPLE_RATE), 0.0, "noise")
    click = 0.3 * rng.standard_normal(2400) * np.exp(-np.arange(2400) / 300)
    recording.put(click, 2.5, "click")
    return recording


def noisy_turn(rng: np.random.Generator) -> Recording:
    """A sentence in pink noise, 10 dB below it."""
    text = "Please book a table for two people at seven."
    clip = say(text)
    recording = room(rng, 6.0)
    recording.samples += np.sqrt(np.mean(clip**2) / 10) * pink(rng, len(recording.samples))
    recording.put(clip, 1.0, "user", text)
    return recording


def make_all() -> dict[str, Recording]:
    rng = np.random.default_rng(7)
    return {
        "01_single_turn.wav": turns(rng, 6.0, (0.8, "Hello there. What is the weather like today?")),
        "02_two_turns.wav": turns(
            rng, 11.0, (0.8, "Hello, my name is Alex."), (6.0, "Can you set a timer for ten minutes?")
        ),
        "03_barge_in.wav": turns(
            rng,
            17.0,
            (0.8, "Tell me a long story about the sea."),
            (6.5, "Wait. Stop. Please stop talking."),
            (12.0, "Thank you. What time is it?"),
        ),
        "05_noise_only.wav": noise_only(rng),
        "06_noisy_turn.wav": noisy_turn(rng),
        "07_silence.wav": Recording(np.zeros(3 * SAMPLE_RATE)),
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    recordings = make_all()
    for name, recording in recordings.items():
        with wave.open(str(folder / name), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(SAMPLE_RATE)
            file.writeframes((np.clip(recording.samples, -1, 1) * 32767).round().astype("<i2").tobytes())
    labels = {name: recording.labels for name, recording in recordings.items()}
    (folder / "labels.json").write_text(json.dumps(labels, indent=1) + "\n")


if __name__ == "__main__":
    main()
