"""What came back: the sound that a page or a client heard, when somebody spoke in it, and the words."""

from __future__ import annotations

import asyncio
import base64
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.async_api import Page

from tests.e2e.speech import Pcm, resampled

EAR_JS = Path(__file__).with_name("ear.js").read_text()
SPEECH_RMS = 0.01
"""-40 dBFS."""
SILENCE_RMS = 0.001
_WINDOW_S = 0.01
_GAP_S = 0.35
_RECOGNISER_HZ = 16_000
_LONGEST_S = 19.0


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when there was sound, on the page's clock."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Recording:
    """Mono samples; `start_s` is when the first one was heard."""

    pcm: Pcm
    rate_hz: int
    start_s: float = 0.0

    @property
    def end_s(self) -> float:
        return self.start_s + len(self.pcm) / self.rate_hz

    def between(self, start_s: float, end_s: float) -> Recording:
        first = max(0, round((start_s - self.start_s) * self.rate_hz))
        last = max(first, round((end_s - self.start_s) * self.rate_hz))
        return Recording(self.pcm[first:last], self.rate_hz, self.start_s + first / self.rate_hz)

    def envelope(self, window_s: float = 0.02) -> Pcm:
        """RMS of each window."""
        size = round(self.rate_hz * window_s)
        whole = self.pcm[: len(self.pcm) // size * size].reshape(-1, size)
        return np.sqrt(np.mean(np.square(whole), axis=1))

    def spans(self, gap_s: float = _GAP_S) -> list[Span]:
        """Where there is sound; pauses shorter than `gap_s` and sounds shorter than 100 ms don't count."""
        spans: list[Span] = []
        for window in np.flatnonzero(self.envelope(_WINDOW_S) > SPEECH_RMS):
            start_s = self.start_s + float(window) * _WINDOW_S
            if spans and start_s - spans[-1].end_s < gap_s:
                spans[-1] = Span(spans[-1].start_s, start_s + _WINDOW_S)
            else:
                spans.append(Span(start_s, start_s + _WINDOW_S))
        return [span for span in spans if span.end_s - span.start_s > 0.1]

    def loudness(self) -> float:
        """RMS of it all."""
        return float(np.sqrt(np.mean(np.square(self.pcm)))) if len(self.pcm) else 0.0

    def words(self) -> str:
        """What is said in it, in small letters without punctuation, as the demo engine's own recogniser hears it."""
        said = []
        for span in self.spans(gap_s=0.6):
            end_s = min(span.end_s, span.start_s + _LONGEST_S) + 0.1
            part = self.between(span.start_s - 0.1, end_s)
            said.append(_recogniser().transcribe(resampled(part.pcm, self.rate_hz, _RECOGNISER_HZ)))
        return plain(" ".join(said))


def plain(text: str) -> str:
    """Small letters, no punctuation: what a comparison of words needs."""
    return " ".join(re.sub(r"[^a-z0-9 ]+", " ", text.lower().replace("'", "")).split())


def share_of(expected: str, heard: str) -> float:
    """How many of the expected words were heard, 0..1. Recognisers err, and busy machines tear holes."""
    words = plain(expected).split()
    return sum(word in heard.split() for word in words) / len(words)


async def heard_by(page: Page, side: str = "agent") -> Recording:
    """What a page with `EAR_JS` heard in its newest call; `side` is ``agent``, or ``user`` for its own microphone."""
    dump = await page.evaluate("side => ear.dump(side)", side)
    pcm = np.frombuffer(base64.b64decode(dump["base64"]), "<i2").astype(np.float32) / 32768
    return Recording(pcm, int(dump["rate"]), dump["startMs"] / 1000)


async def wait_heard(page: Page, *, sound: bool, since_s: float | None = None, within_s: float = 12.0) -> None:
    """Until the last second of what a page heard holds speech, or nothing at all.

    With `since_s`, on the page's clock, any second since then will do: speech that is short may be over when we look.
    """
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        heard = await heard_by(page)
        since = heard.between(heard.end_s - 1.0 if since_s is None else since_s, heard.end_s)
        level = float(max(since.envelope(1.0), default=since.loudness()))
        if level > SPEECH_RMS if sound else level < SILENCE_RMS:
            return
        assert asyncio.get_running_loop().time() < deadline, f"still a level of {level:.4f} after {within_s} s"
        await asyncio.sleep(0.5)


def best_lag(reference: Recording, heard: Recording, window_s: float = 0.02) -> tuple[float, float]:
    """By how many seconds `heard` lags behind `reference`, and how well its envelope fits there (1 is the same).

    Envelopes, since a receiver that stretches time by a sample spoils any comparison of waveforms.
    """
    wanted = reference.envelope(window_s)
    found = heard.envelope(window_s)
    fits = [
        float(np.corrcoef(wanted, found[lag : lag + len(wanted)])[0, 1])
        for lag in range(len(found) - len(wanted) + 1)
        if found[lag : lag + len(wanted)].std() > 0
    ]
    if not fits:
        return 0.0, 0.0
    lag = int(np.argmax(fits))
    return lag * window_s + heard.start_s - reference.start_s, fits[lag]


@functools.cache
def _recogniser() -> Any:
    from rtc_server.engine.cascade.recogniser import WhisperRecogniser
    from rtc_server.engine.cascade.weights import find_recogniser

    return WhisperRecogniser(find_recogniser(None))
