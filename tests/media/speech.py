"""Speech to send, and what Opus makes of it."""

from __future__ import annotations

import functools
import json
import wave
from pathlib import Path

import numpy as np

from rtc_server.media.frames import SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.opus import OpusDecoder, OpusEncoder

DATA = Path(__file__).parent.parent / "data"
TALKS = ("01_single_turn", "02_two_turns", "03_barge_in", "06_noisy_turn")


@functools.lru_cache
def speech(name: str = "01_single_turn") -> FloatSamples:
    with wave.open(str(DATA / "speech" / f"{name}.wav")) as file:
        assert file.getframerate() == SAMPLE_RATE
        assert file.getnchannels() == 1
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def speech_spans(name: str) -> list[tuple[float, float]]:
    labels = json.loads((DATA / "speech" / "labels.json").read_text())
    return [(turn["start"], turn["end"]) for turn in labels[f"{name}.wav"] if turn["who"] == "user"]


@functools.lru_cache
def long_speech(seconds: float) -> FloatSamples:
    return np.resize(speech(), int(seconds * SAMPLE_RATE))


@functools.lru_cache
def talk(seconds: float) -> FloatSamples:
    """Four speakers in turn, with their pauses and their noise."""
    return np.resize(np.concatenate([speech(name) for name in TALKS]), int(seconds * SAMPLE_RATE))


@functools.lru_cache
def talk_without_pauses(seconds: float) -> FloatSamples:
    spoken = [
        speech(name)[int(start * SAMPLE_RATE) : int(end * SAMPLE_RATE)]
        for name in TALKS
        for start, end in speech_spans(name)
    ]
    return np.resize(np.concatenate(spoken), int(seconds * SAMPLE_RATE))


def encoded(pcm: FloatSamples, packet_ms: int = 20, **settings: int | bool) -> list[bytes]:
    size = packet_ms * SAMPLES_PER_MS
    encoder = OpusEncoder(**{"expected_loss_pct": 10, **settings})  # the speech codec, as browsers send
    return [encoder.encode(pcm[at : at + size]) for at in range(0, pcm.size - size + 1, size)]


def decoded(payloads: list[bytes]) -> FloatSamples:
    decoder = OpusDecoder()
    return np.concatenate([decoder.decode(payload) for payload in payloads])
