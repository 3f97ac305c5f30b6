"""From what calls sent and what the engine heard to the figures of `loss`. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.alignment import Alignment, align
from rtc_server.bench.analysis import percentile
from rtc_server.bench.figures import Figures, rounded
from rtc_server.bench.losscalls import STANDSTILL_S, HeardCall
from rtc_server.bench.quality import log_spectral_distance_db, word_errors, words_of
from rtc_server.bench.speech import Speech
from rtc_server.engine.stepper import FRAME_MS, FRAME_S, FRAME_SAMPLES, SAMPLE_RATE

MOST_DELAY_S = 0.6
"""Of the buffer and the network together; a buffer that adds more is broken."""
RECOVERED_WITHIN_MS = 20.0
BASE_S = 3.0
"""The delay of so long before the standstill is what must come back..."""
FOLLOWED_S = 7.0
"""...and so long behind it is looked at."""

FindWords = Callable[[NDArray[np.float32]], str]
Delay = tuple[float, float]
"""(when the frame was given to the engine, what the buffer had added to its last sample, in ms)"""


def loss_figures(
    calls: Sequence[HeardCall], speech: Speech, network_delay_ms: float, find_words: FindWords | None
) -> Figures:
    """Of one run; `find_words` None leaves the words out."""
    heard = [HeardSpeech.of(call, speech.pcm.size) for call in calls]
    delays_ms = [ms for one in heard for _, ms in one.delays(network_delay_ms)]
    recoveries = [recovery_s(call, network_delay_ms) for call in calls]
    return {
        "engine_time_missing_ms": max(engine_time_missing_ms(call) for call in calls),
        "lsd_db": rounded(float(np.mean([one.distance_db() for one in heard]))),
        "added_delay_p50_ms": rounded(percentile(delays_ms, 50), 1),
        "added_delay_p95_ms": rounded(percentile(delays_ms, 95), 1),
        "recovery_s": rounded(max((one for one in recoveries if one is not None), default=None)),
        "recovery_p50_s": rounded(percentile([one for one in recoveries if one is not None], 50)),
        **word_figures(heard, speech, find_words),
        "calls": len(calls),
        "lost": rounded(float(np.mean([call.lost for call in calls])), 4),
    }


def engine_time_missing_ms(call: HeardCall) -> float:
    """Whole frames that the time of the call had room for and the engine was not given; below 0: given too many."""
    begin_s, end_s = call.live_s
    at_s = call.recording.at_s
    # Steps scatter around edges 80 ms apart; their phase is the mean on a circle of 80 ms.
    turns = np.exp(2j * np.pi * (at_s - begin_s) / FRAME_S)
    phase_s = float(np.angle(turns.sum())) / (2 * np.pi) * FRAME_S % FRAME_S
    last = int((end_s - begin_s - phase_s) // FRAME_S)
    edges = np.rint((at_s - begin_s - phase_s) / FRAME_S)
    given = int(np.count_nonzero((edges >= 0) & (edges <= last)))
    return float((last + 1 - given) * FRAME_MS)


@dataclass(frozen=True, slots=True)
class HeardSpeech:
    """A stretch of a call, with its place in the clean sound."""

    clean: NDArray[np.float32]
    """[n] sample by sample what was captured when..."""
    heard: NDArray[np.float32]
    """...the engine was given this [n], if nothing took any time; whole frames."""
    alignment: Alignment
    at_s: NDArray[np.float64]
    """[n / 1920] when each frame was given."""
    begins: int
    """Sample at which the stretch that was asked for begins in `clean`."""

    @classmethod
    def of(cls, call: HeardCall, samples: int, at: int | None = None) -> HeardSpeech:
        """`samples` of the clean stream from `at` on (default: the speech), with a second before it."""
        at = call.speech_at if at is None else at
        at_s = call.recording.at_s
        # The steps scatter, the sound does not: frames lie 80 ms apart on a line through all of them.
        line_s = at_s - np.arange(at_s.size) * FRAME_S
        first_step_s = float(np.median(line_s))
        # With no delay at all, this sample of the clean stream would begin the first frame.
        origin = round((first_step_s - call.captured_s) * SAMPLE_RATE) - FRAME_SAMPLES
        first = max(0, (at - SAMPLE_RATE - origin) // FRAME_SAMPLES, -(origin // FRAME_SAMPLES))
        last = min(at_s.size, -(-(at + samples + round(MOST_DELAY_S * SAMPLE_RATE) - origin) // FRAME_SAMPLES))
        last = max(first, last)
        begin, end = origin + first * FRAME_SAMPLES, origin + last * FRAME_SAMPLES
        clean = np.zeros(end - begin, np.float32)
        there = call.clean[begin:end]
        clean[: there.size] = there
        heard = call.recording.sound()[first * FRAME_SAMPLES : last * FRAME_SAMPLES]
        alignment = align(clean, heard, 0, round(MOST_DELAY_S * SAMPLE_RATE))
        return cls(clean, heard, alignment, at_s[first:last], at - begin)

    def distance_db(self) -> float:
        return log_spectral_distance_db(self.alignment.reference(self.clean), self.heard)

    def delays(self, network_delay_ms: float) -> list[Delay]:
        """Of the frames whose delay is known."""
        ends = (np.arange(self.at_s.size) + 1) * FRAME_SAMPLES - 1
        return [
            (float(at_s), float(self.alignment.lags[end]) / SAMPLE_RATE * 1000 - network_delay_ms)
            for at_s, end in zip(self.at_s, ends, strict=True)
            if self.alignment.known(int(end))
        ]

    def part(self, begin: int, end: int) -> NDArray[np.float32]:
        """What was heard of the samples [begin, end) of the stretch."""
        places = np.arange(self.heard.size) - self.alignment.lags - self.begins
        inside = np.flatnonzero((places >= begin) & (places < end))
        return self.heard[inside[0] : inside[-1] + 1] if inside.size else self.heard[:0]

    def clean_part(self, begin: int, end: int) -> NDArray[np.float32]:
        return self.clean[self.begins + begin : self.begins + end]


def recovery_s(call: HeardCall, network_delay_ms: float) -> float | None:
    """From the standstill's end until the added delay stays within 20 ms of what it was before; None: not to be told.

    A frame counts only together with its neighbours (median of three), so that one mistaken delay does not.
    """
    begin_s = call.standstill_end_s - STANDSTILL_S
    first = round((begin_s - BASE_S - call.captured_s) * SAMPLE_RATE)
    stretch = HeardSpeech.of(call, round((BASE_S + STANDSTILL_S + FOLLOWED_S) * SAMPLE_RATE), first)
    delays = stretch.delays(network_delay_ms)
    base_ms = percentile([ms for at_s, ms in delays if begin_s - BASE_S <= at_s < begin_s], 50)
    after = [delay for delay in delays if delay[0] >= call.standstill_end_s]
    if base_ms is None or len(after) < 3:
        return None
    smooth_ms = [float(np.median([ms for _, ms in after[max(0, k - 1) : k + 2]])) for k in range(len(after))]
    above = [at_s for (at_s, _), ms in zip(after, smooth_ms, strict=True) if ms > base_ms + RECOVERED_WITHIN_MS]
    return above[-1] - call.standstill_end_s if above else 0.0


def word_figures(heard: Sequence[HeardSpeech], speech: Speech, find_words: FindWords | None) -> Figures:
    """Wrong words per word said, over all calls; and the same of the clean sound, which is the recogniser's own."""
    figures: Figures = {"word_error": None, "clean_word_error": None, "word_error_points": None, "words": 0}
    said = [(words_of(utterance.text), *speech.surroundings(utterance)) for utterance in speech.utterances]
    words = len(heard) * sum(len(text) for text, _, _ in said)
    if find_words is None or not words:
        return figures
    wrong = clean_wrong = 0
    for one in heard:
        for text, begin, end in said:
            wrong += word_errors(text, words_of(find_words(one.part(begin, end))))
            clean_wrong += word_errors(text, words_of(find_words(one.clean_part(begin, end))))
    return {
        "word_error": rounded(wrong / words, 4),
        "clean_word_error": rounded(clean_wrong / words, 4),
        "word_error_points": rounded(100 * (wrong - clean_wrong) / words, 1),
        "words": words,
    }
