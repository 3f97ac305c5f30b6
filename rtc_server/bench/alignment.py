"""Which sample of the clean sound is each sample that was heard? The delay between them moves in steps.

A buffer that adapts cuts and stretches, so one correlation over everything finds nothing. Here each stretch of 20 ms is
correlated with the clean sound at every delay, and the path through all stretches is taken that fits best, where every
change of the delay costs something (a Viterbi search). Where a step lies is then found to the sample.

Sans-IO, numpy only. Sounds are mono at 24 kHz in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import SAMPLE_RATE
from rtc_server.media.resample import Resampler

COARSE_HZ = 8_000
HOP_S = 0.020
WINDOW_S = 0.060
CHANGE_COST = 1.0
"""In correlations of a stretch: so much must the stretches behind a step gain together."""
KNOWN_LIKENESS = 0.6
"""From this correlation on, the delay of a stretch counts as known: below it lie pauses and concealed sound."""
INAUDIBLE = 1e-4
"""A stretch counts by how far it lies above this level: the noise of a pause tells the delay as well as speech does,
since it too comes sample by sample, and digital silence tells nothing."""
_STEP = SAMPLE_RATE // COARSE_HZ
_HOP = round(HOP_S * SAMPLE_RATE)
_BATCH = 64
_SEARCH_SAMPLES = 720
"""A step is looked for so far before and after where the stretches say it lies."""
_LONGEST_FIT_SAMPLES = 24_000

Sound = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Of `heard`: sample ``i`` is sample ``i - lags[i]`` of `clean`."""

    lags: NDArray[np.int64]
    """[n] delay of each sample that was heard."""
    likeness: NDArray[np.float64]
    """[hops] correlation of each stretch of 480 samples with its place in the clean sound, -1..1."""

    def known(self, sample: int) -> bool:
        """Is the delay at this sample more than a guess?"""
        hop = min(sample // _HOP, self.likeness.size - 1)
        return bool(self.likeness[hop] >= KNOWN_LIKENESS)

    def reference(self, clean: Sound) -> Sound:
        """The clean sound, sample by sample in step with what was heard; silence where there is none."""
        at = np.arange(self.lags.size) - self.lags
        inside = (at >= 0) & (at < clean.size)
        return np.where(inside, clean[np.clip(at, 0, max(clean.size - 1, 0))], 0).astype(np.float32)


def align(clean: Sound, heard: Sound, least_lag: int, most_lag: int) -> Alignment:
    """Find the delay of every sample of `heard` behind `clean`, from `least_lag` to `most_lag` samples.

    Time grows with n * (most_lag - least_lag): about 0.5 s for a minute of sound and delays within 0.5 s.
    """
    hops = heard.size // _HOP
    if not hops:
        return Alignment(np.full(heard.size, least_lag, np.int64), np.zeros(1))
    likeness, weight = _likenesses(_coarse(clean), _coarse(heard), hops, least_lag // _STEP, most_lag // _STEP)
    path = _best_path(likeness * weight[:, None].astype(np.float32))
    found = likeness[np.arange(hops), path].astype(np.float64)
    runs = [(begin * _HOP, end * _HOP, (least_lag // _STEP + int(path[begin])) * _STEP) for begin, end in _runs(path)]
    runs = [(begin, end, _fit(clean, heard, begin, end, lag)) for begin, end, lag in runs]
    lags = np.empty(heard.size, np.int64)
    begin = 0
    for (_, end, lag), (_, next_end, next_lag) in zip(runs, [*runs[1:], (0, heard.size, runs[-1][2])], strict=True):
        end = _step_at(
            clean, heard, max(begin, end - _SEARCH_SAMPLES), min(next_end, end + _SEARCH_SAMPLES), lag, next_lag
        )
        lags[begin:end] = lag
        begin = end
    lags[begin:] = runs[-1][2]
    return Alignment(lags, found)


def _coarse(sound: Sound) -> Sound:
    """At 8 kHz; both sounds are delayed alike by that."""
    return Resampler(SAMPLE_RATE, COARSE_HZ).process(sound)


def _likenesses(
    clean: Sound, heard: Sound, hops: int, least: int, most: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Normalised correlation of each stretch at each delay [hops, delays], and how much each stretch counts [hops]."""
    hop, window = round(HOP_S * COARSE_HZ), round(WINDOW_S * COARSE_HZ)
    delays = most - least + 1
    before = (window - hop) // 2
    size = 1 << (delays + window - 1).bit_length()
    # Silence around both, so that every stretch has its window and every delay its place.
    heard = np.pad(heard, (before, window))
    first = before + most  # how far in front of its own place a stretch may lie in the clean sound
    clean = np.pad(clean, (first, max(0, hops * hop + window + delays - clean.size)))
    energy = np.concatenate([np.zeros(1), np.cumsum(clean.astype(np.float64) ** 2)])
    starts = np.arange(hops) * hop
    likeness = np.empty((hops, delays), np.float32)
    power = np.empty(hops)
    for begin in range(0, hops, _BATCH):
        at = starts[begin : begin + _BATCH]
        stretches = heard[at[:, None] + np.arange(window)]
        places = clean[np.minimum(at[:, None] + np.arange(delays + window - 1), clean.size - 1)]
        spectra = np.fft.rfft(places, size) * np.conj(np.fft.rfft(stretches, size))
        matched = np.fft.irfft(spectra, size)[:, :delays]  # place p: delay most - p
        last = np.minimum(at[:, None] + np.arange(delays) + window, clean.size)
        local = np.maximum(energy[last] - energy[np.minimum(last - window, clean.size)], 1e-9)
        power[begin : begin + _BATCH] = (stretches.astype(np.float64) ** 2).sum(axis=1)
        own = np.maximum(power[begin : begin + _BATCH], 1e-9)
        likeness[begin : begin + _BATCH] = (matched / np.sqrt(local * own[:, None]))[:, ::-1]
    return likeness, power / (power + window * INAUDIBLE**2)


def _best_path(gain: NDArray[np.float32]) -> NDArray[np.int64]:
    """Index of the delay per stretch, so that the gains less the costs of all changes are greatest."""
    stretches, delays = gain.shape
    total = gain[0].astype(np.float64)
    stayed = np.empty((stretches, delays), np.bool_)
    best = np.zeros(stretches, np.int64)
    for stretch in range(1, stretches):
        best[stretch] = total.argmax()
        changed = total[best[stretch]] - CHANGE_COST
        stayed[stretch] = total >= changed
        total = np.maximum(total, changed) + gain[stretch]
    path = np.empty(stretches, np.int64)
    path[-1] = total.argmax()
    for stretch in range(stretches - 1, 0, -1):
        path[stretch - 1] = path[stretch] if stayed[stretch, path[stretch]] else best[stretch]
    return path


def _runs(path: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    edges = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), path.size]
    yield from zip(edges[:-1], edges[1:], strict=True)


def _fit(clean: Sound, heard: Sound, begin: int, end: int, lag: int) -> int:
    """The delay to the sample, near one that is right to `_STEP` samples."""
    if end - begin > _LONGEST_FIT_SAMPLES:  # the loudest part of a long run says enough
        loudness = np.convolve(heard[begin:end] ** 2, np.ones(_HOP, np.float32), "same")
        middle = begin + int(loudness.argmax())
        begin = max(begin, min(middle - _LONGEST_FIT_SAMPLES // 2, end - _LONGEST_FIT_SAMPLES))
        end = begin + _LONGEST_FIT_SAMPLES
    sound = heard[begin:end]
    return min(
        range(lag - _STEP, lag + _STEP + 1),
        key=lambda near: float(((sound - _place(clean, begin, end, near)) ** 2).sum()),
    )


def _place(clean: Sound, begin: int, end: int, lag: int) -> Sound:
    """`clean` as it would be heard from `begin` to `end` with this delay."""
    wanted = np.zeros(end - begin, np.float32)
    first, last = max(0, begin - lag), min(clean.size, end - lag)
    if first < last:
        wanted[first - begin + lag : last - begin + lag] = clean[first:last]
    return wanted


def _step_at(clean: Sound, heard: Sound, begin: int, end: int, lag: int, next_lag: int) -> int:
    """Where between `begin` and `end` the delay changes, so that the rest is least."""
    if begin >= end:
        return begin
    sound = heard[begin:end]
    before = np.cumsum((sound - _place(clean, begin, end, lag)) ** 2)
    behind = np.cumsum(((sound - _place(clean, begin, end, next_lag)) ** 2)[::-1])[::-1]
    total = np.concatenate([np.zeros(1), before]) + np.concatenate([behind, np.zeros(1)])
    return begin + int(total.argmin())
