"""From what calls sent and what the engine heard to the figures of `loss`. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.analysis import percentile
from rtc_server.bench.figures import Figures, rounded
from rtc_server.bench.heardspeech import HeardSpeech, tick_phase_s
from rtc_server.bench.losscalls import STANDSTILL_S, HeardCall
from rtc_server.bench.quality import word_errors, words_of
from rtc_server.bench.speech import Speech
from rtc_server.engine.stepper import FRAME_MS, FRAME_S, SAMPLE_RATE

RECOVERED_WITHIN_MS = 20.0
BASE_S = 3.0
"""The delay of so long before the standstill is what must come back..."""
FOLLOWED_S = 7.0
"""...and so long behind it is looked at."""

FindWords = Callable[[NDArray[np.float32]], str]


def loss_figures(
    calls: Sequence[HeardCall], speech: Speech, network_delay_ms: float, find_words: FindWords | None
) -> Figures:
    """Of one run; `find_words` None leaves the words out."""
    heard = [HeardSpeech.of(call, call.speech_at, speech.pcm.size) for call in calls]
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
        "send_late_p99_ms": rounded(max(call.send_late_p99_ms for call in calls), 1),
    }


def engine_time_missing_ms(call: HeardCall) -> float:
    """Whole frames that the time of the call had room for and the engine was not given; below 0: given too many."""
    begin_s, end_s = call.live_s
    at_s = call.recording.at_s
    phase_s = tick_phase_s(at_s - begin_s)
    last = int((end_s - begin_s - phase_s) // FRAME_S)
    ticks = np.rint((at_s - begin_s - phase_s) / FRAME_S)
    given = int(np.count_nonzero((ticks >= 0) & (ticks <= last)))
    return float((last + 1 - given) * FRAME_MS)


def recovery_s(call: HeardCall, network_delay_ms: float) -> float | None:
    """From the standstill's end until the added delay stays within 20 ms of what it was before; None: not to be told.

    A frame counts only together with its neighbours (median of three), so that one mistaken delay does not.
    """
    begin_s = call.standstill_end_s - STANDSTILL_S
    first = round((begin_s - BASE_S - call.captured_s) * SAMPLE_RATE)
    stretch = HeardSpeech.of(call, first, round((BASE_S + STANDSTILL_S + FOLLOWED_S) * SAMPLE_RATE))
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
